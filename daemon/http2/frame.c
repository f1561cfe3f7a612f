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
