/*
 * A worker that misbehaves on command, as a compromised one could. The program `traitor` is
 * webserverd with two functions of the worker wrapped by the linker (traitor.c). A test build only.
 *
 * The environment variable TRAITOR is SLOT:SOCKET. The worker of that slot has one more thread, which
 * receives orders from SOCKET (SOCK_SEQPACKET) and carries them out while the worker serves:
 *
 *     thread to driver             driver to thread
 *     ready PID                    (the worker has entered its sandbox)
 *     has PORT                     (it has the connection of a client with this port from another worker)
 *     attacks NAME ...             attacks
 *     done NAME                    NAME SEED
 *     breach NAME: WORDS           (the attack did what no worker may be able to do)
 *
 * Without an answer the attack has ended or stopped the process.
 */
#ifndef TESTS_TRAITOR_H
#define TESTS_TRAITOR_H

#include "daemon/transaction/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A mapping that is shared with other processes. */
struct mapping {
    _Atomic uint64_t *words;
    size_t count;
    bool writable;
};

enum { TRAITOR_MAPPINGS = 64 };

/* What the worker has; fixed after it has entered its sandbox. */
struct traitor {
    const struct worker_context *context;
    struct mapping mapping[TRAITOR_MAPPINGS];
    size_t mapping_count;
    ino_t segment_inode;
    int commands, connections; /* its ends of the channels to the master */
    int doorbell;
    int orders; /* socket of the driver */
    bool sandboxed;
};

/* Random numbers (splitmix64): the same seed gives the same attack. */
struct chance {
    uint64_t state;
};

uint64_t chance_number(struct chance *chance);
uint64_t chance_below(struct chance *chance, uint64_t limit);

/* A value that programs often handle wrongly: 0, powers of two and their neighbours, ... */
uint64_t chance_edge(struct chance *chance);

/* Returns NULL, or what succeeded although no worker may be able to do it. */
typedef const char *attack(const struct traitor *traitor, struct chance *chance);

#define ATTACK(name, ...) attack attack_##name;
#include "attacks.def"
#undef ATTACK

/* Tells the driver that the worker has had the connection FD, if it is one of a client. */
void report_connection(const struct traitor *taker, int fd);

/* Monotonic time at which an attack that repeats itself ends. */
uint64_t attack_end_ns(void);

#endif
