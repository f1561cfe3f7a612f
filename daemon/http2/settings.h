/* The settings of the client (RFC 9113 section 6.5) and flow-control windows (section 6.9). Pure. */
#ifndef DAEMON_HTTP2_SETTINGS_H
#define DAEMON_HTTP2_SETTINGS_H

#include "daemon/http2/frame.h"

#include <stdbool.h>

enum { WINDOW_INITIAL = 65535 };

/* Those that concern what we send. */
struct http2_settings {
    uint32_t header_table_size;
    uint32_t initial_window;
    uint32_t max_frame_size;
};

extern const struct http2_settings http2_settings_initial;

/* Applies the payload of a SETTINGS frame. Returns the error to end the connection with. */
enum http2_error http2_settings_read(struct http2_settings *settings, const char *payload,
                                     size_t length);

/* Adds CHANGE to WINDOW, which may be negative. Returns false if it would exceed 2^31 - 1. */
static inline bool window_add(int32_t *window, int64_t change)
{
    int64_t sum = *window + change;

    if (sum > INT32_MAX)
        return false;
    *window = (int32_t)sum;
    return true;
}

#endif
