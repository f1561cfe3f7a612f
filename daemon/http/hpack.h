/*
 * Header fields as an HPACK block for HTTP/2 (RFC 7541), encoded without the dynamic table. Such a
 * block means the same on every connection and at every time, so blocks can be prepared and put one
 * after the other. Pure.
 */
#ifndef DAEMON_HTTP_HPACK_H
#define DAEMON_HTTP_HPACK_H

#include "common/span.h"

enum { HPACK_STATUS_MAX = 5 }; /* bytes of a status */

/* The most bytes that hpack_put_lines() writes for TEXT bytes of field lines. */
#define HPACK_LINES_MAX(text) ((text) + (text) / 32 + 8)

/* Writes :status. Returns the end. */
char *hpack_put_status(char *to, int status);

/*
 * Writes the fields of LINES ("Name: value CRLF" each) with their names in lower case. Returns the
 * end.
 */
char *hpack_put_lines(char *to, struct span lines);

#endif
