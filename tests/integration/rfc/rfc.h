/*
 * RFC cases as tables: the raw bytes of one or more requests and the expected responses. A table is
 * a file NAME.def beside this one, a list of
 *
 *     CASE("9112 3.2", "Host is missing", "GET / HTTP/1.1\r\n\r\n", REJECTED(400))
 *     CASE("9110 9.3.1", "two files", GET("/a") GET("/b.txt"),
 *          RESPONSE(200, .body = "a"), RESPONSE(200, .fields = "Content-Type: text/plain*"))
 *
 * with the section (of RFC 9110, 9111, 9112, 3986 ...), a title, the bytes that the client sends,
 * and the expected responses in order. After the last response the connection stays open (the
 * runner sends another request, to check where the next request starts) unless the case ends with
 * CLOSED. With HALF_CLOSED the client shuts down its sending side after the last byte, and the
 * connection closes after the last response. With CLOSED_BEFORE_THE_END the client sends more after
 * a request that asked to close. The server may reset the connection before the client reads the
 * response (RFC 9112 section 9.6), so such a case runs only unsplit.
 *
 * Each case runs twice on its own connection: sent at once, and in pieces as small as one byte. A
 * single GET runs again as HEAD: the response must have the same fields and no body. A single request
 * without a body or fields of a connection runs again over HTTP/2. Over TLS, where a connection costs
 * a handshake, the runs of a case share one if it stays open, all cases of a table share one for
 * HTTP/2, and pieces are larger. In the sent
 * bytes "{etag /path}" is replaced by the entity tag of that file, "{etag /path gzip}" by that of
 * its encoded variant. The mtime of all files is Sun, 06 Nov 1994 08:49:37 GMT. rfc_check.c also
 * checks what holds for every response. site.def lists the files of the server, tables.def the
 * tables with their server options.
 */
#ifndef TESTS_RFC_H
#define TESTS_RFC_H

#include "../http2_client.h"
#include "../server.h"

#include "common/span.h"

enum {
    RFC_KEPT = 0,
    RFC_CLOSED = -1,
    RFC_HALF_CLOSED = -2,
    RFC_CLOSED_BEFORE_THE_END = -3,
    RFC_ANSWERS_MAX = 8
};

struct rfc_response {
    int status;       /* or how the connection closes: RFC_... */
    const char *body; /* expected body; NULL: any */
    const char *like; /* fnmatch(3) pattern of the body; NULL: any */
    size_t length;    /* of the body; 0: any */
    const char
        *fields; /* "Name: value\nName: value": each occurs once; value is an fnmatch(3) pattern */
    const char *without; /* "Name Name": fields that must not occur */
    const char *then;    /* bytes that the client sends after this response */
    bool head;           /* response to a HEAD: without body */
};

struct rfc_case {
    const char *rule, *title;
    struct span bytes;
    struct rfc_response responses[RFC_ANSWERS_MAX];
};

#define CASE(rule, title, bytes, ...) {rule, title, {bytes, sizeof(bytes) - 1}, {__VA_ARGS__}},
#define RESPONSE(code, ...)                                                                        \
    {                                                                                              \
        .status = code, __VA_ARGS__                                                                \
    }
#define CLOSED                                                                                     \
    {                                                                                              \
        .status = RFC_CLOSED                                                                       \
    }
#define HALF_CLOSED                                                                                \
    {                                                                                              \
        .status = RFC_HALF_CLOSED                                                                  \
    }
#define CLOSED_BEFORE_THE_END                                                                      \
    {                                                                                              \
        .status = RFC_CLOSED_BEFORE_THE_END                                                        \
    }
/* A response with STATUS, then the close. */
#define REJECTED(status) RESPONSE(status), CLOSED

#define HOST                   "Host: h\r\n"
#define END                    "\r\n"
#define REQUEST(start, fields) start " HTTP/1.1\r\n" HOST fields END
#define GET(target)            REQUEST("GET " target, "")

/* Runs the cases of a table. */
struct rfc_runner {
    const struct server *server;
    bool over_tls;
    struct http2_client http2; /* the shared connection */
    uint32_t last_stream;      /* on it; 0: not connected */
};

/*
 * Runs the case. Fails the running test if a response differs. Returns the number of responses that
 * the server must count and log.
 */
uint64_t rfc_run(struct rfc_runner *runner, const struct rfc_case *rfc_case);

/* The same over HTTP/2; returns 0 if the case is one of HTTP/1 only. */
uint64_t rfc_run_over_http2(struct rfc_runner *runner, const struct rfc_case *rfc_case);

/* Closes the shared connection. */
void rfc_end(struct rfc_runner *runner);

/* Stores BYTES with expanded placeholders in *EXPANDED; the caller must free it. Returns the number
 * of requests it sent to do so. */
uint64_t rfc_expand(const struct server *server, struct span bytes, struct span *expanded);

/* Checks what holds for every HTTP/1.1 response. LAST: the connection closes after it. */
void rfc_check_any(const struct http_response *response, bool last);

/* Checks the expectations of the case. */
void rfc_check_one(const struct http_response *response, const struct rfc_response *expected);

#endif
