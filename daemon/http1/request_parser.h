/*
 * The request parser: HTTP/1.1 and 1.0 heads as in RFC 9112 sections 2 to 7 and RFC 9110 section 5.
 * Pure and zero-copy: it looks at bytes, returns spans into them, keeps nothing. Strict where
 * laxness is an attack; what it refuses, and with which status, stands in daemon/http1/request_parser.c.
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
    METHOD_REGISTERED, /* any other in IANA's registry, such as WebDAV's */
    METHOD_UNKNOWN,    /* a well-formed token that is in no registry */
};

/* Fields that decide which representation is sent: bits of request.present and .repeated. */
enum request_field {
    REQUEST_ACCEPT = 1 << 0,
    REQUEST_ACCEPT_ENCODING = 1 << 1,
    REQUEST_IF_MATCH = 1 << 2,
    REQUEST_IF_NONE_MATCH = 1 << 3,
    REQUEST_IF_MODIFIED_SINCE = 1 << 4,
    REQUEST_IF_UNMODIFIED_SINCE = 1 << 5,
    REQUEST_IF_RANGE = 1 << 6,
    REQUEST_RANGE = 1 << 7,
};

struct request_limits {
    size_t line_bytes; /* of the request line, without its CRLF */
    size_t head_bytes; /* of the whole head, with the empty line */
    size_t field_count;
};

/*
 * Spans point into the parsed bytes; an absent field has length 0 and start NULL, but for those with
 * a bit: their spans are valid only when it is set in PRESENT, and hold the first line that came.
 */
struct request {
    struct span line;   /* the request line without its CRLF, as it came */
    struct span fields; /* all field lines, as they came */
    struct span target;
    enum http_method method;
    uint8_t minor_version; /* 0 or 1 */
    bool keep_alive;       /* the client wants the connection kept (version and Connection) */
    bool has_body;         /* Content-Length above 0, or chunked */
    bool chunked;
    bool expect_continue;
    uint8_t present;  /* enum request_field: those that came */
    uint8_t repeated; /* and those that came more than once */
    uint64_t content_length;
    struct span host; /* of an absolute-form target where there is one; else of the Host field */
    struct span referer;
    struct span user_agent;
    struct span accept;
    struct span accept_encoding;
    struct span if_match;
    struct span if_none_match;
    struct span if_modified_since;
    struct span if_unmodified_since;
    struct span if_range;
    struct span range;
};

/*
 * Parses one head at DATA. *SCANNED is how far an earlier call on the same, shorter bytes has
 * looked (0 at first); it is moved on so that a head that drips in is not searched again and again,
 * and goes back to 0 when the head is decided.
 *
 * Returns the bytes used (> 0) with *REQUEST filled; 0 when the head is not complete yet; or minus
 * the status to answer with before closing (-400, -414, -417, -421, -431, -501, -505). On refusal
 * REQUEST->line holds what could be told of the request line, for the log; while incomplete, the line
 * if it has come whole.
 */
int request_parse(const char *data, size_t length, const struct request_limits *limits,
                  size_t *scanned, struct request *request);

/*
 * The values of a field, line by line: *AT is NULL at first and belongs to this function. False
 * behind the last one.
 */
bool request_next_value(const struct request *request, enum request_field field, const char **at,
                        struct span *value);

#endif
