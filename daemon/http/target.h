/*
 * The request target, decoded and normalised once (RFC 9112 section 3.2, RFC 3986 sections 2 and
 * 5.2.4). Pure. The resulting path begins with '/' and has no empty, "." or ".." segment and no
 * NUL. The kernel checks it again when it is opened (daemon/content/files.h).
 */
#ifndef DAEMON_TARGET_H
#define DAEMON_TARGET_H

#include "common/span.h"

#include <stdbool.h>

enum { TARGET_PATH_MAX = 4096 };

struct target {
    size_t length;              /* of path */
    struct span query;          /* after the '?', points into the target; start NULL: none */
    bool directory;             /* the path ends with '/' */
    char path[TARGET_PATH_MAX]; /* ends with a NUL */
};

/*
 * Parses origin form ("/a/b?q") or absolute form ("http://host/a"). Returns 0, or the status to
 * send: 400 if it is malformed (bad escape, encoded NUL or slash, backslash, control character,
 * ".." above the root), 404 if the decoded path is longer than TARGET_PATH_MAX - 1.
 */
int target_canonical(struct span text, struct target *target);

/*
 * The authority of a URI in HTTP: host [ ":" port ] (RFC 3986 section 3.2, RFC 9110 section 4.2),
 * without userinfo. The host has at least one byte; an IP literal is IPv6 without a zone, or
 * IPvFuture. With PORT_NEEDED there must be a port of at least one digit; else it may be empty or
 * absent.
 */
bool authority_valid(struct span text, bool port_needed);

/* True if the bytes from AT to END are a port up to 65535, or there are none. */
bool authority_port_valid(const char *at, const char *end);

#endif
