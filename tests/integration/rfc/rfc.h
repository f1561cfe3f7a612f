/*
 * The RFCs as tables: the raw bytes of one or more requests, and what must come back. A table is a
 * file NAME.def beside this one, a list of
 *
 *     CASE("9112 3.2", "Host is missing", "GET / HTTP/1.1\r\n\r\n", REFUSED(400))
 *     CASE("9110 9.3.1", "two files", GET("/a") GET("/b.txt"),
 *          ANSWER(200, .body = "a"), ANSWER(200, .fields = "Content-Type: text/plain*"))
 *
 * with the section (of RFC 9110, 9111, 9112, 3986 ...), a title, what the client sends, and the
 * answers that come, in order. Behind the last of them the connection is kept (another request is
 * answered: the server is where the next one starts) unless the case ends with CLOSED. With
 * HALF_CLOSED the client shuts its side down when it has said all, and the connection ends behind
 * the last answer. With CLOSED_BEFORE_THE_END it sends on behind a request that asked to close: what
 * comes after that has been done may cost it the answer (RFC 9112 section 9.6), so that such a case
 * runs all at once only.
 *
 * Each case runs twice, on a connection of its own: all at once, and in pieces as small as a byte. A
 * single GET runs once more as HEAD, whose answer must have the same fields and no body.
 * "{etag /path}" in what is sent stands for the entity tag of that file, "{etag /path gzip}" for that
 * of its coded form. All files of the site are of Sun, 06 Nov 1994 08:49:37 GMT.
 * What is true of every answer is checked of every answer, see rfc_check.c. The files that the
 * server has are in site.def, the tables and the options that each runs with in tables.def.
 */
#ifndef TESTS_RFC_H
#define TESTS_RFC_H

#include "../server.h"

#include "common/span.h"

enum {
    RFC_KEPT = 0,
    RFC_CLOSED = -1,
    RFC_HALF_CLOSED = -2,
    RFC_CLOSED_BEFORE_THE_END = -3,
    RFC_ANSWERS_MAX = 8
};

struct rfc_answer {
    int status;          /* or how the connection ends: RFC_... */
    const char *body;    /* exactly this; NULL: any */
    const char *like;    /* a body of this form, as fnmatch(3) has it; NULL: any */
    size_t length;       /* of the body; 0: any */
    const char *fields;  /* "Name: value\nName: value": each comes once, with a value of that form,
                            as fnmatch(3) has it */
    const char *without; /* "Name Name": these do not come */
    const char *then;    /* what the client says when it has this answer */
    bool head;           /* the answer to a HEAD: no body comes */
};

struct rfc_case {
    const char *rule, *title;
    struct span bytes;
    struct rfc_answer answers[RFC_ANSWERS_MAX];
};

#define CASE(rule, title, bytes, ...) {rule, title, {bytes, sizeof(bytes) - 1}, {__VA_ARGS__}},
#define ANSWER(code, ...)                                                                          \
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
/* Answered with STATUS, and the connection ends. */
#define REFUSED(status) ANSWER(status), CLOSED

#define HOST                   "Host: h\r\n"
#define END                    "\r\n"
#define REQUEST(start, fields) start " HTTP/1.1\r\n" HOST fields END
#define GET(target)            REQUEST("GET " target, "")

struct http_answer;

/* Runs the case against SERVER; fails the running test when something else comes back. Returns how
 * many answers came that have to be counted and logged. */
uint64_t rfc_run(const struct server *server, const struct rfc_case *rfc_case);

/* Writes what BYTES stand for to *EXPANDED, which the caller frees. Returns how many answers it
 * took. */
uint64_t rfc_expand(const struct server *server, struct span bytes, struct span *expanded);

/* What is true of every answer to HTTP/1.1; LAST: the connection ends behind it. */
void rfc_check_any(const struct http_answer *answer, bool last);

/* What the case says about this one. */
void rfc_check_one(const struct http_answer *answer, const struct rfc_answer *expected);

#endif
