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
    WORK_REQUESTS_MAX = 200000, /* different ones */
    WORK_ENTRIES_MAX = 100 * 1000 * 1000,
    WORK_WEIGHT_MAX = 10000,
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
struct work_entry {
    uint64_t due_ns; /* since the run's begin; of a replay */
    uint32_t request;
    uint32_t line; /* of the file it came from */
};

struct work {
    const struct plan *plan;
    struct request *requests;
    size_t count, room;
    uint32_t *index; /* by hash of method and URL: a request's number + 1; 0: free */
    size_t index_size;
    struct work_entry *entries;
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
int work_prepare(struct work *work, const struct plan *plan, char *why, size_t size);

/* Looks up the hosts. Returns 0, or -1 with WHY. */
int work_resolve(struct work *work, char *why, size_t size);

void work_free(struct work *work);

/* The request to be sent next; *random is the thread's. Any thread. */
const struct request *work_choose(struct work *work, uint64_t *random);

/* The next entry of a replay, or NULL when all were taken. Any thread. */
const struct work_entry *work_take_entry(struct work *work);

/* How many origins (scheme, host and port) the requests go to. */
size_t work_origins(const struct work *work);

/* How many requests a run can send at most; 0: no limit. */
uint64_t work_limit(const struct work *work);

/* ---- For who reads files: work_file.c ---- */

/*
 * Adds a place in the order for METHOD (NULL: the plan's) of URL, relative to the plan's first.
 * Returns 0, or -1 with WHY.
 */
int work_add(struct work *work, const char *method, const char *url, struct work_entry entry,
             char *why, size_t size);

/* Adds what FILE lists; with TIMES it has to be an access log. Returns 0, or -1 with WHY. */
int work_read_file(struct work *work, const char *file, bool times, char *why, size_t size);

#endif
