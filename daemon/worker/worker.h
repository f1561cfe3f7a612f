/*
 * A worker process: its main thread, which does what the master says, keeps the serving threads and
 * the offload threads, deals lanes and connections out, and serves nothing itself.
 */
#ifndef DAEMON_WORKER_H
#define DAEMON_WORKER_H

#include "common/segment.h"
#include "daemon/config/config.h"

/* What a fork leaves to the child. Borrowed. */
struct worker_setup {
    const struct config *config;
    struct segment *segment;
    uint32_t slot;  /* the worker's, in the segment */
    int command_fd; /* its ends of the two channels; the worker's from now on */
    int connection_fd;
    int doorbell; /* wakes the logger; stays the master's */
    int lock_fd;  /* held open: the lock lives as long as the last of us */
};

/*
 * Runs until the master says stop or leave, or is gone. Returns the exit status. The caller has
 * freed the master's event base and closed what is not the worker's.
 */
int worker_run(const struct worker_setup *setup);

#endif
