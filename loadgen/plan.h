/*
 * What a run is to do, as the command line said it. Made once, read by all threads, changed by
 * none. Texts belong to the command line.
 */
#ifndef LOADGEN_PLAN_H
#define LOADGEN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PLAN_HEADERS_MAX = 64,
    PLAN_CONNECTIONS_MAX = 1000000,
    PLAN_THREADS_MAX = 1024,
};

struct plan {
    const char *url;
    const char *method;
    const char *headers[PLAN_HEADERS_MAX]; /* "Name: value" */
    size_t header_count;
    uint32_t connections_asked;
    uint32_t connections; /* used: never more than there are requests */
    uint32_t threads;     /* never more than connections */
    uint64_t requests;    /* 0: no limit */
    uint64_t duration_ms; /* 0: no limit */
    uint64_t timeout_ms;  /* for a whole request, connecting included */
    uint64_t connect_timeout_ms;
    uint64_t grace_ms; /* how long a stopped run waits for the answers under way */
    double max_errors; /* percent of all requests */
    bool keepalive;
    bool json;
    bool progress_lines; /* JSON lines on standard error instead of the live line */
    bool quiet;
};

#endif
