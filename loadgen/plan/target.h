/*
 * The target of requests: a URL, parsed once, and the addresses of its host, resolved once before
 * the run. Filled by the main thread; read by all threads.
 */
#ifndef LOADGEN_TARGET_H
#define LOADGEN_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <curl/curl.h>

struct target {
    CURLU *url;
    char *text; /* the URL with a scheme and without a fragment */
    char *host; /* without the brackets of an IPv6 address */
    uint16_t port;
    bool tls;
    struct curl_slist *addresses; /* as CURLOPT_RESOLVE; NULL: the host is an address */
};

/*
 * Parses URL, which may be relative to BASE (NULL: none). Returns 0, or -1 with WHY. Release with
 * target_free() in either case.
 */
int target_parse(struct target *target, const struct target *base, const char *url, char *why,
                 size_t size);

/* The same for PATH, a path with or without a query, on the server of BASE. */
int target_parse_path(struct target *target, const struct target *base, const char *path, char *why,
                      size_t size);

/* Whether both have the same scheme, host and port (RFC 6454). */
bool target_same_origin(const struct target *one, const struct target *other);

/* Resolves the host to addresses of FAMILY (AF_UNSPEC: any). Blocks. Returns 0, or -1 with WHY. */
int target_resolve(struct target *target, int family, char *why, size_t size);

void target_free(struct target *target);

#endif
