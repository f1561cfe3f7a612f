/*
 * One request and its answer: the order of the steps. Composes the answer in the thread's output;
 * sending is another room's work (daemon/http1/response_writer.h).
 *
 *   begin ─▶ thread cache (lookup.h) ─────────────────────────────▶ reply.h ─▶ conclude
 *               └─ not there ─▶ route.h ─▶ handler.h ─▶ lookup.h ──┘
 */
#ifndef DAEMON_EXCHANGE_H
#define DAEMON_EXCHANGE_H

#include "daemon/connection/connection.h"
#include "daemon/http/coding.h"
#include "daemon/http/request.h"

enum exchange_result {
    EXCHANGE_ANSWERED, /* the answer is in the output; connection->closing may be set */
    EXCHANGE_WAITING,  /* a job is out; ask again with the same request when it is back */
};

/* A request on its way to an answer: what the rooms that it passes through hand on. */
struct exchange {
    struct connection *connection;
    struct serving_thread *thread; /* the connection's */
    const struct request *request;
    const char *path;              /* that is asked for, canonical; NULL: not known */
    uint64_t began_ns;             /* monotonic: when the request was first looked at */
    enum outcome outcome;          /* OUTCOME_ERROR until a file was asked for */
    uint64_t representation_bytes; /* its length, for a 416 */
    bool varies;                   /* it was chosen by Accept-Encoding */
    uint32_t retry_after_s;        /* with a 429 or 503 */
    coding_preference accepts;     /* content codings that the client takes */
    bool may_wait;                 /* false: nothing that would need a second look at the request */
};

enum exchange_result exchange_answer(struct connection *connection, const struct request *request);

/* The answer to what is no request: STATUS, and the connection closes. */
enum exchange_result exchange_refuse(struct connection *connection, const struct request *request,
                                     int status);

#endif
