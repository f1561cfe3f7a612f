/*
 * An engine sends requests. The driver decides when a request begins and on which connection; the
 * engine opens connections, speaks HTTP and reports results.
 *
 * A slot, numbered from 0, carries one request at a time, connects on demand and keeps its
 * connection while the plan and the server allow. With HTTP/2, each connection serves as many
 * consecutive slots as the plan has streams; otherwise each slot is a connection.
 *
 * Each client thread has an engine of its own. create and destroy are called while the
 * thread does not run, everything else by the thread. An engine calls its owner from the event loop
 * only, never from within a function of engine_ops. A request must stay valid until its slot has
 * begun another one.
 */
#ifndef LOADGEN_ENGINE_H
#define LOADGEN_ENGINE_H

#include "common/span.h"

#include "loadgen/base/sha256.h"
#include "loadgen/engine/transcript.h"
#include "loadgen/plan/plan.h"
#include "loadgen/plan/request_plan.h"
#include "loadgen/stats/tally.h"

#include <event2/event.h>
#include <string.h>

struct engine;

/* What an engine reports. */
struct engine_owner {
    /* The connection of SLOT was established. */
    void (*connected)(void *context, uint32_t slot);

    /*
     * The request in flight on SLOT ended at NOW_NS. The engine fills all of *transaction but
     * latency_ns, service_ns and bad_status. SLOT is free: another request may begin on it before
     * this returns.
     */
    void (*ended)(void *context, uint32_t slot, struct transaction *transaction, uint64_t now_ns);

    /*
     * A header field, and a part of the body, of the final response to the request in flight on
     * SLOT. NULL: not wanted.
     */
    void (*field)(void *context, uint32_t slot, struct span name, struct span value);
    void (*body)(void *context, uint32_t slot, const char *bytes, size_t length);

    /* Bytes arrived on an idle connection, which was closed. */
    void (*unsolicited)(void *context);

    void *context;
};

/* All pointers must outlive the engine. */
struct engine_config {
    const struct plan *plan;
    const struct request_plan *request_plan;
    struct event_base *base;
    struct engine_owner owner;
    struct error_texts *error_texts;   /* where the engine records errors */
    struct negotiations *negotiations; /* and what was negotiated */
    struct transcript *transcript;     /* records the first request of slot 0; NULL: none */
};

struct engine_ops {
    const char *name;

    /* Returns NULL if out of memory. */
    struct engine *(*create)(const struct engine_config *config);

    /* Makes slots 0 to SLOTS - 1 available. SLOTS never shrinks. Returns false if out of memory. */
    bool (*reserve)(struct engine *engine, uint32_t slots);

    /* Begins REQUEST on a free slot. It is sent at once, or by the next flush. */
    void (*begin)(struct engine *engine, uint32_t slot, const struct request *request,
                  uint64_t now_ns);

    /* Sends the requests begun since the last flush, unless the engine sends them from the loop. */
    void (*flush)(struct engine *engine);

    /*
     * Cancels the request in flight on a slot; the owner is not called. Returns whether a
     * connection was established for it.
     */
    bool (*cancel)(struct engine *engine, uint32_t slot);

    /* Closes the connection of a free slot that is not in use for now. */
    void (*close)(struct engine *engine, uint32_t slot);

    /* Deletes the cookies of a free slot: another virtual user begins. */
    void (*forget)(struct engine *engine, uint32_t slot);

    void (*destroy)(struct engine *engine);
};

/* libcurl does everything: the multi interface on the thread's event loop. */
extern const struct engine_ops engine_curl;

/* libcurl connects (names, TLS, proxies); HTTP/1 is our own code and costs less CPU time. */
extern const struct engine_ops engine_raw;

/* The same for HTTP/2, with nghttp2. */
extern const struct engine_ops engine_raw_http2;

/* ---- For engines: checks a response's body (--expect-size, --expect-sha256) ---- */

/* Zeroed: not open. */
struct body_check {
    struct sha256 sha;
};

/* Returns false without memory. In any case, the engine calls body_check_close(). */
static inline bool body_check_open(struct body_check *check, const struct plan_checks *checks)
{
    return !checks->digest_known || sha256_open(&check->sha);
}

static inline void body_check_close(struct body_check *check)
{
    sha256_close(&check->sha);
}

static inline void body_check_begin(struct body_check *check, const struct plan_checks *checks)
{
    if (checks->digest_known)
        sha256_begin(&check->sha);
}

static inline void body_check_add(struct body_check *check, const struct plan_checks *checks,
                                  const char *bytes, size_t length)
{
    if (checks->digest_known)
        sha256_add(&check->sha, bytes, length);
}

/* Whether the body, of LENGTH bytes, differs from the expected one. */
static inline bool body_check_fails(struct body_check *check, const struct plan_checks *checks,
                                    uint64_t length)
{
    uint8_t digest[SHA256_BYTES];

    if (checks->size_known && length != checks->size)
        return true;
    if (!checks->digest_known)
        return false;
    sha256_end(&check->sha, digest);
    return memcmp(digest, checks->digest, sizeof(digest)) != 0;
}

#endif
