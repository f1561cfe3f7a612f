/*
 * Response heads: status line, Server, Date and Connection, the part that every answer begins with.
 * The Date is written once a second for each thread (RFC 9110 section 6.6.1).
 */
#ifndef DAEMON_RESPONSE_H
#define DAEMON_RESPONSE_H

#include "common/span.h"
#include "daemon/http/date.h"

#include <stddef.h>
#include <stdint.h>

enum http_status {
#define HTTP_STATUS(code, name, reason) STATUS_##name = code,
#include "common/http_status.def"
#undef HTTP_STATUS
};

/* What the answer says about the connection (RFC 9112 section 9.3). */
enum persistence {
    PERSIST_DEFAULT,    /* HTTP/1.1, goes on: nothing is said */
    PERSIST_KEEP_ALIVE, /* HTTP/1.0, goes on: "Connection: keep-alive" */
    PERSIST_CLOSE,      /* "Connection: close" */
    PERSIST_COUNT
};

enum { RESPONSE_PREFIX_MAX = 192 };

/* The beginning of an answer as it was in one second. */
struct response_prefix {
    int64_t second; /* that it was written for; 0: never */
    size_t length;
    char text[RESPONSE_PREFIX_MAX];
};

enum {
#define HTTP_STATUS(code, name, reason) +1
    STATUS_COUNT = 0
#include "common/http_status.def"
#undef HTTP_STATUS
};

/* One thread's prepared beginnings; each is written when it is first wanted in a second. */
struct response_prefixes {
    const char *server; /* the Server field; "": none, NULL: ours. Borrowed; set before use */
    int64_t second;     /* since 1970, of all that is sent now */
    char date[HTTP_DATE_BYTES];
    struct response_prefix prepared[STATUS_COUNT][PERSIST_COUNT];
};

/* Writes the date anew if SECOND (since 1970) is another one. The owning thread. */
void response_prefixes_update(struct response_prefixes *prefixes, int64_t second);

/*
 * The beginning of an answer, up to and with the Connection field; other fields follow. Writes at
 * most RESPONSE_PREFIX_MAX bytes to BUFFER and returns how many.
 */
size_t response_prefix(struct response_prefixes *prefixes, int status, enum persistence persistence,
                       char *buffer);

/* "Not Found" for 404. */
const char *response_reason(int status);

/* The built-in page for an error: HTML, static. */
struct span response_error_page(int status);

#endif
