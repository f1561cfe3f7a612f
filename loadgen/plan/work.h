/*
 * What a run sends: its different requests, each made once, and the order in which they go out. Made
 * by the main thread before the run; read by all threads, which share one cursor through the order.
 */
#ifndef LOADGEN_WORK_H
#define LOADGEN_WORK_H

#include "loadgen/plan/fields.h"
#include "loadgen/plan/plan.h"
#include "loadgen/plan/target.h"

#include <stdatomic.h>

enum {
    REQUEST_PLAN_REQUESTS_MAX = 200000, /* different ones */
    REQUEST_PLAN_ENTRIES_MAX = 100 * 1000 * 1000,
    REQUEST_PLAN_WEIGHT_MAX = 10000,
};

struct request {
    struct target target;
    const char *method;           /* owned by the work */
    bool head;                    /* its answer has no body */
    uint32_t origin;              /* requests of one origin can share a connection */
    struct curl_slist *addresses; /* of the origin, for CURLOPT_RESOLVE; may be NULL */
    char *message;                /* the whole request, as HTTP/1 sends it */
    size_t message_length;
};

/* One place in the order. */
struct request_entry {
    uint64_t due_ns; /* since the run's begin; of a replay */
    uint32_t request;
    uint32_t line; /* of the file it came from */
};

struct request_plan {
    const struct plan *plan;
    struct request *requests;
    size_t count, room;
    uint32_t *index; /* by hash of method and URL: a request's number + 1; 0: free */
    size_t index_size;
    struct request_entry *entries;
    size_t entry_count, entry_room;
    struct curl_slist *headers, *redirections;
    char *body; /* NULL: none */
    size_t body_length;
    uint64_t skipped; /* lines of a log that cannot be sent again */
    _Atomic uint64_t cursor;
};

/*
 * Makes *work from the plan: reads its files and takes all URLs apart. Returns 0, or -1 with WHY.
 * Release with work_free() either way.
 */
int request_plan_prepare(struct request_plan *request_plan, const struct plan *plan, char *why,
                         size_t size);

/* Looks up the hosts. Returns 0, or -1 with WHY. */
int request_plan_resolve(struct request_plan *request_plan, char *why, size_t size);

void request_plan_free(struct request_plan *request_plan);

/* The request to be sent next; *random is the thread's. Any thread. */
const struct request *request_plan_next(struct request_plan *request_plan, uint64_t *random);

/* The next entry of a replay, or NULL when all were taken. Any thread. */
const struct request_entry *request_plan_take_entry(struct request_plan *request_plan);

/* How many origins (scheme, host and port) the requests go to. */
size_t request_plan_count_origins(const struct request_plan *request_plan);

/* How many requests a run can send at most; 0: no limit. */
uint64_t request_plan_limit(const struct request_plan *request_plan);

/* ---- For who reads files: work_file.c ---- */

/*
 * Adds a place in the order for METHOD (NULL: the plan's) of URL, relative to the plan's first.
 * Returns 0, or -1 with WHY.
 */
int request_plan_add(struct request_plan *request_plan, const char *method, const char *url,
                     struct request_entry entry, char *why, size_t size);

/* Adds what FILE lists; with TIMES it has to be an access log. Returns 0, or -1 with WHY. */
int request_file_read(struct request_plan *request_plan, const char *file, bool times, char *why,
                      size_t size);

#endif
