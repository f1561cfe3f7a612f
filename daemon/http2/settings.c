#include "daemon/http2/settings.h"

enum { FRAME_SIZE_MIN = 16384, FRAME_SIZE_MAX = 16777215 };

const struct http2_settings http2_settings_initial = {
    .header_table_size = 4096,
    .initial_window = WINDOW_INITIAL,
    .max_frame_size = FRAME_SIZE_MIN,
};

static enum http2_error set(struct http2_settings *settings, unsigned setting, uint32_t value)
{
    switch (setting) {
    case SETTING_HEADER_TABLE_SIZE:
        settings->header_table_size = value;
        break;
    case SETTING_ENABLE_PUSH:
    case SETTING_NO_RFC7540_PRIORITIES:
        return value > 1 ? HTTP2_PROTOCOL_ERROR : HTTP2_NO_ERROR;
    case SETTING_INITIAL_WINDOW_SIZE:
        if (value > INT32_MAX)
            return HTTP2_FLOW_CONTROL_ERROR;
        settings->initial_window = value;
        break;
    case SETTING_MAX_FRAME_SIZE:
        if (value < FRAME_SIZE_MIN || value > FRAME_SIZE_MAX)
            return HTTP2_PROTOCOL_ERROR;
        settings->max_frame_size = value;
        break;
    default: /* we push nothing; unknown ones are ignored */
        break;
    }
    return HTTP2_NO_ERROR;
}

enum http2_error http2_settings_read(struct http2_settings *settings, const char *payload,
                                     size_t length)
{
    const char *end = payload + length;
    enum http2_error error = HTTP2_NO_ERROR;

    if (length % FRAME_SETTING_BYTES != 0)
        return HTTP2_FRAME_SIZE_ERROR;
    for (const char *at = payload; at < end && error == HTTP2_NO_ERROR; at += FRAME_SETTING_BYTES)
        error = set(settings, frame_read_32(at) >> 16, frame_read_32(at + 2));
    return error;
}
