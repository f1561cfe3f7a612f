/*
 * What one client thread counted, and the sum over all of them.
 *
 * A tally has one writer, the thread that owns it; its stores are relaxed atomics, so any thread
 * may add it to a sum of its own meanwhile (10 times a second for the live line). Its size does not
 * depend on the number of requests, and recording one takes no lock and no memory.
 */
#ifndef LOADGEN_TALLY_H
#define LOADGEN_TALLY_H

#include "common/histogram.h"

#include "loadgen/plan/condition.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum error_kind {
#define ERROR_KIND(id, name, label) ERROR_KIND_##id,
#include "loadgen/stats/error_kinds.def"
#undef ERROR_KIND
    ERROR_KIND_COUNT,
    ERROR_KIND_NONE = ERROR_KIND_COUNT, /* a whole answer came */
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

enum tally_counter {
#define TALLY_COUNTER(name) TALLY_##name,
#include "loadgen/stats/tally_counters.def"
#undef TALLY_COUNTER
    TALLY_COUNTER_COUNT
};

enum { TALLY_STATUSES = 1000 }; /* a status has three digits (RFC 9112 section 4) */

struct tally {
    _Atomic uint64_t counter[TALLY_COUNTER_COUNT];
    _Atomic uint64_t error[ERROR_KIND_COUNT];
    _Atomic uint64_t status[TALLY_STATUSES];
    struct histogram latency;    /* of answers: when the request was due to its last byte, ns */
    struct histogram service;    /* of answers: begin of the request to last byte, ns */
    struct histogram first_byte; /* of answers: begin of the request to first byte, ns */
    struct histogram connect;    /* of established connections, TLS included, ns */
};

/* The fate of one request. Times are ns; those of what did not happen are 0. */
struct transaction {
    enum error_kind error; /* ERROR_KIND_NONE: answered, and the fields below hold */
    uint32_t status;
    bool bad_status, bad_content; /* not what was expected */
    bool downgraded;              /* not in the version of HTTP that was asked for */
    bool connected;               /* a connection was established for it; connect_ns holds */
    uint64_t connect_ns;
    uint64_t first_byte_ns;
    uint64_t service_ns; /* since it was begun */
    uint64_t latency_ns; /* since it was due */
    uint64_t head_bytes; /* received, also of answers that were not whole */
    uint64_t body_bytes;
};

/* Adds N to a counter. Writer's thread. */
static inline void tally_count(struct tally *tally, enum tally_counter counter, uint64_t n)
{
    uint64_t old = atomic_load_explicit(&tally->counter[counter], memory_order_relaxed);

    atomic_store_explicit(&tally->counter[counter], old + n, memory_order_relaxed);
}

/* Counts one ended request, except that it was begun. Writer's thread. */
void tally_record(struct tally *tally, const struct transaction *transaction);

/* Counts the connection that came up for a request, if one did. Writer's thread. */
void tally_record_connection(struct tally *tally, const struct transaction *transaction);

/* Adds FROM to INTO. INTO's thread; FROM may be written meanwhile. */
void tally_add(struct tally *into, const struct tally *from);

/* Makes it empty. Writer's thread. */
void tally_reset(struct tally *tally);

uint64_t tally_get(const struct tally *tally, enum tally_counter counter);
uint64_t tally_status(const struct tally *tally, uint32_t status);
uint64_t tally_error(const struct tally *tally, enum error_kind kind);

/* Requests of an open loop that were due and not begun before its end. */
uint64_t tally_unsent(const struct tally *tally);

/* Requests that failed, of all kinds together. */
uint64_t tally_errors(const struct tally *tally);

/* Requests that count as errors: failed, unanswered, or answered with what was not expected. */
uint64_t tally_bad(const struct tally *tally);

/*
 * Whether CONDITION is true for what was counted in ELAPSED_NS. A condition on a number that does not
 * exist yet, such as the percentile of no answers, is false.
 */
bool tally_meets_condition(const struct tally *tally, const struct condition *condition,
                           uint64_t elapsed_ns);

#endif
