/*
 * The cookies of one user (RFC 6265, reduced): stored from Set-Cookie fields, sent back to the
 * server that set them, by path, Secure, Max-Age and Expires. Domain is ignored: a cookie is not
 * sent to other hosts. Both engines use it, so that they send the same. One thread at a time.
 */
#ifndef LOADGEN_COOKIE_JAR_H
#define LOADGEN_COOKIE_JAR_H

#include "loadgen/plan/request_plan.h"

#include <time.h>

enum {
    COOKIE_JAR_COOKIES_MAX = 50,
    COOKIE_JAR_COOKIE_BYTES_MAX = 4096, /* name, value and path */
};

/* All zero: empty. */
struct cookie_jar {
    struct cookie *cookies;
    size_t count;
};

/*
 * Stores or deletes the cookie of VALUE, a Set-Cookie field of a response to REQUEST. Ignores it if
 * it is invalid, too long, one too many, or out of memory.
 */
void cookie_jar_store(struct cookie_jar *jar, const struct request *request, const char *value,
                      size_t length, time_t now);

/* The value of the Cookie field for REQUEST, to be freed; NULL: none, or out of memory. */
char *cookie_jar_value(struct cookie_jar *jar, const struct request *request, time_t now);

void cookie_jar_free(struct cookie_jar *jar);

#endif
