/*
 * A request in the form that all protocol versions share: method, target and the fields that the
 * server evaluates; and one handler for each such field, for the parsers of the versions. Spans
 * borrow the bytes of the message that was parsed.
 */
#ifndef DAEMON_HTTP_REQUEST_H
#define DAEMON_HTTP_REQUEST_H

#include "common/span.h"
#include "daemon/http/syntax.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Optional white space, RFC 9110 section 5.6.3. */
static inline bool http_is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

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
    METHOD_UNKNOWN,    /* a well-formed token that is not registered */
};

/* Major versions. Each has its own encoding of header fields: field lines, or HPACK. */
enum http_version { HTTP_1, HTTP_2, HTTP_VERSIONS };

/* Fields that select the representation: bits of request.present and request.repeated. */
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

/*
 * An absent field has length 0 and start NULL, except those with an enum request_field bit: their
 * spans are valid only if the bit is set in PRESENT, and hold the value of the first field line.
 */
struct request {
    struct span line;   /* the request line without its CRLF, as received */
    struct span fields; /* all field lines, as received */
    struct span target;
    enum http_method method;
    enum http_version version;
    uint8_t minor_version; /* 0 or 1; only with HTTP_1 */
    bool keep_alive;       /* the client wants a persistent connection (version and Connection) */
    bool has_body;         /* Content-Length above 0, or chunked */
    bool chunked;
    bool expect_continue;
    uint8_t present;  /* enum request_field: those received */
    uint8_t repeated; /* those received more than once */
    uint64_t content_length;
    struct span host; /* an absolute-form target has it, else the field Host */
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
 * Makes REQUEST one without fields. Field by field, because compilers emit a slower string
 * instruction for assigning the whole struct.
 */
static inline void request_clear(struct request *request)
{
    const struct span none = {NULL, 0};

    request->line = request->fields = request->target = request->host = none;
    request->referer = request->user_agent = none;
    request->method = METHOD_UNKNOWN;
    request->version = HTTP_1;
    request->minor_version = 0;
    request->present = request->repeated = 0;
    request->keep_alive = request->has_body = request->chunked = request->expect_continue = false;
    request->content_length = 0;
}

/* True if Range counts: of a GET, once (RFC 9110 section 14.2). */
static inline bool request_has_range(const struct request *request)
{
    return (request->present & ~request->repeated & REQUEST_RANGE) != 0 &&
           request->method == METHOD_GET;
}

/*
 * Finds the lines of the field NAME, in lower case, among all that were received. Returns their
 * number; *VALUE is that of the first. Slow: only for fields that few requests need.
 */
unsigned request_find_field(const struct request *request, struct span name, struct span *value);

/*
 * Iterates over the lines of the field NAME, in lower case. *AT is NULL before the first call and
 * private to this function. Returns false after the last line. As slow.
 */
bool request_next_line(const struct request *request, struct span name, const char **at,
                       struct span *value);

/* The method called NAME, which is a token. */
enum http_method http_method_find(struct span name);

/*
 * Iterates over the field lines of FIELD. *AT is NULL before the first call and private to this
 * function. Returns false after the last line. Of a rejected request only the first line is known.
 */
bool request_next_value(const struct request *request, enum request_field field, const char **at,
                        struct span *value);

/* Parsing */

/* Results of parsing steps; or the status (400 and above) to reject with. */
enum { GOOD = 0, INCOMPLETE = 1 };

/* Fields whose presence matters: bits of head.seen. */
enum {
    SEEN_HOST = 1 << 0,
    SEEN_CONTENT_LENGTH = 1 << 1,
    SEEN_TRANSFER_ENCODING = 1 << 2,
};

/* The state of a head while it is parsed. */
struct head {
    const char *start;      /* here the parsed bytes begin */
    const char *at;         /* everything before it is parsed */
    const char *end;        /* here the bytes received within limits.head_bytes end */
    bool cut;               /* HTTP/1: END is at the limit; do not wait for more bytes */
    bool close, keep_alive; /* options of Connection */
    bool unknown_coding;    /* Transfer-Encoding has one */
    unsigned seen;          /* SEEN_... */
    struct span authority;  /* an absolute-form target has one */
    struct request *request;
};

/* Interprets a field's trimmed value. Returns GOOD or the status to reject with. */
typedef int field_handler(struct head *head, struct span value);

field_handler request_field_host;
field_handler request_field_content_length;
field_handler request_field_transfer_encoding;
field_handler request_field_connection;
field_handler request_field_expect;
field_handler request_field_referer;
field_handler request_field_user_agent;
field_handler request_field_if_match;
field_handler request_field_if_none_match;
field_handler request_field_if_modified_since;
field_handler request_field_if_unmodified_since;
field_handler request_field_range;
field_handler request_field_if_range;
field_handler request_field_accept;
field_handler request_field_accept_encoding;

/* The handler of the field NAME, selected by length and then by letters. NULL: it is ignored. */
static inline field_handler *request_field_find(struct span name)
{
    switch (name.length) {
    case 4:
        return NAME_IS(name, "host") ? request_field_host : NULL;
    case 5:
        return NAME_IS(name, "range") ? request_field_range : NULL;
    case 6:
        if (NAME_IS(name, "accept"))
            return request_field_accept;
        return NAME_IS(name, "expect") ? request_field_expect : NULL;
    case 7:
        return NAME_IS(name, "referer") ? request_field_referer : NULL;
    case 8:
        if (NAME_IS(name, "if-match"))
            return request_field_if_match;
        return NAME_IS(name, "if-range") ? request_field_if_range : NULL;
    case 10:
        if (NAME_IS(name, "user-agent"))
            return request_field_user_agent;
        return NAME_IS(name, "connection") ? request_field_connection : NULL;
    case 13:
        return NAME_IS(name, "if-none-match") ? request_field_if_none_match : NULL;
    case 14:
        return NAME_IS(name, "content-length") ? request_field_content_length : NULL;
    case 15:
        return NAME_IS(name, "accept-encoding") ? request_field_accept_encoding : NULL;
    case 17:
        if (NAME_IS(name, "if-modified-since"))
            return request_field_if_modified_since;
        return NAME_IS(name, "transfer-encoding") ? request_field_transfer_encoding : NULL;
    case 19:
        return NAME_IS(name, "if-unmodified-since") ? request_field_if_unmodified_since : NULL;
    default:
        return NULL;
    }
}

#endif
