/*
 * The header fields that the request parser interprets: one handler for each, and the state of a
 * head while it is parsed. For request_parser.c only.
 */
#ifndef DAEMON_HTTP1_REQUEST_FIELDS_H
#define DAEMON_HTTP1_REQUEST_FIELDS_H

#include "daemon/http/request.h"

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
    bool cut;               /* END is at the limit; do not wait for more bytes */
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

#endif
