/*
 * The request target, decoded and folded once (RFC 9112 section 3.2, RFC 3986 sections 2 and 5.2.4).
 * Pure. Everything behind this step sees a path that begins with '/', has no empty, "." or ".."
 * segment, no NUL, and still is checked by the kernel when it is opened.
 */
#ifndef DAEMON_TARGET_H
#define DAEMON_TARGET_H

#include "common/span.h"

#include <stdbool.h>

enum { TARGET_PATH_MAX = 4096 };

struct target {
    size_t length;              /* of path */
    struct span query;          /* behind the '?', into the target; start NULL when there is none */
    bool directory;             /* the path ends with '/' */
    char path[TARGET_PATH_MAX]; /* ended by NUL */
};

/*
 * Origin form ("/a/b?q") or absolute form ("http://host/a"). Returns 0, or the status to answer with:
 * 400 for what is malformed (a bad escape, an encoded NUL or slash, a backslash, a control
 * character, ".." above the root), 404 when the decoded path is longer than TARGET_PATH_MAX - 1.
 */
int target_canonical(struct span text, struct target *target);

/*
 * The authority of a URI in HTTP: host [ ":" port ] (RFC 3986 section 3.2, RFC 9110 section 4.2),
 * without userinfo. The host has at least one byte; an IP literal is IPv6 without a zone, or IPvFuture.
 * With PORT_NEEDED there must be a port of at least one digit; else it may be empty or absent.
 */
bool authority_valid(struct span text, bool port_needed);

/* True if the bytes from AT to END are a port up to 65535, or there are none. */
bool authority_port_valid(const char *at, const char *end);

#endif
