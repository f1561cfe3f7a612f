/*
 * What each type of frame does, and which are errors (RFC 9113 sections 4 to 6): the frames that
 * follow in the output buffer, and what changes in the streams.
 */
#include "daemon/http2/frames.h"

#include "common/clock.h"
#include "daemon/config/config.h"
#include "daemon/http2/output.h"
#include "daemon/http2/requests.h"
#include "tests/test.h"
#include "tests/unit/daemon/http2/bare_connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 16, STREAMS = 8 };

/* A header block: GET / of the authority h. */
#define BLOCK "\x82\x86\x84\x01\x01h"

/* Trailers: a field. */
#define TRAILERS "\0\1a\1b"

static struct config config;
static struct loop_space space;
static char effects[512]; /* since they were last expected */

static int set_up(void **state)
{
    (void)state;
    bare_connection_open();
    config = (struct config){.limits_header_bytes = 1024,
                             .limits_header_count = 10,
                             .limits_request_line = 100,
                             .limits_body_bytes = UINT64_MAX};
    worker.config = &config;
    loop.space = &space;
    effects[0] = '\0';
    return nghttp2_hd_inflate_new(&http2.inflater);
}

static int tear_down(void **state)
{
    (void)state;
    bare_connection_close();
    nghttp2_hd_inflate_del(http2.inflater);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static struct http2_stream *new_stream(uint32_t id)
{
    struct http2_stream *stream = stream_open(&http2, id);

    assert_non_null(stream);
    stream_note_opened(&http2, id);
    stream->receiving = true;
    stream->content_length = UINT64_MAX;
    return stream;
}

PRINTF_LIKE(1, 2) static void note(const char *format, ...)
{
    size_t length = strlen(effects);
    va_list arguments;

    length +=
        (size_t)snprintf(effects + length, sizeof(effects) - length, "%s", length > 0 ? ", " : "");
    va_start(arguments, format);
    vsnprintf(effects + length, sizeof(effects) - length, format, arguments);
    va_end(arguments);
}

static void expect_effects(const char *expected)
{
    assert_string_equal(effects, expected);
    effects[0] = '\0';
}

/*
 * Notes the frame at AT, which we would send. Returns its end. A window of one of COUNT streams
 * BEFORE is then so much larger.
 */
static const char *note_frame(const char *at, struct http2_stream *before, int count)
{
    struct frame_head head = frame_head_read(at);
    const char *payload = at + FRAME_HEAD_BYTES;

    if (head.type == FRAME_SETTINGS && head.flags == FRAME_ACK)
        note("ack");
    else if (head.type == FRAME_PING)
        note("ping %u '%.*s'", head.flags, FRAME_PING_BYTES, payload);
    else if (head.type == FRAME_WINDOW_UPDATE)
        note("window %u + %u", head.stream, frame_read_32(payload));
    else if (head.type == FRAME_RST_STREAM)
        note("reset %u: %u", head.stream, frame_read_32(payload));
    else if (head.type == FRAME_GOAWAY)
        note("goaway %u: %u", frame_read_32(payload), frame_read_32(payload + 4));
    else
        fail_msg("a frame of type %u", head.type);
    for (int i = 0; i < count && head.type == FRAME_WINDOW_UPDATE; i++)
        if (before[i].id == head.stream)
            before[i].receive_window += (int32_t)frame_read_32(payload);
    return payload + head.length;
}

/* Notes what has changed since BEFORE, a copy of STREAM. */
static void note_stream(const struct http2_stream *stream, const struct http2_stream *before)
{
    uint64_t length = stream->received - before->received;
    int32_t bytes = before->receive_window - stream->receive_window;
    const char *end = before->receiving && !stream->receiving ? " end" : "";

    if (length > 0 || bytes != 0)
        note("body %u: %u of %d%s", stream->id, (unsigned)length, bytes, end);
    else if (end[0] != '\0')
        note("end %u", stream->id);
}

/*
 * Gives frames_receive() the first LENGTH bytes of DATA in memory of that size; notes the
 * effects.
 */
static enum http2_error feed(const char *data, size_t length, size_t *used)
{
    struct output_buffer *output = &loop.context.output;
    char *copy = malloc(length > 0 ? length : 1);
    struct http2_stream before[STREAMS];
    const struct http2_stream *stream;
    enum http2_error error;
    int streams = 0;

    assert_non_null(copy);
    memcpy(copy, data, length);
    output->used = 0;
    TAILQ_FOREACH(stream, &http2.streams, link)
    before[streams++] = *stream;
    error = frames_receive(&http2, copy, length, used);
    for (const char *at = output->bytes; at < output->bytes + output->used;)
        at = note_frame(at, before, streams);
    for (int i = 0; i < streams; i++) {
        stream = stream_find(&http2, before[i].id);
        if (stream != NULL)
            note_stream(stream, &before[i]);
    }
    free(copy);
    return error;
}

/* Receives a frame that is complete; it is used up unless it is out of order or too long. */
static enum http2_error receive_bytes(struct frame_head head, const char *payload)
{
    static char data[FRAME_HEAD_BYTES + FRAME_PAYLOAD_MAX];
    size_t used;
    enum http2_error error;

    frame_put_head(data, head);
    memcpy(data + FRAME_HEAD_BYTES, payload, head.length);
    error = feed(data, FRAME_HEAD_BYTES + head.length, &used);
    assert_true(used == FRAME_HEAD_BYTES + head.length || (used == 0 && error != HTTP2_NO_ERROR));
    return error;
}

/* The same with a string literal as payload. */
#define RECEIVE(type, flags, stream, payload)                                                      \
    receive_bytes(                                                                                 \
        (struct frame_head){sizeof(payload) - 1, FRAME_##type, (uint8_t)(flags), (stream)},        \
        (payload))

/* Any frame */

TEST(frame_waits_until_it_is_complete)
{
    char data[FRAME_HEAD_BYTES + FRAME_PING_BYTES + 1] = "";
    size_t used, length = sizeof(data) - 1;

    frame_put_ping(data, 0, "12345678");
    for (size_t i = 0; i < length; i++) {
        assert_int_equal(feed(data, i, &used), HTTP2_NO_ERROR);
        assert_int_equal(used, 0);
    }
    expect_effects("");
    assert_int_equal(feed(data, length + 1, &used), HTTP2_NO_ERROR);
    assert_int_equal(used, length);
    expect_effects("ping 1 '12345678'");
}

TEST(first_frame_is_settings)
{
    http2.started = false;
    assert_int_equal(RECEIVE(PING, 0, 0, "12345678"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(SETTINGS, FRAME_ACK, 0, ""), HTTP2_PROTOCOL_ERROR);
    assert_false(http2.started);
    expect_effects("");
    assert_int_equal(RECEIVE(SETTINGS, 0, 0, ""), HTTP2_NO_ERROR);
    assert_true(http2.started);
    expect_effects("ack");
}

TEST(frame_of_the_largest_size_is_received)
{
    static const char zeros[FRAME_PAYLOAD_MAX];
    char head[FRAME_HEAD_BYTES];
    size_t used;

    new_stream(1);
    assert_int_equal(receive_bytes((struct frame_head){FRAME_PAYLOAD_MAX, FRAME_DATA, 0, 1}, zeros),
                     HTTP2_NO_ERROR);
    expect_effects("body 1: 16384 of 16384");
    frame_put_head(head, (struct frame_head){FRAME_PAYLOAD_MAX + 1, FRAME_DATA, 0, 1});
    assert_int_equal(feed(head, sizeof(head), &used), HTTP2_FRAME_SIZE_ERROR);
    assert_int_equal(used, 0);
}

TEST(unknown_frame_is_ignored_and_counted)
{
    for (int i = 0; i < 100; i++)
        assert_int_equal(receive_bytes((struct frame_head){1, 0x77, 0xff, (uint32_t)i}, "x"),
                         HTTP2_NO_ERROR);
    assert_int_equal(receive_bytes((struct frame_head){1, 0x77, 0, 1}, "x"),
                     HTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(metric_of(METRIC_http2_floods_empty), 1);
    assert_int_equal(RECEIVE(PUSH_PROMISE, 0, 1, "1234"), HTTP2_PROTOCOL_ERROR);
    expect_effects("");
}

TEST(each_kind_has_its_limit_per_second)
{
    static const uint32_t limits[] = {
#define FLOOD(name, limit) limit,
        HTTP2_FLOODS
#undef FLOOD
    };
    uint64_t *now_ns = &loop.context.loop_now_ns;

    *now_ns = 10 * NS_PER_S;
    for (int second = 0; second < 2; second++) {
        for (enum http2_flood kind = 0; kind < FLOOD_COUNT; kind++)
            for (uint32_t i = 0; i < limits[kind]; i++)
                assert_int_equal(frames_count(&http2, kind), HTTP2_NO_ERROR);
        *now_ns += NS_PER_S - 1;
        for (enum http2_flood kind = 0; kind < FLOOD_COUNT; kind++)
            assert_int_equal(frames_count(&http2, kind), HTTP2_ENHANCE_YOUR_CALM);
        *now_ns += 1;
    }
}

/* DATA */

TEST(data_without_padding_is_the_body)
{
    new_stream(1);
    assert_int_equal(RECEIVE(DATA, 0, 1, "hello"), HTTP2_NO_ERROR);
    expect_effects("body 1: 5 of 5");
    assert_int_equal(RECEIVE(DATA, FRAME_PADDED, 1, "\2hello12"), HTTP2_NO_ERROR);
    expect_effects("body 1: 5 of 8");
    assert_int_equal(RECEIVE(DATA, FRAME_PADDED, 1, "\0hello"), HTTP2_NO_ERROR);
    expect_effects("body 1: 5 of 6");
    assert_int_equal(RECEIVE(DATA, FRAME_PADDED | FRAME_END_STREAM, 1, "\3abc"), HTTP2_NO_ERROR);
    expect_effects("body 1: 0 of 4 end");
    assert_int_equal(http2.receive_window, WINDOW_INITIAL - 5 - 8 - 6 - 4);
}

TEST(padding_longer_than_the_payload_is_an_error)
{
    new_stream(1);
    assert_int_equal(RECEIVE(DATA, FRAME_PADDED, 1, ""), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(DATA, FRAME_PADDED, 1, "\1"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(DATA, FRAME_PADDED, 1, "\4abc"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(HEADERS, FRAME_PADDED | FRAME_END_HEADERS, 3, ""),
                     HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(HEADERS, FRAME_PADDED | FRAME_END_HEADERS, 3, "\4abc"),
                     HTTP2_PROTOCOL_ERROR);
    expect_effects("");
}

TEST(window_of_the_connection_is_given_back)
{
    static const char zeros[FRAME_PAYLOAD_MAX];
    const struct frame_head half = {FRAME_PAYLOAD_MAX, FRAME_DATA, 0, 1};

    new_stream(1);
    assert_int_equal(receive_bytes(half, zeros), HTTP2_NO_ERROR);
    assert_int_equal(
        receive_bytes((struct frame_head){FRAME_PAYLOAD_MAX - 1, FRAME_DATA, 0, 1}, zeros),
        HTTP2_NO_ERROR);
    expect_effects("body 1: 16384 of 16384, body 1: 16383 of 16383");
    assert_int_equal(RECEIVE(DATA, 0, 1, "x"), HTTP2_NO_ERROR);
    expect_effects("window 0 + 32768, window 1 + 32768, body 1: 1 of 1");
    assert_int_equal(http2.receive_window, WINDOW_INITIAL);
}

TEST(data_beyond_the_window_is_an_error)
{
    new_stream(1);
    http2.receive_window = 5;
    assert_int_equal(RECEIVE(DATA, 0, 1, "123456"), HTTP2_FLOW_CONTROL_ERROR);
    expect_effects("");
    http2.receive_window = 5;
    assert_int_equal(RECEIVE(DATA, 0, 1, "12345"), HTTP2_NO_ERROR);
    expect_effects("window 0 + 65535, body 1: 5 of 5");
}

TEST(empty_data_that_ends_nothing_is_counted)
{
    new_stream(1);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(RECEIVE(DATA, 0, 1, ""), HTTP2_NO_ERROR);
        assert_int_equal(RECEIVE(DATA, 0, 1, "x"), HTTP2_NO_ERROR);
        effects[0] = '\0';
    }
    assert_int_equal(RECEIVE(DATA, FRAME_END_STREAM, 1, ""), HTTP2_NO_ERROR);
    new_stream(3);
    assert_int_equal(RECEIVE(DATA, 0, 3, ""), HTTP2_ENHANCE_YOUR_CALM);
}

TEST(data_of_a_stream_that_is_not_open)
{
    assert_int_equal(RECEIVE(DATA, 0, 0, "x"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(DATA, 0, 1, "x"), HTTP2_PROTOCOL_ERROR); /* idle */
    stream_note_opened(&http2, 1);
    stream_note_opened(&http2, 5);
    assert_int_equal(RECEIVE(DATA, 0, 3, "x"), HTTP2_PROTOCOL_ERROR); /* skipped */
    expect_effects("");
    assert_int_equal(RECEIVE(DATA, 0, 1, "x"), HTTP2_NO_ERROR); /* closed */
    expect_effects("reset 1: 5");
    stream_note_reset(&http2, 5);
    assert_int_equal(RECEIVE(DATA, 0, 5, "x"), HTTP2_NO_ERROR); /* on its way */
    expect_effects("");
    new_stream(7)->receiving = false;
    assert_int_equal(RECEIVE(DATA, 0, 7, "x"), HTTP2_NO_ERROR); /* half-closed */
    expect_effects("reset 7: 5");
}

/* Header blocks */

/* Without room for a stream, a request that can be decoded is refused. */
TEST(headers_carry_a_block)
{
    assert_int_equal(RECEIVE(HEADERS, FRAME_END_HEADERS, 1, BLOCK), HTTP2_NO_ERROR);
    expect_effects("reset 1: 7");
    assert_int_equal(
        RECEIVE(HEADERS, FRAME_END_HEADERS | FRAME_END_STREAM | FRAME_PADDED, 3, "\1" BLOCK "."),
        HTTP2_NO_ERROR);
    expect_effects("reset 3: 7");
    assert_int_equal(RECEIVE(HEADERS, FRAME_END_HEADERS, 0, BLOCK), HTTP2_PROTOCOL_ERROR);
    new_stream(5);
    new_stream(7);
    assert_int_equal(RECEIVE(HEADERS, FRAME_END_HEADERS | FRAME_END_STREAM, 5, TRAILERS),
                     HTTP2_NO_ERROR);
    expect_effects("end 5");
    assert_int_equal(RECEIVE(HEADERS, FRAME_END_HEADERS, 7, TRAILERS), HTTP2_NO_ERROR);
    expect_effects("reset 7: 1"); /* trailers must end the stream */
    assert_int_equal(RECEIVE(HEADERS, FRAME_END_HEADERS, 9, "\xff"), HTTP2_COMPRESSION_ERROR);
    expect_effects("");
}

TEST(headers_may_have_a_priority)
{
    enum { FLAGS = FRAME_END_HEADERS | FRAME_HAS_PRIORITY };

    assert_int_equal(RECEIVE(HEADERS, FLAGS, 3, "\0\0\0\1\xff" BLOCK), HTTP2_NO_ERROR);
    expect_effects("reset 3: 7");
    assert_int_equal(RECEIVE(HEADERS, FLAGS | FRAME_PADDED, 5, "\2\0\0\0\1\xff" BLOCK ".."),
                     HTTP2_NO_ERROR);
    expect_effects("reset 5: 7");
    assert_int_equal(RECEIVE(HEADERS, FLAGS, 7, "\0\0\0\1\xff"), HTTP2_NO_ERROR);
    expect_effects("reset 7: 7");
    assert_int_equal(RECEIVE(HEADERS, FLAGS, 9, "\0\0\0\1"), HTTP2_FRAME_SIZE_ERROR);
    expect_effects("");
    config.http2_max_concurrent_streams = 1;
    assert_int_equal(RECEIVE(HEADERS, FLAGS, 9, "\x80\0\0\x9\xff" BLOCK), HTTP2_NO_ERROR);
    expect_effects("reset 9: 1"); /* it depends on itself */
}

TEST(block_continues_in_further_frames)
{
    config.http2_max_concurrent_streams = 1;
    assert_int_equal(RECEIVE(HEADERS, FRAME_END_STREAM | FRAME_HAS_PRIORITY, 3,
                             "\0\0\0\3\1"
                             "\x82\x86"),
                     HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(CONTINUATION, 0, 3, "\x84\x01"), HTTP2_NO_ERROR);
    expect_effects("");
    assert_int_equal(RECEIVE(CONTINUATION, FRAME_END_HEADERS, 3, "\x01h"), HTTP2_NO_ERROR);
    expect_effects("reset 3: 1"); /* it depends on itself */
    assert_int_equal(RECEIVE(CONTINUATION, FRAME_END_HEADERS, 3, "e"), HTTP2_PROTOCOL_ERROR);
    new_stream(5);
    assert_int_equal(RECEIVE(HEADERS, FRAME_END_STREAM, 5, "\0\1a"), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(CONTINUATION, FRAME_END_HEADERS, 5, "\1b"), HTTP2_NO_ERROR);
    expect_effects("end 5");
    assert_int_equal(RECEIVE(HEADERS, 0, 7, "\xff"), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(CONTINUATION, FRAME_END_HEADERS, 7, ""), HTTP2_COMPRESSION_ERROR);
    expect_effects("");
    assert_null(http2.block);
}

TEST(nothing_interrupts_a_block)
{
    assert_int_equal(RECEIVE(HEADERS, 0, 3, "ab"), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(PING, 0, 0, "12345678"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(HEADERS, FRAME_END_HEADERS, 3, "ab"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(CONTINUATION, FRAME_END_HEADERS, 5, "ab"), HTTP2_PROTOCOL_ERROR);
    expect_effects("");
}

TEST(length_of_a_block_is_limited)
{
    config.limits_header_bytes = HEADER_BYTES;
    assert_int_equal(RECEIVE(HEADERS, 0, 1, "12345678901234567890"), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(CONTINUATION, 0, 1, "123456789012"), HTTP2_NO_ERROR);
    assert_int_equal(metric_of(METRIC_http2_floods_continuations), 0);
    assert_int_equal(RECEIVE(CONTINUATION, 0, 1, "1"), HTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(metric_of(METRIC_http2_floods_continuations), 1);
    assert_null(http2.block);
    expect_effects("");
}

TEST(empty_continuations_are_counted)
{
    assert_int_equal(RECEIVE(HEADERS, 0, 1, "a"), HTTP2_NO_ERROR);
    for (int i = 0; i < 100; i++)
        assert_int_equal(RECEIVE(CONTINUATION, 0, 1, ""), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(CONTINUATION, 0, 1, "b"), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(CONTINUATION, 0, 1, ""), HTTP2_ENHANCE_YOUR_CALM);
}

/* Streams */

TEST(priority_is_checked_only)
{
    assert_int_equal(RECEIVE(PRIORITY, 0, 1, "\0\0\0\3\1"), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(PRIORITY, 0, 0, "\0\0\0\3\1"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(PRIORITY, 0, 1, "\0\0\0\3"), HTTP2_FRAME_SIZE_ERROR);
    assert_int_equal(RECEIVE(PRIORITY, 0, 1, "\0\0\0\1\1"), HTTP2_PROTOCOL_ERROR);
    expect_effects("");
    new_stream(1);
    assert_int_equal(RECEIVE(PRIORITY, 0, 1, "\0\0\0\3\1."), HTTP2_NO_ERROR);
    expect_effects("reset 1: 6");
    assert_int_equal(RECEIVE(PRIORITY, 0, 1, "\x80\0\0\1\1"), HTTP2_NO_ERROR);
    expect_effects("reset 1: 1");
}

TEST(priority_update_changes_an_open_stream)
{
    struct http2_stream *stream = new_stream(1);

    assert_int_equal(RECEIVE(PRIORITY_UPDATE, 0, 0, "\0\0\0\1u=5, i"), HTTP2_NO_ERROR);
    assert_int_equal(stream->priority.urgency, 5);
    assert_true(stream->priority.incremental);
    assert_int_equal(RECEIVE(PRIORITY_UPDATE, 0, 0, "\0\0\0\1"), HTTP2_NO_ERROR);
    assert_int_equal(stream->priority.urgency, URGENCY_DEFAULT);
    assert_int_equal(RECEIVE(PRIORITY_UPDATE, 0, 0, "\0\0\0\3u=1"), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(PRIORITY_UPDATE, 0, 0, "\0\0\0"), HTTP2_FRAME_SIZE_ERROR);
    assert_int_equal(RECEIVE(PRIORITY_UPDATE, 0, 1, "\0\0\0\1u=1"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(PRIORITY_UPDATE, 0, 0, "\0\0\0\0u=1"), HTTP2_PROTOCOL_ERROR);
    expect_effects("");
}

TEST(priorities_are_counted)
{
    for (int i = 0; i < 500; i++) {
        assert_int_equal(RECEIVE(PRIORITY, 0, 1, "\0\0\0\3\1"), HTTP2_NO_ERROR);
        assert_int_equal(RECEIVE(PRIORITY_UPDATE, 0, 0, "\0\0\0\1"), HTTP2_NO_ERROR);
    }
    assert_int_equal(RECEIVE(PRIORITY, 0, 1, "\0\0\0\3\1"), HTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(RECEIVE(PRIORITY_UPDATE, 0, 0, "\0\0\0\1"), HTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(metric_of(METRIC_http2_floods_priorities), 2);
}

TEST(reset_closes_a_stream)
{
    new_stream(3);
    assert_int_equal(RECEIVE(RST_STREAM, 0, 0, "\0\0\0\1"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(RST_STREAM, 0, 3, "\0\0\0"), HTTP2_FRAME_SIZE_ERROR);
    assert_int_equal(RECEIVE(RST_STREAM, 0, 5, "\0\0\0\1"), HTTP2_PROTOCOL_ERROR); /* idle */
    assert_non_null(stream_find(&http2, 3));
    assert_int_equal(metric_of(METRIC_http2_resets), 0);
    assert_int_equal(RECEIVE(RST_STREAM, 0, 3, "\0\0\0\1"), HTTP2_NO_ERROR);
    assert_null(stream_find(&http2, 3));
    assert_int_equal(metric_of(METRIC_http2_resets), 1);
    assert_int_equal(RECEIVE(RST_STREAM, 0, 3, "\0\0\0\1"), HTTP2_NO_ERROR); /* closed */
    assert_int_equal(metric_of(METRIC_http2_resets), 1);
    for (int i = 2; i < 1000; i++)
        assert_int_equal(RECEIVE(RST_STREAM, 0, 3, "\0\0\0\1"), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(RST_STREAM, 0, 3, "\0\0\0\1"), HTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(metric_of(METRIC_http2_floods_resets), 1);
}

TEST(window_update_opens_the_window)
{
    struct http2_stream *stream = new_stream(5);

    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 5, "\x80\0\0\7"), HTTP2_NO_ERROR);
    assert_int_equal(stream->send_window, INITIAL_WINDOW + 7);
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 0, "\0\0\0\7"), HTTP2_NO_ERROR);
    assert_int_equal(http2.send_window, WINDOW_INITIAL + 7);
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 0, "\0\0\0"), HTTP2_FRAME_SIZE_ERROR);
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 0, "\0\0\0\0"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff"), HTTP2_FLOW_CONTROL_ERROR);
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 7, "\0\0\0\1"), HTTP2_PROTOCOL_ERROR); /* idle */
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 3, "\0\0\0\1"), HTTP2_PROTOCOL_ERROR); /* skipped */
    expect_effects("");
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 5, "\0\0\0\0"), HTTP2_NO_ERROR);
    expect_effects("reset 5: 1");
    new_stream(9);
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 9, "\x7f\xff\xff\xff"), HTTP2_NO_ERROR);
    expect_effects("reset 9: 3");
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 5, "\0\0\0\0"), HTTP2_NO_ERROR); /* closed */
    expect_effects("");
}

