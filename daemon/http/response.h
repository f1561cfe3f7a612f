/*
 * Response prefixes, with which every response begins: the status, Server and Date, and in HTTP/1
 * Connection; the built-in error pages; and header fields in the encoding of HTTP/2. Each thread
 * formats the Date once a second (RFC 9110 section 6.6.1).
 */
#ifndef DAEMON_RESPONSE_H
#define DAEMON_RESPONSE_H

#include "common/span.h"
#include "daemon/http/date.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_status {
#define HTTP_STATUS(code, name, reason) STATUS_##name = code,
#include "common/http_status.def"
#undef HTTP_STATUS
};

/* Forms of the prefix: HTTP/1 with each Connection field (RFC 9112 section 9.3), and HTTP/2. */
enum prefix_form {
    PREFIX_DEFAULT,    /* no field: HTTP/1.1 keep-alive */
    PREFIX_KEEP_ALIVE, /* "keep-alive": for HTTP/1.0 */
    PREFIX_CLOSE,      /* "close" */
    PREFIX_HPACK,      /* a header block */
    PREFIX_FORMS
};

enum { RESPONSE_PREFIX_MAX = 192 };

/* A prefix formatted for one second. */
struct response_prefix {
    int64_t second; /* since 1970; 0: not prepared */
    size_t length;
    char text[RESPONSE_PREFIX_MAX];
};

enum {
#define HTTP_STATUS(code, name, reason) +1
    STATUS_COUNT = 0
#include "common/http_status.def"
#undef HTTP_STATUS
};

/* The prefixes of a thread; each is formatted when first used in a second. */
struct response_prefixes {
    const char *server; /* value of Server; "": none, NULL: the default. Borrowed; set before use */
    int64_t second;     /* since 1970, of the current Date */
    char date[HTTP_DATE_BYTES];
    struct response_prefix prepared[STATUS_COUNT][PREFIX_FORMS];
};

/* Updates the Date if SECOND (since 1970) has changed. The owning thread. */
void response_prefixes_update(struct response_prefixes *prefixes, int64_t second);

/* Writes the prefix to BUFFER, at most RESPONSE_PREFIX_MAX bytes; returns the number of bytes. */
size_t response_prefix(struct response_prefixes *prefixes, int status, enum prefix_form form,
                       char *buffer);

/*
 * True for an error that depends on more of the request than its method and target, or on the state
 * of the server: a cache must not store it (RFC 6585 sections 4 and 5). The other errors, such as
 * 404, are about the target resource.
 */
bool response_is_of_request(int status);

/* "Not Found" for 404. */
const char *response_reason(int status);

/* The built-in HTML page for an error status; static. */
struct span response_error_page(int status);

/*
 * Header fields as an HPACK block for HTTP/2 (RFC 7541), encoded without the dynamic table. Such a
 * block means the same on every connection and at every time, so blocks can be prepared and put one
 * after the other. Pure.
 */

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
