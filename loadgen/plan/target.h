/*
 * Where requests go: a URL taken apart once, and the addresses of its host looked up once, so that
 * neither is done again for a request or a connection. Made by the main thread; read by all.
 */
#ifndef LOADGEN_TARGET_H
#define LOADGEN_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <curl/curl.h>

struct target {
    CURLU *url;
    char *text; /* the URL as it is requested: with a scheme, without a fragment */
    char *host; /* without the brackets of an IPv6 address */
    uint16_t port;
    bool tls;
    struct curl_slist
        *addresses; /* for CURLOPT_RESOLVE; NULL where the host is an address itself */
};

/*
 * Takes URL apart; with a BASE it may be relative to that ("/path"). Returns 0, or -1 with the reason
 * in WHY. Release with target_free() either way.
 */
int target_parse(struct target *target, const struct target *base, const char *url, char *why,
                 size_t size);

/* Whether connections to one can carry requests to the other. */
bool target_same_origin(const struct target *one, const struct target *other);

/*
 * Looks the host's addresses of FAMILY (AF_UNSPEC: any) up; may wait for a name server. Returns 0, or
 * -1 with WHY.
 */
int target_resolve(struct target *target, int family, char *why, size_t size);

void target_free(struct target *target);

#endif
