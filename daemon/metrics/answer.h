/*
 * One request to the metrics process and its response. The request may be anything. Only GET and
 * HEAD, and nothing that changes the server.
 */
#ifndef DAEMON_METRICS_ANSWER_H
#define DAEMON_METRICS_ANSWER_H

#include "common/segment.h"

enum { ANSWER_REQUEST_MAX = 8 * 1024 }; /* bytes of a request head; longer ones are answered 431 */

/* What a metrics process answers from. */
struct answer_setup {
    const struct segment *segment;
    const char *hosts; /* [metrics] hosts */
};

/*
 * The response to the bytes received so far. Returns 0 if the head is incomplete; 1 with the whole
 * response in *RESPONSE, which the caller frees; or -1: out of memory. The connection ends with the
 * response.
 */
int answer_request(const struct answer_setup *setup, const char *data, size_t length,
                   char **response, size_t *response_length);

#endif
