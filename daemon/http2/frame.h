/*
 * The format of HTTP/2: frames (RFC 9113 sections 4 and 6), the codes of errors and settings, and
 * priorities. Pure.
 */
#ifndef DAEMON_HTTP2_FRAME_H
#define DAEMON_HTTP2_FRAME_H

#include "common/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEAD_BYTES = 9,
    FRAME_PAYLOAD_MAX = 16384, /* our SETTINGS_MAX_FRAME_SIZE limits received frames */
    FRAME_SETTING_BYTES = 6,
    FRAME_PRIORITY_BYTES = 5,
    FRAME_PING_BYTES = 8,
};

enum frame_type {
    FRAME_DATA = 0x0,
    FRAME_HEADERS = 0x1,
    FRAME_PRIORITY = 0x2,
    FRAME_RST_STREAM = 0x3,
    FRAME_SETTINGS = 0x4,
    FRAME_PUSH_PROMISE = 0x5,
    FRAME_PING = 0x6,
    FRAME_GOAWAY = 0x7,
    FRAME_WINDOW_UPDATE = 0x8,
    FRAME_CONTINUATION = 0x9,
    FRAME_PRIORITY_UPDATE = 0x10, /* RFC 9218 section 7 */
};

enum frame_flag {
    FRAME_END_STREAM = 0x1,
    FRAME_ACK = 0x1,
    FRAME_END_HEADERS = 0x4,
    FRAME_PADDED = 0x8,
    FRAME_HAS_PRIORITY = 0x20,
};

/* Section 7. */
enum http2_error {
    HTTP2_NO_ERROR = 0x0,
    HTTP2_PROTOCOL_ERROR = 0x1,
    HTTP2_INTERNAL_ERROR = 0x2,
    HTTP2_FLOW_CONTROL_ERROR = 0x3,
    HTTP2_STREAM_CLOSED = 0x5,
    HTTP2_FRAME_SIZE_ERROR = 0x6,
    HTTP2_REFUSED_STREAM = 0x7,
    HTTP2_CANCEL = 0x8,
    HTTP2_COMPRESSION_ERROR = 0x9,
    HTTP2_ENHANCE_YOUR_CALM = 0xb,
};

enum frame_setting {
    SETTING_HEADER_TABLE_SIZE = 0x1,
    SETTING_ENABLE_PUSH = 0x2,
    SETTING_MAX_CONCURRENT_STREAMS = 0x3,
    SETTING_INITIAL_WINDOW_SIZE = 0x4,
    SETTING_MAX_FRAME_SIZE = 0x5,
    SETTING_MAX_HEADER_LIST_SIZE = 0x6,
    SETTING_NO_RFC7540_PRIORITIES = 0x9, /* RFC 9218 section 2.1 */
};

struct frame_head {
    uint32_t length; /* bytes of the payload */
    uint8_t type, flags;
    uint32_t stream;
};

/* Reads FRAME_HEAD_BYTES. */
struct frame_head frame_head_read(const char *at);

/* The 31 bits at AT after a reserved bit, and all 32. */
uint32_t frame_read_31(const char *at);
uint32_t frame_read_32(const char *at);

/* Writers; each returns the end. */
char *frame_put_head(char *to, struct frame_head head);
char *frame_put_32(char *to, uint32_t number);
char *frame_put_setting(char *to, enum frame_setting setting, uint32_t value);
char *frame_put_reset(char *to, uint32_t stream, enum http2_error error);
char *frame_put_window_update(char *to, uint32_t stream, uint32_t increment);
char *frame_put_ping(char *to, uint8_t flags, const char *payload);
char *frame_put_goaway(char *to, uint32_t last_stream, enum http2_error error);

/* Settings of the client (section 6.5) and flow-control windows (section 6.9) */

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

/* Priorities (RFC 9218): the Priority field and the PRIORITY_UPDATE frame */

enum { URGENCY_DEFAULT = 3, URGENCY_COUNT = 8 };

struct http2_priority {
    uint8_t urgency; /* 0: the most urgent */
    bool incremental;
};

/*
 * Parses a dictionary (RFC 8941 section 3.2), "u=1, i". Members that are unknown or have a value of
 * another type or out of range are ignored, and so is all of a field that is not a dictionary.
 */
struct http2_priority http2_priority_read(struct span field);

#endif
