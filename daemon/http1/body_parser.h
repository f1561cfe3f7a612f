/*
 * The body of a request, passed over byte by byte until the next request begins: of a known length,
 * or chunked (RFC 9112 sections 6 and 7.1). Pure and incremental: it keeps a few words between calls
 * and none of the bytes. What it refuses stands in daemon/http1/body_parser.c.
 */
#ifndef DAEMON_BODY_H
#define DAEMON_BODY_H

#include "daemon/http/request.h"

enum { BODY_NAME_MAX = 18 };

struct body_limits {
    uint64_t content_bytes; /* without the chunking */
    size_t trailer_bytes;   /* of the trailer section; of all chunk extensions together */
};

/* One body under way. Only body.c looks inside. */
struct body_parser {
    uint8_t state;
    uint8_t digits;           /* of the size under way, up to those that cost nothing */
    uint8_t name_length;      /* of the trailer field under way; at most BODY_NAME_MAX */
    char name[BODY_NAME_MAX]; /* its beginning, in small letters */
    uint64_t left;            /* content bytes until the end of the body, or of the chunk */
    uint64_t content_left;    /* until the limit */
    size_t extension_left, trailer_left; /* until their limits */
};

enum body_result {
    BODY_MORE = 0, /* all bytes belong to the body, and it goes on */
    BODY_DONE = 1,
    /* or minus the status to answer with before closing: -400, -413, -431 */
};

/* What REQUEST says of its body. BODY_MORE, BODY_DONE (there is none), or minus a status. */
int body_parser_begin(struct body_parser *body, const struct request *request,
                      const struct body_limits *limits);

/* Takes the next LENGTH bytes; *USED of them belong to the body. Returns as enum body_result. */
int body_parser_feed(struct body_parser *body, const char *data, size_t length, size_t *used);

#endif
