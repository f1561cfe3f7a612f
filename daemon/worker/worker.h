/*
 * A worker process. Its main thread executes the master's commands, starts and ends the serving
 * threads and the offload threads, and assigns listen sockets and connections to them. It serves no
 * requests.
 */
#ifndef DAEMON_WORKER_WORKER_H
#define DAEMON_WORKER_WORKER_H

#include "common/segment.h"
#include "daemon/config/config.h"

struct host_place;
struct rlimit;
struct certificate_set;
struct tls_tickets;

/* What the worker inherits from the master. All borrowed, except the channels. */
struct worker_setup {
    const struct config *config;
    const struct certificate_set *certificates; /* NULL: no listen socket needs them */
    struct segment *segment;
    struct tls_tickets *tickets;          /* the worker receives new keys */
    uint32_t slot;                        /* number of the worker in the segment */
    const struct host_place *host_places; /* [sites]; NULL: hosts are not counted */
    const int *roots; /* [sites] open document roots; -1: that of site 0. The worker owns them */
    int command_fd;   /* its ends of the two channels; the worker owns them */
    int connection_fd;
    int doorbell; /* eventfd: wakes the logger; not closed here */
    int alive_fd; /* write end of a pipe, of which the logger has the read end; never written */
};

/*
 * Runs until the master stops it or dies. Returns the exit status. The caller has freed the
 * master's event base and closed the descriptors that the worker does not need.
 */
int worker_run(const struct worker_setup *setup);

/*
 * The number of descriptors that the cache may hold for its entries' files in a process with LIMIT.
 */
uint32_t worker_cache_descriptors(const struct rlimit *limit);

#endif
