#include "http2_client.h"

#include "common/span.h"
#include "tests/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIELDS_MAX = 128, BLOCK_MAX = 128 * 1024, HEAD_MAX = 16 * 1024 };

void http2_open(struct http2_client *client, uint16_t port, const uint32_t (*pairs)[2])
{
    char payload[16 * FRAME_SETTING_BYTES], *end = payload;

    assert_int_equal(nghttp2_hd_deflate_new(&client->deflater, 4096), 0);
    assert_int_equal(nghttp2_hd_inflate_new(&client->inflater), 0);
    http_open(&client->http, port);
    http_send(&client->http, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    for (; pairs != NULL && (*pairs)[0] != 0; pairs++)
        end = frame_put_setting(end, (enum frame_setting)(*pairs)[0], (*pairs)[1]);
    http2_send(client, (struct frame_head){(uint32_t)(end - payload), FRAME_SETTINGS, 0, 0},
               payload);
}

void http2_close(struct http2_client *client)
{
    http_close(&client->http);
    nghttp2_hd_deflate_del(client->deflater);
    nghttp2_hd_inflate_del(client->inflater);
}

void http2_send(struct http2_client *client, struct frame_head head, const void *payload)
{
    char frame[FRAME_HEAD_BYTES + 64 * 1024];

    assert_true(head.length <= 64 * 1024);
    frame_put_head(frame, head);
    if (head.length > 0)
        memcpy(frame + FRAME_HEAD_BYTES, payload, head.length);
    http_say_bytes(&client->http, frame, FRAME_HEAD_BYTES + head.length);
}

static nghttp2_nv field_of(struct span name, struct span value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name.start, (uint8_t *)(uintptr_t)value.start,
                        name.length, value.length, 0};
}

size_t http2_encode(struct http2_client *client, const char *request, char *block, size_t size)
{
    const char *space = strchr(request, ' '), *rest = strchrnul(request, '\n');
    nghttp2_nv fields[FIELDS_MAX];
    size_t count = 0;
    ssize_t length;

    fields[count++] = field_of(SPAN(":method"), (struct span){request, (size_t)(space - request)});
    fields[count++] = field_of(SPAN(":scheme"), SPAN("http"));
    fields[count++] = field_of(SPAN(":authority"), SPAN("h"));
    fields[count++] = field_of(SPAN(":path"), (struct span){space + 1, (size_t)(rest - space) - 1});
    while (*rest == '\n' && rest[1] != '\0') {
        const char *line = rest + 1, *colon = strstr(line, ": ");

        rest = strchrnul(line, '\n');
        assert_true(count < FIELDS_MAX && colon != NULL && colon < rest);
        fields[count++] = field_of((struct span){line, (size_t)(colon - line)},
                                   (struct span){colon + 2, (size_t)(rest - colon) - 2});
    }
    length = nghttp2_hd_deflate_hd(client->deflater, (uint8_t *)block, size, fields, count);
    assert_true(length >= 0);
    return (size_t)length;
}

void http2_request(struct http2_client *client, uint32_t stream, uint8_t flags, const char *request)
{
    static char block[BLOCK_MAX];
    size_t length = http2_encode(client, request, block, sizeof(block));

    http2_send(client,
               (struct frame_head){(uint32_t)length, FRAME_HEADERS,
                                   (uint8_t)(flags | FRAME_END_HEADERS), stream},
               block);
}

void http2_open_window(struct http2_client *client, uint32_t stream, uint32_t increment)
{
    char payload[4];

    frame_put_32(payload, increment);
    http2_send(client, (struct frame_head){4, FRAME_WINDOW_UPDATE, 0, stream}, payload);
}

void http2_set(struct http2_client *client, enum frame_setting setting, uint32_t value)
{
    char payload[FRAME_SETTING_BYTES];

    frame_put_setting(payload, setting, value);
    http2_send(client, (struct frame_head){sizeof(payload), FRAME_SETTINGS, 0, 0}, payload);
}

void http2_reset(struct http2_client *client, uint32_t stream)
{
    char payload[4];

    frame_put_32(payload, HTTP2_CANCEL);
    http2_send(client, (struct frame_head){4, FRAME_RST_STREAM, 0, stream}, payload);
}

void http2_ping(struct http2_client *client, uint8_t flags, const char *payload)
{
    http2_send(client, (struct frame_head){FRAME_PING_BYTES, FRAME_PING, flags, 0}, payload);
}

