#include "daemon/http2/frame.h"

#include <string.h>

uint32_t frame_read_32(const char *at)
{
    const unsigned char *byte = (const unsigned char *)at;

    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

uint32_t frame_read_31(const char *at)
{
    return frame_read_32(at) & INT32_MAX;
}

struct frame_head frame_head_read(const char *at)
{
    return (struct frame_head){
        .length = frame_read_32(at) >> 8,
        .type = (uint8_t)at[3],
        .flags = (uint8_t)at[4],
        .stream = frame_read_31(at + 5),
    };
}

char *frame_put_32(char *to, uint32_t number)
{
    to[0] = (char)(number >> 24);
    to[1] = (char)(number >> 16);
    to[2] = (char)(number >> 8);
    to[3] = (char)number;
    return to + 4;
}

char *frame_put_head(char *to, struct frame_head head)
{
    to = frame_put_32(to, head.length << 8 | head.type);
    *to++ = (char)head.flags;
    return frame_put_32(to, head.stream);
}

char *frame_put_setting(char *to, enum frame_setting setting, uint32_t value)
{
    to[0] = (char)(setting >> 8);
    to[1] = (char)setting;
    return frame_put_32(to + 2, value);
}

char *frame_put_reset(char *to, uint32_t stream, enum http2_error error)
{
    to = frame_put_head(to, (struct frame_head){4, FRAME_RST_STREAM, 0, stream});
    return frame_put_32(to, error);
}

char *frame_put_window_update(char *to, uint32_t stream, uint32_t increment)
{
    to = frame_put_head(to, (struct frame_head){4, FRAME_WINDOW_UPDATE, 0, stream});
    return frame_put_32(to, increment);
}

char *frame_put_ping(char *to, uint8_t flags, const char *payload)
{
    to = frame_put_head(to, (struct frame_head){FRAME_PING_BYTES, FRAME_PING, flags, 0});
    memcpy(to, payload, FRAME_PING_BYTES);
    return to + FRAME_PING_BYTES;
}

char *frame_put_goaway(char *to, uint32_t last_stream, enum http2_error error)
{
    to = frame_put_head(to, (struct frame_head){8, FRAME_GOAWAY, 0, 0});
    return frame_put_32(frame_put_32(to, last_stream), error);
}

/* Settings */

enum { FRAME_SIZE_MIN = 16384, FRAME_SIZE_MAX = 16777215 };

const struct http2_settings http2_settings_initial = {
    .header_table_size = 4096,
    .initial_window = WINDOW_INITIAL,
    .max_frame_size = FRAME_SIZE_MIN,
};

static enum http2_error set_setting(struct http2_settings *settings, unsigned setting,
                                    uint32_t value)
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
        error = set_setting(settings, frame_read_32(at) >> 16, frame_read_32(at + 2));
    return error;
}

/* Priorities */

static const struct http2_priority default_priority = {URGENCY_DEFAULT, false};

static bool is_key_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '_' ||
           byte == '-' || byte == '.' || byte == '*';
}

static const char *skip_spaces(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* The end of a value with its parameters: the next comma outside of strings and inner lists. */
static const char *skip_value(const char *at, const char *end)
{
    bool quoted = false;
    int depth = 0;

    for (; at < end && (quoted || depth > 0 || *at != ','); at++) {
        if (quoted && *at == '\\' && at + 1 < end)
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && *at == '(')
            depth++;
        else if (!quoted && *at == ')')
            depth--;
    }
    return at;
}

/* VALUE without its parameters and the white space after it. */
static struct span bare_item(struct span value)
{
    const char *parameters = memchr(value.start, ';', value.length);

    if (parameters != NULL)
        value.length = (size_t)(parameters - value.start);
    while (value.length > 0 &&
           (value.start[value.length - 1] == ' ' || value.start[value.length - 1] == '\t'))
        value.length--;
    return value;
}

/* VALUE has start NULL if the member consists of its key, which means true. */
static void set_member(struct http2_priority *priority, struct span key, struct span value)
{
    struct span item = value.start != NULL ? bare_item(value) : SPAN("?1");

    if (span_is(key, SPAN("u")) && item.length == 1 && item.start[0] >= '0' && item.start[0] <= '7')
        priority->urgency = (uint8_t)(item.start[0] - '0');
    else if (span_is(key, SPAN("i")) && (span_is(item, SPAN("?0")) || span_is(item, SPAN("?1"))))
        priority->incremental = item.start[1] == '1';
}

struct http2_priority http2_priority_read(struct span field)
{
    struct http2_priority priority = default_priority;
    const char *end = field.start + field.length, *at = skip_spaces(field.start, end);

    while (at < end) {
        struct span key = {at, 0}, value = {NULL, 0};

        while (at < end && is_key_byte(*at))
            at++;
        key.length = (size_t)(at - key.start);
        if (key.length == 0 || (*key.start >= '0' && *key.start <= '9'))
            return default_priority;
        if (at < end && *at == '=') {
            value.start = ++at;
            at = skip_value(at, end);
            value.length = (size_t)(at - value.start);
        } else if (at < end && *at == ';') {
            at = skip_value(at, end);
        }
        set_member(&priority, key, value);
        at = skip_spaces(at, end);
        if (at == end)
            break;
        at = *at == ',' ? skip_spaces(at + 1, end) : end;
        if (at == end)
            return default_priority; /* no comma between two members, or one after the last */
    }
    return priority;
}
