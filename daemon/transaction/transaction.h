/*
 * One request and its response, whatever the protocol version. process.h runs a transaction; its steps
 * share struct transaction. Responses are composed in the thread's output buffer; sending them is up to
 * the protocol.
 */
#ifndef DAEMON_TRANSACTION_TRANSACTION_H
#define DAEMON_TRANSACTION_TRANSACTION_H

#include "daemon/http/request.h"
#include "daemon/transaction/context.h"

enum transaction_result {
    TRANSACTION_ANSWERED, /* the response is in the output buffer */
    TRANSACTION_WAITING,  /* an offload job runs: process the request again on state->resume */
};

/* What transactions know and decide about the client's connection, which embeds it. */
struct client {
    uint8_t address[CLIENT_ADDRESS_BYTES];
    uint32_t requests;  /* answered, including the one being answered */
    uint32_t jobs_out;  /* offload jobs that refer to the connection: do not free or move it */
    bool closing;       /* no request follows the response under way */
    bool linger_wanted; /* the client may still be sending: delay the close */
    bool counted;       /* by the client limit */
    bool transferred;   /* from another worker; see admission_exceeds_limits() */
};

/* What a request that waits for an offload thread keeps between two calls of transaction_process(). */
struct transaction_state {
    uint64_t began_ns;       /* monotonic: when it was first processed; 0: no request waits */
    struct load_job *loaded; /* what offload threads have loaded for it */
    void (*resume)(struct transaction_state *state); /* a job is done; set by the protocol */
};

struct transaction {
    struct transaction_context *context;
    struct client *client;
    struct transaction_state *state;
    const struct request *request;
    const char *path;              /* canonical; NULL: not known */
    uint64_t began_ns;             /* as in struct transaction_state */
    enum outcome outcome;          /* OUTCOME_ERROR until a file is looked up */
    uint64_t representation_bytes; /* complete length, for a 416 */
    bool varies;                   /* the representation was selected by Accept-Encoding */
    uint32_t retry_after_s;        /* for a 429 or 503 */
    coding_preference accepts;     /* content codings that the client accepts */
    bool may_wait;                 /* false: the request must not be processed again */
    bool waiting;                  /* an offload job has been submitted for it */
};

#endif
