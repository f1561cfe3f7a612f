/*
 * One request to the metrics process and its response. The request may be anything. Only GET and
 * HEAD, and nothing that changes the server.
 */
#ifndef DAEMON_METRICS_ANSWER_H
#define DAEMON_METRICS_ANSWER_H

#include "common/segment.h"
#include "daemon/metrics/verifier.h"

#include <stdio.h>

enum { ANSWER_REQUEST_MAX = 8 * 1024 }; /* bytes of a request head; longer ones are answered 431 */

/* What a metrics process answers from. */
struct answer_setup {
    const struct segment *segment;
    const char *hosts;         /* [metrics] hosts */
    bool streams_full;         /* no further client gets events */
    struct verifier *verifier; /* NULL: no password is needed */
    struct login *login;       /* belongs to the request; used with a verifier only */
    const char *realm;         /* the same */
};

enum answer_kind {
    ANSWER_FAILED = -1, /* out of memory */
    ANSWER_INCOMPLETE,  /* so is the head of the request */
    ANSWER_WAITING,     /* the verifier is busy; call again when it resumes the login */
    ANSWER_WHOLE,       /* the connection ends with the response */
    ANSWER_STREAM,      /* the response has begun; events of live_write() follow */
};

/*
 * The response to the bytes received so far, in *RESPONSE, which the caller frees.
 */
enum answer_kind answer_request(const struct answer_setup *setup, const char *data, size_t length,
                                char **response, size_t *response_length);

#endif
