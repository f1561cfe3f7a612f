/*
 * Which worker accepts from which listen socket: row i belongs to the i-th taker, modulo their
 * number. A socket that moves is sent to its new worker before the old one drops it, so
 * that at any time some worker accepts from it. The master.
 */
#ifndef DAEMON_LISTENER_ASSIGN_H
#define DAEMON_LISTENER_ASSIGN_H

#include "daemon/base/channel.h"
#include "daemon/master/listeners.h"

/* A worker that listen sockets are assigned to. */
struct listener_taker {
    uint32_t worker;          /* slot */
    struct channel *commands; /* borrowed during the call */
};

struct listener_assign {
    uint32_t *owner; /* [count] by socket number: a worker's slot, or LISTENER_UNASSIGNED */
    uint32_t count;
};

enum { LISTENER_UNASSIGNED = UINT32_MAX };

/* Assigns every socket to one of TAKERS. Returns 0, or -1: out of memory. */
int listener_assign_update(struct listener_assign *assign, const struct listeners *listeners,
                           const struct listener_taker *takers, uint32_t count);

/* WORKER has dropped the socket ID, or all its sockets. */
void listener_assign_forget(struct listener_assign *assign, uint32_t worker, uint32_t id);
void listener_assign_forget_worker(struct listener_assign *assign, uint32_t worker);

void listener_assign_free(struct listener_assign *assign);

#endif
