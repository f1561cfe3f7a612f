/*
 * The log of a run (--log): a line of CSV for each request that was begun. Each thread collects
 * lines in a buffer of its own and appends it to the file when it is full, so that the lines of
 * different threads alternate in blocks.
 */
#ifndef LOADGEN_REQUEST_LOG_H
#define LOADGEN_REQUEST_LOG_H

#include "loadgen/stats/tally.h"

#include <stdint.h>

/* Creates FILE with the names of the columns. Returns its descriptor, or -1 with errno. */
int request_log_open(const char *file);

/* The log of one thread, by that thread. */
struct request_log {
    char *buffer;
    size_t used;
    int fd;
    int error; /* errno of the first failed write; 0: none */
};

/* Returns NULL if out of memory. FD stays the caller's. */
struct request_log *request_log_create(int fd);

/* What a line has besides the result of the request. Times are ns after the run's begin. */
struct request_log_entry {
    uint64_t due_ns, begun_ns, end_ns;
    uint32_t thread, connection; /* connections are numbered in each thread */
    bool unanswered;             /* the run ended before the response */
};

void request_log_add(struct request_log *log, const struct request_log_entry *entry,
                     const struct transaction *transaction);

/* Writes what is left and frees LOG, which may be NULL. Returns its error. */
int request_log_end(struct request_log *log);

#endif
