/*
 * What the two halves of the request parser share: the state of one head while it is parsed, and
 * what is done with each field that means something. Included by request.c and request_fields.c.
 */
#ifndef DAEMON_REQUEST_HEAD_H
#define DAEMON_REQUEST_HEAD_H

#include "daemon/http/request.h"

/* What a step returns: one of these, or the status (400 and above) to refuse with. */
enum { GOOD = 0, INCOMPLETE = 1 };

/* Fields that may come once, or whose coming matters: bits of head.seen. */
enum {
    SEEN_HOST = 1 << 0,
    SEEN_CONTENT_LENGTH = 1 << 1,
    SEEN_TRANSFER_ENCODING = 1 << 2,
};

struct head {
    const char *start;      /* of the parsed bytes */
    const char *at;         /* all before it has been understood */
    const char *end;        /* of the bytes that are there and within the head's limit */
    bool cut;               /* END is where the limit cuts, not where the network paused */
    bool close, keep_alive; /* options of Connection */
    bool unknown_coding;    /* of Transfer-Encoding */
    unsigned seen;          /* SEEN_… */
    struct span authority;  /* of a target in absolute form */
    struct request *request;
};

/* Takes a field's trimmed value into the head. GOOD, or the status to refuse with. */
typedef int field_taker(struct head *head, struct span value);

field_taker request_take_host;
field_taker request_take_content_length;
field_taker request_take_transfer_encoding;
field_taker request_take_connection;
field_taker request_take_expect;
field_taker request_take_referer;
field_taker request_take_user_agent;
field_taker request_take_if_match;
field_taker request_take_if_none_match;
field_taker request_take_if_modified_since;
field_taker request_take_if_unmodified_since;
field_taker request_take_range;
field_taker request_take_if_range;
field_taker request_take_accept;
field_taker request_take_accept_encoding;

#endif
