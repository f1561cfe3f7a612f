/*
 * One request and its response in any protocol version. Responses are composed in the thread's
 * output buffer; the protocol sends them.
 *
 *   transaction_process() ─▶ admission.c ─▶ lookup.c: thread cache ─────────────▶ reply.c ─▶ accounting.c
 *                                               └─ not there ─▶ handlers.c ─▶ lookup.c ──┘
 *                                                                                └─▶ TRANSACTION_WAITING
 */
#ifndef DAEMON_TRANSACTION_TRANSACTION_H
#define DAEMON_TRANSACTION_TRANSACTION_H

#include "daemon/http/request.h"
#include "daemon/transaction/context.h"

enum transaction_result {
    TRANSACTION_DONE,    /* the response is in the output buffer */
    TRANSACTION_WAITING, /* an offload job runs: process the request again on state->resume */
};

/* The part of a connection that transactions use; the connection embeds it. */
struct client {
    uint8_t address[CLIENT_ADDRESS_BYTES]; /* the peer's, or that of the client it names */
    uint32_t requests;                     /* requests so far, including the current one */
    uint32_t jobs_out;  /* offload jobs that refer to the connection: do not free or move it */
    bool closing;       /* the connection closes after the current response */
    bool linger_wanted; /* the client may still be sending: delay the close */
    bool counted;       /* counted by the client limit */
    bool secure;        /* over TLS: cannot move to another worker */
    uint16_t tls;       /* as in a log record; 0: not over TLS */
    uint16_t streams;   /* open, with that of the current request; 0: the protocol has none */
    bool forwarded;     /* requests name their clients: the peer is trusted, with [proxy] field */
    bool proxied;       /* a PROXY header has been read, and the address is what it says */
    bool transferred;   /* came from another worker; see admission_exceeds_limits() */
    const struct site *covered; /* the last site for which the TLS connection was found valid */
};

/*
 * State of a request that waits for an offload thread, between two calls of transaction_process().
 */
struct transaction_state {
    uint64_t began_ns;       /* monotonic: time of the first processing; 0: no request waits */
    struct load_job *loaded; /* results of offload threads for this request */
    const struct config_access *login_rule; /* whose users login is about */
    uint8_t login;                          /* result of a verified password; 0: none */
    uint8_t retries; /* lookups that were repeated because a directory was replaced */
    void (*resume)(
        struct transaction_state *state); /* called when a job is done; set by the protocol */
};

struct transaction {
    struct transaction_context *context;
    struct client *client;
    struct transaction_state *state;
    const struct request *request;
    const struct site *site;             /* serves the request's host */
    const struct config_redirect *rule;  /* applies to the path; NULL: none */
    const char *path;                    /* canonical; NULL: not known */
    const uint8_t *address;              /* the client's; see client_address.h */
    const struct config_access *granted; /* its client and users have been checked; NULL: none */
    struct span user;                    /* verified, of the configuration; length 0: none */
    const struct config_cors *cors;      /* applies to the path; NULL: none */
    bool preflight;                      /* an OPTIONS request for it by a page of another origin */
    const char *realm;                   /* a 401 names it */
    uint64_t began_ns;                   /* as in struct transaction_state */
    enum outcome outcome;                /* OUTCOME_ERROR until a file is looked up */
    uint64_t representation_bytes;       /* complete length, for a 416 */
    bool varies;                         /* the representation was selected by Accept-Encoding */
    uint32_t retry_after_s;              /* a 429 or 503 says so */
    coding_preference accepts;           /* content codings for the response, best first */
    bool uncoded;                        /* identity is not the client's first choice: a range */
    bool personal;                       /* not every client gets this response: do not share it */
    uint64_t until_ns;                   /* monotonic: so long nothing better than what is found */
    bool may_wait;                       /* false: the request must not be processed again */
    bool waiting;                        /* an offload job loads its file or page */
};

/* Processes a request up to its response: limits, thread cache, handler. */
enum transaction_result transaction_process(struct transaction_context *context,
                                            struct client *client, struct transaction_state *state,
                                            const struct request *request);

/*
 * Responds to a malformed or incomplete request with STATUS. The connection closes after the
 * response.
 */
enum transaction_result transaction_reject(struct transaction_context *context,
                                           struct client *client, struct transaction_state *state,
                                           const struct request *request, int status);

/* True if some resource supports METHOD. */
bool transaction_supports_method(enum http_method method);

/*
 * Size of the file that a GET request is for: in the shared cache, else on disk. 0: unknown, or the
 * directory is not in memory. Any thread.
 */
uint64_t transaction_file_bytes(const struct worker_context *worker, const struct request *request);

/*
 * Prefetch for the lookup in the thread cache: call the first as soon as a request's TARGET is
 * known, the second some time later, before the request is processed.
 */
void lookup_prefetch_set(const struct transaction_context *context, struct span target);
void lookup_prefetch_entry(const struct transaction_context *context);

/* Frees what was loaded for a request, after its response. Any thread that owns STATE. */
void loading_discard(struct transaction_state *state, struct cache *cache);

#endif