/* 1000, and 10 of each frame of DATA that the server has sent. */
TEST(window_updates_are_counted)
{
    for (int i = 0; i < 7; i++)
        http2_allow_window_updates(&http2);
    for (int i = 0; i < 1000 + 7 * 10; i++)
        assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 0, "\0\0\0\1"), HTTP2_NO_ERROR);
    assert_int_equal(metric_of(METRIC_http2_floods_windows), 0);
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 0, "\0\0\0\1"), HTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(metric_of(METRIC_http2_floods_windows), 1);
}

TEST(opened_window_makes_a_stream_ready)
{
    struct http2_stream *stream = new_stream(1);

    stream->sending = true;
    stream->send_window = 0;
    stream_update_ready(stream);
    assert_false(stream->is_ready);
    assert_int_equal(RECEIVE(WINDOW_UPDATE, 0, 1, "\0\0\0\1"), HTTP2_NO_ERROR);
    assert_true(stream->is_ready);
    stream_make_unready(stream);
    stream->sending = false;
}

/* The connection */

TEST(settings_are_applied_and_acknowledged)
{
    struct http2_stream *stream = new_stream(1);

    stream->send_window = 10;
    assert_int_equal(RECEIVE(SETTINGS, 0, 0, "\0\4\0\0\0\1"), HTTP2_NO_ERROR);
    expect_effects("ack");
    assert_int_equal(http2.settings.initial_window, 1);
    assert_int_equal(stream->send_window, 10 + 1 - INITIAL_WINDOW);
    assert_false(http2.table_update_due);
    assert_int_equal(RECEIVE(SETTINGS, 0, 0, "\0\1\0\0\x10\0"), HTTP2_NO_ERROR); /* the usual one */
    assert_false(http2.table_update_due);
    assert_int_equal(RECEIVE(SETTINGS, 0, 0, "\0\1\0\0\0\7"), HTTP2_NO_ERROR);
    assert_true(http2.table_update_due);
    expect_effects("ack, ack");
    assert_int_equal(RECEIVE(SETTINGS, FRAME_ACK, 0, ""), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(SETTINGS, FRAME_ACK, 0, "\0\4\0\0\0\1"), HTTP2_FRAME_SIZE_ERROR);
    assert_int_equal(RECEIVE(SETTINGS, 0, 1, ""), HTTP2_PROTOCOL_ERROR);
    expect_effects("");
    assert_int_equal(RECEIVE(SETTINGS, 0, 0, "\0\4\0"), HTTP2_FRAME_SIZE_ERROR);
}

