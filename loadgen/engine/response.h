/*
 * An incremental parser of HTTP/1 responses (RFC 9112 sections 4, 6 and 7), for input in pieces of
 * any size. Strict: an ambiguous message is an error. A bare LF ends a line, too (section 2.2).
 *
 * Pure: no sockets, no clock, no allocation. One thread at a time.
 */
#ifndef LOADGEN_RESPONSE_H
#define LOADGEN_RESPONSE_H

#include "common/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* The limits of libcurl. */
    RESPONSE_LINE_MAX = 100 * 1024, /* status line or field, bytes */
    RESPONSE_HEAD_MAX = 300 * 1024, /* all heads of a response, interim ones included */
};

enum response_result {
    RESPONSE_MORE, /* needs more bytes */
    RESPONSE_DONE, /* complete; bytes after it are unsolicited */
    RESPONSE_BAD,  /* not valid HTTP/1: see why; do not feed more */
};

enum response_state {
    RESPONSE_AT_STATUS,
    RESPONSE_AT_FIELD,
    RESPONSE_AT_BODY,       /* its length is Content-Length */
    RESPONSE_AT_REST,       /* a body that ends with the connection */
    RESPONSE_AT_CHUNK_SIZE, /* the line before a chunk */
    RESPONSE_AT_CHUNK,
    RESPONSE_AT_CHUNK_END, /* the line end after a chunk */
    RESPONSE_AT_TRAILER,
    RESPONSE_AT_END,
};

struct response {
    /* Set by the caller. */
    char *line; /* RESPONSE_LINE_MAX bytes, for a line in pieces */
    void (*on_body)(void *context, const char *bytes, size_t length);   /* or NULL */
    void (*on_cookie)(void *context, const char *value, size_t length); /* Set-Cookie; or NULL */
    void (*on_field)(void *context, struct span name,
                     struct span value); /* not of interim ones; or NULL */
    void *context;

    /* The result so far. */
    uint16_t status;
    bool keep_alive;     /* the connection may carry another request; valid once DONE */
    uint64_t head_bytes; /* status lines and fields, interim ones too */
    uint64_t body_bytes; /* content, without chunk framing */
    const char *why;     /* why it is BAD */

    /* Private. */
    enum response_state state;
    bool head_request, http10, chunked, coded, has_length, has_close, has_keep_alive, framing;
    size_t line_length;
    uint64_t left; /* bytes of a body or chunk */
};

/*
 * Call before each response; keeps the members set by the caller. HEAD_REQUEST: the method was
 * HEAD.
 */
void response_begin(struct response *response, bool head_request);

/* Parses LENGTH bytes. *used: how many of them belong to this response. */
enum response_result response_feed(struct response *response, const char *bytes, size_t length,
                                   size_t *used);

/*
 * Call when the connection ends. Returns DONE if the response is complete, BAD if part of it is
 * missing.
 */
enum response_result response_end(struct response *response);

#endif