/* Receives exactly LENGTH bytes; false: the connection ended before the first. */
static bool receive(struct http2_client *client, char *to, size_t length)
{
    size_t got = 0;

    while (got < length) {
        ssize_t more = TEMP_FAILURE_RETRY(recv(client->http.fd, to + got, length - got, 0));

        if (more < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            fail_msg("no frame before the deadline");
        if (more <= 0)
            return false;
        got += (size_t)more;
    }
    return true;
}

bool http2_next(struct http2_client *client, struct http2_frame *frame)
{
    char head[FRAME_HEAD_BYTES];

    if (!receive(client, head, sizeof(head)))
        return false;
    frame->head = frame_head_read(head);
    if (frame->head.length > FRAME_PAYLOAD_MAX)
        fail_msg("a frame of %u bytes: '%.9s'", frame->head.length, head);
    return receive(client, frame->payload, frame->head.length);
}

void http2_expect(struct http2_client *client, enum frame_type type, uint32_t stream,
                  struct http2_frame *frame)
{
    while (http2_next(client, frame))
        if (frame->head.type == type && frame->head.stream == stream)
            return;
    fail_msg("the connection closed before a frame of type %d on stream %u", (int)type, stream);
}

void http2_expect_reset(struct http2_client *client, uint32_t stream, enum http2_error error)
{
    static struct http2_frame frame;

    http2_expect(client, FRAME_RST_STREAM, stream, &frame);
    assert_int_equal(frame_read_32(frame.payload), error);
}

void http2_expect_goaway(struct http2_client *client, uint32_t last_stream, enum http2_error error)
{
    static struct http2_frame frame;

    http2_expect(client, FRAME_GOAWAY, 0, &frame);
    assert_int_equal(frame_read_31(frame.payload), last_stream);
    assert_int_equal(frame_read_32(frame.payload + 4), error);
}

void http2_expect_end(struct http2_client *client, enum http2_error error)
{
    static struct http2_frame frame;

    while (http2_next(client, &frame))
        if (frame.head.type == FRAME_GOAWAY)
            assert_int_equal(frame_read_32(frame.payload + 4), error);
}

/* Responses */

/* Decodes a header block to field lines after the status line. */
static char *head_of(struct http2_client *client, const struct http2_frame *frame)
{
    char *head = calloc(1, HEAD_MAX);
    const uint8_t *at = (const uint8_t *)frame->payload;
    size_t left = frame->head.length, length = 0;
    int flags = 0;

    assert_non_null(head);
    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        nghttp2_nv field;
        ssize_t used = nghttp2_hd_inflate_hd2(client->inflater, &field, &flags, at, left, 1);
        const char *name = (const char *)field.name, *value = (const char *)field.value;

        if (used < 0)
            fail_msg("a header block that cannot be decoded");
        at += used;
        left -= (size_t)used;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0)
            continue;
        assert_true((length == 0) == (strcmp(name, ":status") == 0));
        length += (size_t)(length == 0 ? snprintf(head, HEAD_MAX, "HTTP/1.1 %s Status\r\n", value)
                                       : snprintf(head + length, HEAD_MAX - length, "%s: %s\r\n",
                                                  name, value));
        assert_true(length + 2 < HEAD_MAX);
    }
    nghttp2_hd_inflate_end_headers(client->inflater);
    memcpy(head + length, "\r\n", 3);
    return head;
}

int http2_status(struct http2_client *client, const struct http2_frame *frame)
{
    char *head = head_of(client, frame);
    int status = atoi(head + sizeof("HTTP/1.1"));

    free(head);
    return status;
}

static void add_body(struct http_response *response, const struct http2_frame *frame)
{
    response->body = realloc(response->body, response->body_length + frame->head.length + 1);
    assert_non_null(response->body);
    memcpy(response->body + response->body_length, frame->payload, frame->head.length);
    response->body_length += frame->head.length;
    response->body[response->body_length] = '\0';
}

void http2_receive(struct http2_client *client, uint32_t stream, struct http_response *response)
{
    static struct http2_frame frame;
    char *head = NULL;

    memset(response, 0, sizeof(*response));
    response->body = calloc(1, 1);
    assert_non_null(response->body);
    do {
        if (!http2_next(client, &frame))
            fail_msg("the connection closed within a response");
        if (frame.head.type == FRAME_GOAWAY || frame.head.type == FRAME_RST_STREAM)
            fail_msg("error %u instead of a response",
                     frame_read_32(frame.payload + (frame.head.type == FRAME_GOAWAY ? 4 : 0)));
        if (frame.head.type == FRAME_HEADERS) {
            assert_int_equal(frame.head.stream, stream);
            free(head);
            head = head_of(client, &frame);
        } else if (frame.head.type == FRAME_DATA) {
            assert_int_equal(frame.head.stream, stream);
            assert_non_null(head);
            add_body(response, &frame);
            if (frame.head.length > 0) {
                http2_open_window(client, 0, frame.head.length);
                http2_open_window(client, stream, frame.head.length);
            }
        }
    } while (frame.head.stream != stream || (frame.head.flags & FRAME_END_STREAM) == 0);
    http_response_set_head(response, head);
}

void http2_check(struct http2_client *client, uint32_t stream, const char *request, int status,
                 const char *body)
{
    struct http_response response;

    http2_request(client, stream, FRAME_END_STREAM, request);
    http2_receive(client, stream, &response);
    assert_int_equal(response.status, status);
    if (body != NULL)
        assert_string_equal(response.body, body);
    http_response_free(&response);
}
