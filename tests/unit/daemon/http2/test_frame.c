/* The format of HTTP/2: frames, settings, windows and priorities. */
#include "daemon/http2/frame.h"

#include "common/macros.h"
#include "tests/test.h"

#include <string.h>

TEST(head_is_written_and_read)
{
    static const struct {
        struct frame_head head;
        const char *bytes;
    } cases[] = {
        {{0, FRAME_DATA, 0, 0}, "\0\0\0\0\0\0\0\0\0"},
        {{16384, FRAME_HEADERS, FRAME_END_STREAM | FRAME_END_HEADERS, 1},
         "\0\x40\0\x01\x05\0\0\0\x01"},
        {{0xffffff, 0xff, 0xff, INT32_MAX}, "\xff\xff\xff\xff\xff\x7f\xff\xff\xff"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct frame_head read = frame_head_read(cases[i].bytes);
        char bytes[FRAME_HEAD_BYTES];

        assert_ptr_equal(frame_put_head(bytes, cases[i].head), bytes + FRAME_HEAD_BYTES);
        assert_memory_equal(bytes, cases[i].bytes, FRAME_HEAD_BYTES);
        assert_int_equal(read.length, cases[i].head.length);
        assert_int_equal(read.type, cases[i].head.type);
        assert_int_equal(read.flags, cases[i].head.flags);
        assert_int_equal(read.stream, cases[i].head.stream);
    }
}

TEST(reserved_bit_is_ignored)
{
    assert_int_equal(frame_head_read("\0\0\0\0\0\x80\0\0\x05").stream, 5);
    assert_int_equal(frame_read_31("\xff\xff\xff\xff"), INT32_MAX);
    assert_int_equal(frame_read_32("\xff\xff\xff\xfe"), UINT32_MAX - 1);
}

TEST(control_frames_are_complete)
{
    char bytes[64];

    assert_int_equal(frame_put_reset(bytes, 3, HTTP2_CANCEL) - bytes, 13);
    assert_memory_equal(bytes, "\0\0\x04\x03\0\0\0\0\x03\0\0\0\x08", 13);
    assert_int_equal(frame_put_window_update(bytes, 0, 65535) - bytes, 13);
    assert_memory_equal(bytes, "\0\0\x04\x08\0\0\0\0\0\0\0\xff\xff", 13);
    assert_int_equal(frame_put_ping(bytes, FRAME_ACK, "abcdefgh") - bytes, 17);
    assert_memory_equal(bytes, "\0\0\x08\x06\x01\0\0\0\0abcdefgh", 17);
    assert_int_equal(frame_put_goaway(bytes, 7, HTTP2_ENHANCE_YOUR_CALM) - bytes, 17);
    assert_memory_equal(bytes, "\0\0\x08\x07\0\0\0\0\0\0\0\0\x07\0\0\0\x0b", 17);
    bytes[0] = 'x';
    assert_int_equal(frame_put_setting(bytes, SETTING_MAX_FRAME_SIZE, 16384) - bytes, 6);
    assert_memory_equal(bytes, "\0\x05\0\0\x40\0", 6);
}

/* Settings */

TEST(settings_are_checked)
{
    static const struct {
        uint16_t setting;
        uint32_t value;
        enum http2_error error;
    } cases[] = {
        {SETTING_HEADER_TABLE_SIZE, UINT32_MAX, HTTP2_NO_ERROR},
        {SETTING_ENABLE_PUSH, 0, HTTP2_NO_ERROR},
        {SETTING_ENABLE_PUSH, 1, HTTP2_NO_ERROR},
        {SETTING_ENABLE_PUSH, 2, HTTP2_PROTOCOL_ERROR},
        {SETTING_INITIAL_WINDOW_SIZE, 0, HTTP2_NO_ERROR},
        {SETTING_INITIAL_WINDOW_SIZE, INT32_MAX, HTTP2_NO_ERROR},
        {SETTING_INITIAL_WINDOW_SIZE, (uint32_t)INT32_MAX + 1, HTTP2_FLOW_CONTROL_ERROR},
        {SETTING_MAX_FRAME_SIZE, 16383, HTTP2_PROTOCOL_ERROR},
        {SETTING_MAX_FRAME_SIZE, 16384, HTTP2_NO_ERROR},
        {SETTING_MAX_FRAME_SIZE, 16777215, HTTP2_NO_ERROR},
        {SETTING_MAX_FRAME_SIZE, 16777216, HTTP2_PROTOCOL_ERROR},
        {SETTING_NO_RFC7540_PRIORITIES, 2, HTTP2_PROTOCOL_ERROR},
        {SETTING_MAX_CONCURRENT_STREAMS, 0, HTTP2_NO_ERROR},
        {SETTING_MAX_HEADER_LIST_SIZE, 1, HTTP2_NO_ERROR},
        {0xff, 1, HTTP2_NO_ERROR}, /* unknown */
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http2_settings settings = http2_settings_initial;
        char payload[FRAME_SETTING_BYTES];

        frame_put_setting(payload, (enum frame_setting)cases[i].setting, cases[i].value);
        assert_int_equal(http2_settings_read(&settings, payload, sizeof(payload)), cases[i].error);
    }
}

TEST(settings_are_stored)
{
    struct http2_settings settings = http2_settings_initial;
    char payload[3 * FRAME_SETTING_BYTES];

    frame_put_setting(payload, SETTING_HEADER_TABLE_SIZE, 1);
    frame_put_setting(payload + FRAME_SETTING_BYTES, SETTING_INITIAL_WINDOW_SIZE, 2);
    frame_put_setting(payload + 2 * FRAME_SETTING_BYTES, SETTING_MAX_FRAME_SIZE, 16385);
    assert_int_equal(http2_settings_read(&settings, payload, sizeof(payload)), HTTP2_NO_ERROR);
    assert_int_equal(settings.header_table_size, 1);
    assert_int_equal(settings.initial_window, 2);
    assert_int_equal(settings.max_frame_size, 16385);
}

/* In the read buffer the next frame follows. */
TEST(bytes_after_the_payload_are_not_read)
{
    struct http2_settings settings = http2_settings_initial;
    char payload[2 * FRAME_SETTING_BYTES];

    frame_put_setting(payload, SETTING_INITIAL_WINDOW_SIZE, 1);
    frame_put_setting(payload + FRAME_SETTING_BYTES, SETTING_INITIAL_WINDOW_SIZE, 2);
    assert_int_equal(http2_settings_read(&settings, payload, FRAME_SETTING_BYTES), HTTP2_NO_ERROR);
    assert_int_equal(settings.initial_window, 1);
}

TEST(later_setting_counts)
{
    struct http2_settings settings = http2_settings_initial;
    char payload[2 * FRAME_SETTING_BYTES];

    frame_put_setting(payload, SETTING_INITIAL_WINDOW_SIZE, 1);
    frame_put_setting(payload + FRAME_SETTING_BYTES, SETTING_INITIAL_WINDOW_SIZE, 2);
    assert_int_equal(http2_settings_read(&settings, payload, sizeof(payload)), HTTP2_NO_ERROR);
    assert_int_equal(settings.initial_window, 2);
    assert_int_equal(settings.max_frame_size, 16384);
}

TEST(cut_setting_is_a_size_error)
{
    struct http2_settings settings = http2_settings_initial;

    for (size_t length = 1; length < FRAME_SETTING_BYTES; length++)
        assert_int_equal(http2_settings_read(&settings, "\0\0\0\0\0\0", length),
                         HTTP2_FRAME_SIZE_ERROR);
    assert_int_equal(http2_settings_read(&settings, "", 0), HTTP2_NO_ERROR);
}

TEST(window_overflows_at_31_bits)
{
    static const struct {
        int32_t window;
        int64_t change;
        bool fits;
        int32_t after;
    } cases[] = {
        {0, 1, true, 1},
        {65535, INT32_MAX - 65535, true, INT32_MAX},
        {65535, INT32_MAX - 65534, false, 65535},
        {100, -65535, true, -65435}, /* a smaller initial window (RFC 9113 section 6.9.2) */
        {-65435, 65435, true, 0},
        {INT32_MAX, INT32_MAX, false, INT32_MAX},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int32_t window = cases[i].window;

        assert_int_equal(window_add(&window, cases[i].change), cases[i].fits);
        assert_int_equal(window, cases[i].after);
    }
}

/* Priorities */

TEST(field_gives_urgency_and_incremental)
{
    static const struct {
        const char *field;
        int urgency;
        bool incremental;
    } cases[] = {
        {"", 3, false},
        {"u=0", 0, false},
        {"u=7", 7, false},
        {"u=8", 3, false},
        {"u=-1", 3, false},
        {"u=1.0", 3, false},
        {"u=\"1\"", 3, false},
        {"u", 3, false},
        {"i", 3, true},
        {"i=?1", 3, true},
        {"i=?0", 3, false},
        {"i=1", 3, false},
        {"u=5, i", 5, true},
        {"u=5,i", 5, true},
        {"  u=5\t,\ti  ", 5, true},
        {"i, u=5", 5, true},
        {"u=5;x=1, i;y", 5, true},
        {"u=1, u=2", 2, false}, /* the last one counts */
        {"i, i=?0", 3, false},
        {"x=\"a, i, u=1\", u=2", 2, false},
        {"x=\"\\\", i\", u=2", 2, false},
        {"x=(1 2 \"a,)\"), u=2", 2, false},
        {"_a=1, u=2", 2, false},
        {"-a=1, u=2", 2, false},
        {".a=1, u=2", 2, false},
        {"*a=1, u=2", 2, false},
        {"az09=1, u=2", 2, false},
        {"x=(1, i), u=2", 2, false},
        {"u=2, X=1", 3, false}, /* not a dictionary: all of it is ignored */
        {"u=2 i", 3, false},
        {"u=2, a b", 3, false},
        {"u=2,", 3, false},
        {"u=2,,i", 3, false},
        {"=2", 3, false},
        {"2=u", 3, false},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct span field = span_of(cases[i].field);
        struct http2_priority priority = http2_priority_read(field);

        if (priority.urgency != cases[i].urgency || priority.incremental != cases[i].incremental)
            fail_msg("'%s' is u=%d, i=%d", cases[i].field, priority.urgency, priority.incremental);
    }
}

/* In the header block other bytes follow. */
TEST(bytes_after_the_field_do_not_count)
{
    static const struct {
        const char *text;
        size_t length;
        int urgency;
    } cases[] = {
        {"u=2,i", 3, 2}, {"u=2 ,", 3, 2},     {"u=2 ,", 4, 2},   {"u=25", 3, 2},
        {"u=2x", 3, 2},  {"ua", 1, 3},        {"u=2, i", 5, 3},  {"u=2;a,", 5, 2},
        {" u", 1, 3},    {"u=2, a=1,", 8, 2}, {"u=2,a,", 5, 2},  {"u=2,a=\"\\xx", 8, 2},
        {"u=2 x", 3, 2}, {"u=2,ax", 5, 2},    {"u=2,a=5", 5, 2},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct span field = {cases[i].text, cases[i].length};
        struct http2_priority priority = http2_priority_read(field);

        if (priority.urgency != cases[i].urgency || priority.incremental)
            fail_msg("'%s' is u=%d, i=%d", cases[i].text, priority.urgency, priority.incremental);
    }
}
