/*
 * A tally: the counters and histograms of one client thread, or the sum over all threads.
 *
 * It has one writer, the thread that owns it. Stores are relaxed atomics, so any thread may add it
 * to a sum of its own at the same time. Its size does not depend on the number of requests;
 * recording one takes no lock and allocates nothing.
 */
#ifndef LOADGEN_TALLY_H
#define LOADGEN_TALLY_H

#include "common/histogram.h"

#include "loadgen/plan/plan.h"
#include "loadgen/plan/scenario.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum error_kind {
#define ERROR_KIND(id, name, label) ERROR_KIND_##id,
#include "loadgen/stats/error_kinds.def"
#undef ERROR_KIND
    ERROR_KIND_COUNT,
    ERROR_KIND_NONE = ERROR_KIND_COUNT, /* a complete response */
};
extern const char *const error_kind_names[ERROR_KIND_COUNT];
extern const char *const error_kind_labels[ERROR_KIND_COUNT];

enum { ERROR_TEXT = 256 }; /* bytes */

/*
 * The first message of each error kind whose name alone does not identify the cause, such as why a
 * certificate was rejected. One writer; others may read once the writer has ended.
 */
struct error_texts {
    char first[ERROR_KIND_COUNT][ERROR_TEXT]; /* "": none */
};

/* Keeps TEXT if it is the first of KIND and KIND needs one. KIND may be ERROR_KIND_NONE. */
void error_texts_record(struct error_texts *texts, enum error_kind kind, const char *text);

/* Copies the messages of FROM that INTO lacks. */
void error_texts_add(struct error_texts *into, const struct error_texts *from);

/* The protocols of a connection: of HTTP/2 without TLS, or negotiated by TLS. */
struct negotiation {
    char http[12];   /* "HTTP/1.1", "HTTP/2" */
    char tls[12];    /* "TLSv1.3"; "": none */
    char cipher[48]; /* OpenSSL's name; "": none */
    char group[24];  /* of the key exchange, likewise */
};

enum { NEGOTIATIONS_MAX = 8 };

/* How many connections negotiated what. One writer; others may read once the writer has ended. */
struct negotiations {
    struct {
        struct negotiation what;
        uint64_t connections;
    } of[NEGOTIATIONS_MAX];
    size_t count;
    uint32_t least_streams; /* the lowest limit of a server of HTTP/2; 0: unknown */
};

/* Counts N connections. More than NEGOTIATIONS_MAX kinds are not recorded. */
void negotiations_record(struct negotiations *negotiations, const struct negotiation *what,
                         uint64_t n);

/* Adds FROM to INTO. */
void negotiations_add(struct negotiations *into, const struct negotiations *from);

enum tally_counter {
#define TALLY_COUNTER(name) TALLY_##name,
#include "loadgen/stats/tally_counters.def"
#undef TALLY_COUNTER
    TALLY_COUNTER_COUNT
};

enum { TALLY_STATUSES = 1000 }; /* three digits (RFC 9112 section 4) */

struct tally {
    _Atomic uint64_t counter[TALLY_COUNTER_COUNT];
    _Atomic uint64_t error[ERROR_KIND_COUNT];
    _Atomic uint64_t status[TALLY_STATUSES];
    /* Times in ns. Responses: from when the request was due, or its begin, to the last byte. */
    struct histogram latency, service;
    struct histogram first_byte;        /* responses: from the request's begin to the first byte */
    struct histogram connect;           /* established connections, including TLS */
    struct histogram full_handshake;    /* TLS connections, without the TCP handshake */
    struct histogram resumed_handshake; /* the same, if a session was resumed */
};

/* The result of one request. Times are ns; 0: did not happen. */
struct transaction {
    enum error_kind error; /* ERROR_KIND_NONE: a complete response; the fields below are valid */
    uint32_t status;
    bool bad_status, bad_content; /* unexpected */
    bool bad_extraction;          /* without a value that a scenario takes */
    bool downgraded;              /* HTTP/1 instead of the requested HTTP/2 */
    bool connected;               /* a connection was established for it; connect_ns is valid */
    uint64_t connect_ns;
    uint64_t handshake_ns; /* the TLS part of connect_ns; 0: no TLS */
    bool resumed;          /* the handshake resumed a session */
    uint64_t first_byte_ns;
    uint64_t service_ns; /* time since it began */
    uint64_t latency_ns; /* time since it was due */
    uint64_t head_bytes; /* received, also of incomplete responses */
    uint64_t body_bytes;
    uint32_t retries; /* times that it was sent again: the server had not processed it */
};

