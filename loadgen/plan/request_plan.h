/*
 * The request plan of a run: its distinct requests, each built once, and the order in which they
 * are sent. Filled by the main thread before the run (request_plan_prepare()); during the run all
 * threads read it and share one cursor through the order, unless each slot has its own (--order
 * each).
 */
#ifndef LOADGEN_REQUEST_PLAN_H
#define LOADGEN_REQUEST_PLAN_H

#include "loadgen/plan/plan.h"
#include "loadgen/plan/scenario.h"
#include "loadgen/plan/target.h"
#include "loadgen/plan/template.h"

#include <stdatomic.h>

enum {
    REQUEST_PLAN_REQUESTS_MAX = 200000, /* distinct requests */
    REQUEST_PLAN_ENTRIES_MAX = 100 * 1000 * 1000,
};

/* What the header fields say of the body. */
enum request_body_kind {
    REQUEST_BODY_NONE,
    REQUEST_BODY_EMPTY, /* Content-Length: 0 */
    REQUEST_BODY_GIVEN,
    REQUEST_BODY_KINDS
};

struct request {
    struct target target;
    const char *method;            /* owned by the request plan */
    bool head;                     /* the method is HEAD: the response has no body */
    uint32_t origin;               /* requests with the same origin can share a connection */
    struct curl_slist *addresses;  /* the origin's, as CURLOPT_RESOLVE; may be NULL */
    struct curl_slist *own_fields; /* "Name: value", in addition to those of the plan */
    struct curl_slist *fields;     /* all but a body's length, for CURLOPT_HTTPHEADER */
    /* Of the first request of its origin: the fields of all requests of the origin without own ones. */
    struct curl_slist *shared_fields[REQUEST_BODY_KINDS];
    bool owns_fields; /* fields is its own in any case */
    bool closes;      /* its connection closes after the response */
    char *body;       /* the plan's or its own; NULL: none */
    size_t body_length;
    char *message; /* the complete HTTP/1 request */
    size_t message_length;
};

/* A request to add. */
struct request_parts {
    const char *method; /* NULL: the plan's */
    const char *url;    /* may be relative to the URL of the first request */
    const char *path;   /* instead of url: path and query on the server of the first request */
    const struct curl_slist *fields;
    const char *body; /* NULL: the plan's */
    size_t body_length;
};

/* An entry of the order. */
struct request_entry {
    union {
        uint64_t due_ns;   /* replay: time after the run's begin */
        uint64_t think_ns; /* recording: time between the response and the next request */
    };
    uint32_t request; /* or template */
    uint32_t file_line;
};

/* A page of a recording: consecutive entries. */
struct page {
    char *name;
    size_t first, count;
};

#define REQUEST_PLAN_NO_CAUSE UINT32_MAX

/* The entry whose response causes another one, or REQUEST_PLAN_NO_CAUSE. */
struct cause {
    uint32_t entry;
    bool early; /* by its first bytes, else by its end */
};

struct request_plan {
    const struct plan *plan;
    struct request *requests;
    size_t count, capacity;
    uint32_t *index; /* hash table of the requests: a request's number + 1; 0: empty */
    size_t index_size;
    struct request_entry *entries;
    size_t entry_count, entry_capacity;
    double *up_to;      /* --zipf: the cumulative probability of each entry of a pass; else NULL */
    size_t pass_length; /* the entries of each row of a table follow each other; else all */
    struct request_template *templates;
    size_t template_count, template_capacity;
    bool makes_templates; /* request_plan_add() adds templates */
    struct page *pages;   /* --page-loads; else NULL */
    size_t page_count;
    struct cause *causes;          /* --page-loads: of each entry */
    struct scenario_set scenarios; /* instead of the entries; without any, its count is 0 */
    struct curl_slist *connect_to;
    char *body; /* all requests without one of their own have it; NULL: none */
    size_t body_length;
    uint64_t skipped; /* lines of a log that cannot be sent again, or other requests of a file */
    _Atomic uint64_t cursor;
};

/*
 * Fills *request_plan from PLAN: reads the files, parses the URLs, and builds the messages. Returns
 * 0, or -1 with WHY. Release with request_plan_free() in either case.
 */
int request_plan_prepare(struct request_plan *request_plan, const struct plan *plan, char *why,
                         size_t size);

/* Resolves the hosts, unless requests go to a proxy or a UNIX socket. Returns 0, or -1 with WHY. */
int request_plan_resolve(struct request_plan *request_plan, char *why, size_t size);

/*
 * Appends a request to the order; copies PARTS. Returns 0, 1 with WHY if the URL is invalid, or -1
 * with WHY if the plan is full or out of memory.
 */
int request_plan_add(struct request_plan *request_plan, const struct request_parts *parts,
                     struct request_entry entry, char *why, size_t size);

/*
 * Adds a request that is not part of the order. Returns its number, -1 with WHY, or -2 with WHY if
 * its URL is invalid.
 */
int64_t request_plan_add_request(struct request_plan *request_plan,
                                 const struct request_parts *parts, char *why, size_t size);

void request_plan_free(struct request_plan *request_plan);

/* ---- Any thread ---- */

/*
 * The next entry to send; NULL: none is left (--order once, --rows once). *POSITION is the slot's
 * position with --order each, 0 at first; *random is the calling thread's generator state.
 */
const struct request_entry *request_plan_next(struct request_plan *request_plan, size_t *position,
                                              uint64_t *random);

/* The next entry of a replay; NULL: none is left. */
const struct request_entry *request_plan_take_entry(struct request_plan *request_plan);

/* The next scenario to start; false: no row of its table is left (--rows once). */
bool request_plan_next_scenario(struct request_plan *request_plan, struct scenario_start *start);

/*
 * Fills *request, all zero, from PARTS, without adding it to the plan or making its message. Its
 * server must be one of the plan's requests. Returns 0, or -1 with WHY. Release with
 * request_plan_release() in either case.
 */
int request_plan_build(const struct request_plan *request_plan, const struct request_parts *parts,
                       struct request *request, char *why, size_t size);

/* Frees what REQUEST owns; it is then all zero. */
void request_plan_release(const struct request_plan *request_plan, struct request *request);

/* The number of origins (scheme, host and port). */
size_t request_plan_count_origins(const struct request_plan *request_plan);

/* Whether any request uses TLS. */
bool request_plan_has_tls(const struct request_plan *request_plan);

/* The number of requests after which the list has ended; 0: it never ends. */
uint64_t request_plan_limit(const struct request_plan *request_plan);

/*
 * Makes the request of STEP, which has variables. *request is all zero; release it with
 * request_plan_release() in any case. Returns 0, or -1 with WHY. Any thread.
 */
int scenario_request_make(const struct request_plan *request_plan, const struct scenario_step *step,
                          const struct template_variables *variables, struct request *request,
                          char *why, size_t size);

#endif
