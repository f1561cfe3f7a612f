/*
 * The header fields of a request that the server interprets: one handler for each, and the state of
 * a head while it is parsed. For the parsers of the protocol versions.
 */
#ifndef DAEMON_HTTP_REQUEST_FIELDS_H
#define DAEMON_HTTP_REQUEST_FIELDS_H

#include "daemon/http/request.h"
#include "daemon/http/syntax.h"

/* Results of parsing steps; or the status (400 and above) to reject with. */
enum { GOOD = 0, INCOMPLETE = 1 };

/* Fields whose presence matters: bits of head.seen. */
enum {
    SEEN_HOST = 1 << 0,
    SEEN_CONTENT_LENGTH = 1 << 1,
    SEEN_TRANSFER_ENCODING = 1 << 2,
};

struct head {
    const char *start;      /* of the parsed bytes */
    const char *at;         /* everything before it is parsed */
    const char *end;        /* of the received bytes within limits.head_bytes */
    bool cut;               /* HTTP/1: END is at the limit; do not wait for more bytes */
    bool close, keep_alive; /* options of Connection */
    bool unknown_coding;    /* in Transfer-Encoding */
    unsigned seen;          /* SEEN_... */
    struct span authority;  /* of an absolute-form target */
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