/* Adds N to a counter. Writer's thread. */
static inline void tally_count(struct tally *tally, enum tally_counter counter, uint64_t n)
{
    uint64_t old = atomic_load_explicit(&tally->counter[counter], memory_order_relaxed);

    atomic_store_explicit(&tally->counter[counter], old + n, memory_order_relaxed);
}

/* Counts a request that ended (not TALLY_begun). Writer's thread. */
void tally_record(struct tally *tally, const struct transaction *transaction);

/* Counts the connection if one was established for the request. Writer's thread. */
void tally_record_connection(struct tally *tally, const struct transaction *transaction);

/* Adds FROM to INTO. Thread that owns INTO; FROM may be written at the same time. */
void tally_add(struct tally *into, const struct tally *from);

/* Sets everything to 0. Writer's thread. */
void tally_reset(struct tally *tally);

uint64_t tally_get(const struct tally *tally, enum tally_counter counter);
uint64_t tally_status(const struct tally *tally, uint32_t status);
uint64_t tally_error(const struct tally *tally, enum error_kind kind);

/* Requests of an open loop that were due but not begun before the end. */
uint64_t tally_unsent(const struct tally *tally);

/* Failed requests of all kinds. */
uint64_t tally_errors(const struct tally *tally);

/* All errors: failed, unanswered, and with an unexpected status or body. */
uint64_t tally_bad(const struct tally *tally);

/*
 * Sets *value to the number that CONDITION is about (times: ns). Returns false if it is undefined,
 * such as a percentile without responses.
 */
bool tally_condition_value(const struct tally *tally, const struct condition *condition,
                           uint64_t elapsed_ns, double *value);

/*
 * The part of the times, 0 to 1, that is above the limit of CONDITION, which is about a percentile;
 * NAN without any. Times are rounded as in the histogram.
 */
double tally_part_above(const struct tally *tally, const struct condition *condition);

/*
 * Whether CONDITION is true for what was counted in ELAPSED_NS. A condition on an undefined number,
 * such as a percentile without responses, is false.
 */
bool tally_meets_condition(const struct tally *tally, const struct condition *condition,
                           uint64_t elapsed_ns);

/*
 * ---- Scenarios: a row for each scenario and each of its steps ----
 *
 * One writer, the thread that owns it; others may read once the writer has ended.
 */

enum { SCENARIO_TALLY_TEXT = 256 }; /* bytes */

/* Of a step: requests. Of a scenario: how often virtual users ran it. */
struct scenario_row {
    char *name;
    uint32_t weight; /* 0: a step, not a scenario */
    uint64_t begun;  /* = good + failed + open */
    uint64_t good;   /* step: passed; scenario: all of its steps passed */
    uint64_t failed; /* step: no response, a bad status, or a missing value; scenario: at a step */
    uint64_t open;   /* step: unanswered; scenario: unfinished when the run ended */
    uint64_t errors; /* step: failed without a complete response */
    uint64_t bad_statuses; /* step: responses with an unexpected status */
    /*
     * Step: responses without a value to take, and requests that cannot be made; why the first was
     * bad.
     */
    uint64_t bad_extractions;
    char why[SCENARIO_TALLY_TEXT]; /* "": there was none */
    /* ns. Step: responses, since due. Scenario: good ones, think times included. */
    struct histogram times;
};

struct scenario_tally {
    size_t count;
    struct scenario_row row[];
};

/* COUNT rows, all zero, without names. Returns NULL if out of memory. */
struct scenario_tally *scenario_tally_allocate(size_t count);

/* A tally of SET, all zero. Returns NULL if out of memory. */
struct scenario_tally *scenario_tally_create(const struct scenario_set *set);

void scenario_tally_free(struct scenario_tally *tally);

/*
 * Counts a step whose request has ended, which scenario_row.begun has counted. WHY: of a bad
 * extraction.
 */
void scenario_tally_record_step(struct scenario_row *row, const struct transaction *transaction,
                                const char *why);

/* Whether both have the same scenarios and steps; NULL: none. */
bool scenario_tally_is_like(const struct scenario_tally *a, const struct scenario_tally *b);

/*
 * Adds FROM, with the same scenarios, to *into, which it creates if it is NULL. Returns false if
 * out of memory.
 */
bool scenario_tally_add(struct scenario_tally **into, const struct scenario_tally *from);

#endif
