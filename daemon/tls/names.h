/* Comparison of host names with the names in certificates (RFC 9525). Pure; any thread. */
#ifndef DAEMON_TLS_NAMES_H
#define DAEMON_TLS_NAMES_H

#include <stdbool.h>

enum tls_name_match {
    TLS_NAME_DIFFERS,
    TLS_NAME_BY_WILDCARD, /* "*.example.org" stands for exactly one label */
    TLS_NAME_EQUAL,
};

/* Compares HOST, a DNS name in any case, with PATTERN, a DNS name of a certificate. */
enum tls_name_match tls_name_match(const char *pattern, const char *host);

/* True if PATTERN matches every name that OTHER, another pattern, matches. */
bool tls_name_includes(const char *pattern, const char *other);

#endif
