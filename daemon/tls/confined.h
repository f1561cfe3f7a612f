/*
 * Work in a child of the master that reads what others may have written, such as a key: nothing that
 * the child does or becomes reaches the master, and it ends soon. The master.
 */
#ifndef DAEMON_TLS_CONFINED_H
#define DAEMON_TLS_CONFINED_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum confined_result {
    CONFINED_DONE,
    CONFINED_REFUSED, /* the work failed, or took too long */
    CONFINED_FAILED,  /* there was no child, or it could not be confined */
    CONFINED_RUNS,
};

/* Returns true, or false with WHY. */
typedef bool confined_work(void *argument, char *why, size_t size);

struct confined {
    pid_t child; /* 0: none, or it has been reaped */
    int report;  /* readable at the child's end, or when it has a reason for a failure; -1: none */
    int status;  /* of the wait for it, if it has been reaped */
    uint64_t deadline_ns;
    const char *file; /* for messages; borrowed */
    size_t length;
    char why[600];
};

/*
 * Starts WORK(ARGUMENT) in a child that has a second of CPU time, and 64 MiB besides the memory of
 * the master; that is sandboxed; and has no file, no network, no shared memory, no descriptor but
 * the COUNT in FD. Returns 0, or -1 with confined->why.
 */
int confined_start(struct confined *confined, const struct config *config, const char *file,
                   const int *fd, size_t count, confined_work *work, void *argument);

/*
 * The result of the child; with WAIT never CONFINED_RUNS. A child that has not ended after 60 s
 * is killed. Sets confined->why unless it is CONFINED_DONE or CONFINED_RUNS.
 */
enum confined_result confined_result(struct confined *confined, bool wait);

/* Kills the child, if it runs. */
void confined_abandon(struct confined *confined);

#endif
