/*
 * Parser of HTTP/1 request bodies, of known length or chunked (RFC 9112 sections 6 and 7.1): finds
 * where the body ends. Pure and incremental; it keeps no bytes between calls. body_parser.c lists
 * what it rejects and with which status.
 */
#ifndef DAEMON_HTTP1_BODY_PARSER_H
#define DAEMON_HTTP1_BODY_PARSER_H

#include "daemon/http/request.h"

enum { BODY_NAME_MAX = 18 };

struct body_limits {
    uint64_t content_bytes; /* without the chunk framing */
    size_t trailer_bytes;   /* limits the trailer section, and all chunk extensions together */
};

/* The state of one body; private. */
struct body_parser {
    uint8_t state;
    uint8_t digits;           /* the chunk size has had so many so far; at most DIGITS_FREE */
    uint8_t name_length;      /* length of the trailer field's name so far; at most BODY_NAME_MAX */
    char name[BODY_NAME_MAX]; /* its beginning, in lower case */
    uint64_t left;            /* content bytes until the end of the body or chunk */
    uint64_t content_left;    /* bytes until limits.content_bytes */
    size_t extension_left, trailer_left; /* bytes until limits.trailer_bytes */
};

enum body_result {
    BODY_MORE = 0, /* all bytes belong to the body, which continues */
    BODY_DONE = 1,
    /* or minus the status to respond with before closing: -400, -413, -431 */
};

/*
 * Begins the body that REQUEST announces. Returns BODY_MORE, BODY_DONE (no body), or minus a
 * status.
 */
int body_parser_begin(struct body_parser *body, const struct request *request,
                      const struct body_limits *limits);

/*
 * Parses the next LENGTH bytes. *USED is how many of them belong to the body. Returns an enum
 * body_result.
 */
int body_parser_feed(struct body_parser *body, const char *data, size_t length, size_t *used);

#endif
