/*
 * The request parser: HTTP/1.1 and 1.0 heads as in RFC 9112 sections 2 to 7 and RFC 9110 section 5.
 * Pure and zero-copy: it looks at bytes, returns spans into them, keeps nothing. Strict where
 * laxness is an attack; what it refuses, and with which status, stands in daemon/request.c.
 */
#ifndef DAEMON_REQUEST_H
#define DAEMON_REQUEST_H

#include "common/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_method {
    METHOD_GET,
    METHOD_HEAD,
    METHOD_OPTIONS,
    METHOD_POST,
    METHOD_PUT,
    METHOD_DELETE,
    METHOD_CONNECT,
    METHOD_TRACE,
    METHOD_PATCH,
    METHOD_UNKNOWN, /* a well-formed token that RFC 9110 and RFC 5789 do not define */
};

struct request_limits {
    size_t line_bytes; /* of the request line, without its CRLF */
    size_t head_bytes; /* of the whole head, with the empty line */
    size_t field_count;
};

/* Spans point into the parsed bytes; an absent field has length 0 and start NULL. */
struct request {
    struct span line; /* the request line without its CRLF, as it came */
    struct span target;
    enum http_method method;
    uint8_t minor_version; /* 0 or 1 */
    bool keep_alive;       /* the client wants the connection kept (version and Connection) */
    bool has_body;         /* Content-Length above 0, or chunked */
    bool chunked;
    bool expect_continue;
    uint64_t content_length;
    struct span host; /* of an absolute-form target where there is one; else of the Host field */
    struct span referer;
    struct span user_agent;
    struct span if_none_match;
    struct span if_modified_since;
};

/*
 * Parses one head at DATA. *SCANNED is how far an earlier call on the same, shorter bytes has
 * looked (0 at first); it is moved on so that a head that drips in is not searched again and again,
 * and goes back to 0 when the head is decided.
 *
 * Returns the bytes used (> 0) with *REQUEST filled; 0 when the head is not complete yet; or minus
 * the status to answer with before closing (-400, -414, -417, -431, -501, -505). On refusal
 * REQUEST->line holds what could be told of the request line, for the log.
 */
int request_parse(const char *data, size_t length, const struct request_limits *limits,
                  size_t *scanned, struct request *request);

#endif
