/*
 * Limits of what costs a client little and the server much: frames of some kinds are counted per
 * connection and second. Pure.
 */
#ifndef DAEMON_HTTP2_FLOOD_H
#define DAEMON_HTTP2_FLOOD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * FLOOD(NAME, limit per second)
 *
 * A browser that leaves a page resets all its streams at once, up to max_concurrent_streams. The
 * other limits are far above what clients send.
 */
#define HTTP2_FLOODS                                                                               \
    FLOOD(RESETS, 1000)                                                                            \
    FLOOD(SETTINGS, 50)                                                                            \
    FLOOD(PINGS, 100)                                                                              \
    FLOOD(PRIORITIES, 1000) /* PRIORITY and PRIORITY_UPDATE */                                     \
    FLOOD(EMPTY, 100)       /* frames without content that end nothing */                          \
    FLOOD(ERRORS, 500)      /* requests that we answer with RST_STREAM */

enum http2_flood {
#define FLOOD(name, limit) FLOOD_##name,
    HTTP2_FLOODS
#undef FLOOD
        FLOOD_COUNT
};

struct http2_floods {
    uint64_t from_ns; /* start of the second in which frames are counted; monotonic */
    uint32_t count[FLOOD_COUNT];
};

/* Counts one. Returns false if it exceeds the limit. */
bool http2_flood_count(struct http2_floods *floods, enum http2_flood kind, uint64_t now_ns);

#endif
