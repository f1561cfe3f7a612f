/*
 * Parser of HTTP/1.1 and 1.0 request heads: RFC 9112 sections 2 to 7, RFC 9110 section 5. Pure and
 * zero-copy: it returns spans into the input and keeps no state. It is strict where leniency
 * enables attacks; request_parser.c lists what it rejects and with which status.
 */
#ifndef DAEMON_HTTP1_REQUEST_PARSER_H
#define DAEMON_HTTP1_REQUEST_PARSER_H

#include "daemon/http/request.h"

struct request_limits {
    size_t line_bytes; /* request line, without its CRLF */
    size_t head_bytes; /* whole head, including the empty line */
    size_t field_count;
};

/*
 * Parses one request head at DATA. *SCANNED (initially 0) is how far earlier calls on the same,
 * shorter input have searched, so that a head that arrives byte by byte costs linear time; it is
 * reset to 0 when the head is complete or rejected.
 *
 * Returns the number of bytes used (> 0) with *REQUEST filled; 0 if the head is incomplete; or
 * minus the status to respond with before closing (-400, -414, -417, -421, -431, -501, -505). For
 * the log, REQUEST->line is the part of the request line found before a rejection, or, if the head
 * is incomplete, the whole line if it has arrived.
 */
int request_parse(const char *data, size_t length, const struct request_limits *limits,
                  size_t *scanned, struct request *request);

#endif
