#include "daemon/tls/names.h"

#include <string.h>
#include <strings.h>

/*
 * A wildcard is the whole leftmost label, and at least two labels follow: "*" and "*.org" match
 * nothing.
 */
static bool is_wildcard(const char *pattern)
{
    return strncmp(pattern, "*.", 2) == 0 && pattern[2] != '.' && strchr(pattern + 2, '.') != NULL;
}

enum tls_name_match tls_name_match(const char *pattern, const char *host)
{
    const char *dot = strchr(host, '.');

    if (host[0] == '\0' || strchr(host, '*') != NULL)
        return TLS_NAME_DIFFERS;
    if (strcasecmp(pattern, host) == 0)
        return TLS_NAME_EQUAL;
    if (is_wildcard(pattern) && dot != NULL && dot != host && strcasecmp(pattern + 1, dot) == 0)
        return TLS_NAME_BY_WILDCARD;
    return TLS_NAME_DIFFERS;
}

bool tls_name_includes(const char *pattern, const char *other)
{
    return strcasecmp(pattern, other) == 0 || tls_name_match(pattern, other) != TLS_NAME_DIFFERS;
}
