/* Frames, byte by byte. */
#include "daemon/http2/frame.h"

#include "common/macros.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void head_is_written_and_read(void **state)
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

    (void)state;
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

static void reserved_bit_is_ignored(void **state)
{
    (void)state;
    assert_int_equal(frame_head_read("\0\0\0\0\0\x80\0\0\x05").stream, 5);
    assert_int_equal(frame_read_31("\xff\xff\xff\xff"), INT32_MAX);
    assert_int_equal(frame_read_32("\xff\xff\xff\xfe"), UINT32_MAX - 1);
}

static void control_frames_are_complete(void **state)
{
    char bytes[64];

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_is_written_and_read),
        cmocka_unit_test(reserved_bit_is_ignored),
        cmocka_unit_test(control_frames_are_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
