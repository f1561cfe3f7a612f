/*
 * Where requests go: the URL taken apart once, and the addresses of its host looked up once, so
 * that neither is done again for a request or a connection. Made by the main thread; read by all.
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
    struct curl_slist
        *addresses; /* for CURLOPT_RESOLVE; NULL where the host is an address itself */
};

/* Takes URL apart. Returns 0, or -1 with the reason in WHY. Release with target_free() either way.
 */
int target_parse(struct target *target, const char *url, char *why, size_t size);

/* Looks the host's addresses up; may wait for a name server. Returns 0, or -1 with WHY. */
int target_resolve(struct target *target, char *why, size_t size);

void target_free(struct target *target);

#endif