TEST(window_that_settings_overflow_is_an_error)
{
    new_stream(1)->send_window = INT32_MAX - 10;
    assert_int_equal(RECEIVE(SETTINGS, 0, 0, "\0\4\0\0\x03\xf2"), HTTP2_NO_ERROR); /* + 10 */
    assert_int_equal(RECEIVE(SETTINGS, 0, 0, "\0\4\0\0\x03\xf3"), HTTP2_FLOW_CONTROL_ERROR);
}

TEST(window_of_settings_makes_open_streams_ready)
{
    struct http2_stream *open = new_stream(1), *dead = new_stream(3);

    open->sending = dead->sending = true;
    open->send_window = dead->send_window = 0;
    dead->dead = true;
    assert_int_equal(RECEIVE(SETTINGS, 0, 0, "\0\4\0\0\x03\xe9"), HTTP2_NO_ERROR); /* + 1 */
    assert_true(open->is_ready);
    assert_false(dead->is_ready);
    stream_make_unready(open);
    open->sending = dead->sending = false;
}

TEST(settings_are_counted)
{
    for (int i = 0; i < 50; i++)
        assert_int_equal(RECEIVE(SETTINGS, FRAME_ACK, 0, ""), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(SETTINGS, FRAME_ACK, 0, ""), HTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(metric_of(METRIC_http2_floods_settings), 1);
    loop.context.loop_now_ns += UINT64_C(1000000000);
    assert_int_equal(RECEIVE(SETTINGS, FRAME_ACK, 0, ""), HTTP2_NO_ERROR);
}

TEST(ping_is_acknowledged)
{
    assert_int_equal(RECEIVE(PING, 0, 0, "abcdefgh"), HTTP2_NO_ERROR);
    expect_effects("ping 1 'abcdefgh'");
    assert_int_equal(RECEIVE(PING, FRAME_ACK, 0, "abcdefgh"), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(PING, 0, 1, "abcdefgh"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(PING, 0, 0, "abcdefg"), HTTP2_FRAME_SIZE_ERROR);
    assert_int_equal(RECEIVE(PING, 0, 0, "abcdefghi"), HTTP2_FRAME_SIZE_ERROR);
    expect_effects("");
    for (int i = 5; i < 100; i++)
        assert_int_equal(RECEIVE(PING, FRAME_ACK, 0, "abcdefgh"), HTTP2_NO_ERROR);
    assert_int_equal(RECEIVE(PING, FRAME_ACK, 0, "abcdefgh"), HTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(metric_of(METRIC_http2_floods_pings), 1);
}

TEST(goaway_is_final_after_our_ping)
{
    stream_note_opened(&http2, 7);
    assert_int_equal(RECEIVE(PING, FRAME_ACK, 0, "draining"), HTTP2_NO_ERROR);
    assert_int_equal(http2.goaway, GOAWAY_NONE);
    http2.goaway = GOAWAY_ANNOUNCED;
    assert_int_equal(RECEIVE(PING, FRAME_ACK, 0, "drainin_"), HTTP2_NO_ERROR);
    assert_int_equal(http2.goaway, GOAWAY_ANNOUNCED);
    expect_effects("");
    assert_int_equal(RECEIVE(PING, FRAME_ACK, 0, "draining"), HTTP2_NO_ERROR);
    assert_int_equal(http2.goaway, GOAWAY_FINAL);
    expect_effects("goaway 7: 0");
    assert_int_equal(RECEIVE(PING, FRAME_ACK, 0, "draining"), HTTP2_NO_ERROR);
    expect_effects("");
}

TEST(goaway_of_the_client_is_answered_once)
{
    stream_note_opened(&http2, 7);
    assert_int_equal(RECEIVE(GOAWAY, 0, 1, "12345678"), HTTP2_PROTOCOL_ERROR);
    assert_int_equal(RECEIVE(GOAWAY, 0, 0, "1234567"), HTTP2_FRAME_SIZE_ERROR);
    expect_effects("");
    assert_int_equal(RECEIVE(GOAWAY, 0, 0, "12345678"), HTTP2_NO_ERROR);
    assert_int_equal(http2.goaway, GOAWAY_FINAL);
    expect_effects("goaway 7: 0");
    assert_int_equal(RECEIVE(GOAWAY, 0, 0, "12345678 and a reason"), HTTP2_NO_ERROR);
    expect_effects("");
}
