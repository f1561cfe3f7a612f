/*
 * An HTTP/1 response as it comes in, in pieces of any size (RFC 9112 sections 4, 6 and 7). Strict:
 * what a client could read in two ways is an error, for a load generator is there to find it. A bare
 * LF ends a line too (section 2.2).
 *
 * Pure: no sockets, no clock, no memory of its own. One thread at a time.
 */
#ifndef LOADGEN_RESPONSE_H
#define LOADGEN_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RESPONSE_LINE_MAX = 16 * 1024,  /* longest status line or field, bytes */
    RESPONSE_HEAD_MAX = 256 * 1024, /* longest head, those of interim responses included */
};

enum response_result {
    RESPONSE_MORE, /* goes on with the next bytes */
    RESPONSE_DONE, /* whole; bytes behind it belong to nothing that was asked for */
    RESPONSE_BAD,  /* not HTTP/1; WHY says. Nothing more can be read. */
};

enum response_state {
    RESPONSE_AT_STATUS,
    RESPONSE_AT_FIELD,
    RESPONSE_AT_BODY,       /* of Content-Length */
    RESPONSE_AT_REST,       /* a body until the connection ends */
    RESPONSE_AT_CHUNK_SIZE, /* the line before a chunk */
    RESPONSE_AT_CHUNK,
    RESPONSE_AT_CHUNK_END, /* the line end behind a chunk */
    RESPONSE_AT_TRAILER,
    RESPONSE_AT_END,
};

struct response {
    /* Set once by the owner. */
    char *line; /* RESPONSE_LINE_MAX bytes, for a line that comes in pieces */
    void (*on_body)(void *context, const char *bytes, size_t length); /* or NULL */
    void *context;

    /* What is known so far. */
    uint16_t status;
    bool keep_alive;     /* the connection may carry another request; holds once it is DONE */
    uint64_t head_bytes; /* status lines and fields, interim ones too */
    uint64_t body_bytes; /* content, without the framing of chunks */
    const char *why;     /* of BAD */

    /* The parser's own. */
    enum response_state state;
    bool head_request, http10, chunked, coded, has_length, said_close, said_keep_alive, framing;
    size_t line_length;
    uint64_t left; /* of a body or chunk */
};

/* Before each response; what was set by the owner stays. HEAD_REQUEST: the request was a HEAD. */
void response_begin(struct response *response, bool head_request);

/* Takes LENGTH bytes; *used is how many of them belong to this response. */
enum response_result response_feed(struct response *response, const char *bytes, size_t length,
                                   size_t *used);

/* The connection ended: DONE if that ends the response in order, BAD if something is missing. */
enum response_result response_end(struct response *response);

#endif
