/*
 * The authority of a URI as HTTP has it: host [ ":" port ] (RFC 3986 section 3.2, RFC 9110 section
 * 4.2), without userinfo. A host has at least one byte; an IP literal is IPv6 without a zone, or
 * IPvFuture. Pure.
 */
#ifndef DAEMON_AUTHORITY_H
#define DAEMON_AUTHORITY_H

#include "common/span.h"

/* With PORT_NEEDED there must be a port of at least one digit; without, it may be empty or absent.
 */
bool authority_valid(struct span text, bool port_needed);

/* The bytes from AT to END are digits, up to 65535; none are valid too. */
bool authority_port_valid(const char *at, const char *end);

#endif
