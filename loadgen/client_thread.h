/*
 * One thread of clients: an event loop, an engine on it, a share of the requests and a tally. It
 * ends by itself when its requests are done; others reach it only through client_thread_abandon().
 *
 * Made, started, joined and freed by the main thread.
 */
#ifndef LOADGEN_CLIENT_THREAD_H
#define LOADGEN_CLIENT_THREAD_H

#include "loadgen/engine.h"

struct client_thread;

struct client_thread_setup {
    const struct engine_ops *engine;
    const struct plan *plan;
    const struct target *target;
    struct supply *supply;
    uint32_t connections;
    int done_fd; /* an eventfd: 1 is added when the thread has ended */
};

/* Returns NULL when there is no memory or descriptor; errno says. Its share is reserved. */
struct client_thread *client_thread_create(const struct client_thread_setup *setup);

/* Starts it. Returns 0 or an errno. */
int client_thread_start(struct client_thread *thread);

/* Makes it count what is under way as unanswered and end. The supply was stopped before. */
void client_thread_abandon(struct client_thread *thread);

/* Waits for its end. Only once, and only if it was started. */
void client_thread_join(struct client_thread *thread);

/* What it counts; may be read at any time. */
const struct tally *client_thread_tally(const struct client_thread *thread);

/* What it measured of itself, once it was joined. */
struct client_thread_account {
    uint64_t begun_ns;       /* monotonic */
    uint64_t last_end_ns;    /* of the last request; begun_ns when there was none */
    uint64_t cpu_ns;         /* user and system */
    const char *other_error; /* the thread's; "" if there was none */
};
struct client_thread_account client_thread_account(const struct client_thread *thread);

/* Not while it runs. */
void client_thread_destroy(struct client_thread *thread);

#endif
