/* The client's settings, and the arithmetic of windows. */
#include "daemon/http2/settings.h"

#include "common/macros.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void settings_are_checked(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct http2_settings settings = http2_settings_initial;
        char payload[FRAME_SETTING_BYTES];

        frame_put_setting(payload, (enum frame_setting)cases[i].setting, cases[i].value);
        assert_int_equal(http2_settings_read(&settings, payload, sizeof(payload)), cases[i].error);
    }
}

static void settings_are_stored(void **state)
{
    struct http2_settings settings = http2_settings_initial;
    char payload[3 * FRAME_SETTING_BYTES];

    (void)state;
    frame_put_setting(payload, SETTING_HEADER_TABLE_SIZE, 1);
    frame_put_setting(payload + FRAME_SETTING_BYTES, SETTING_INITIAL_WINDOW_SIZE, 2);
    frame_put_setting(payload + 2 * FRAME_SETTING_BYTES, SETTING_MAX_FRAME_SIZE, 16385);
    assert_int_equal(http2_settings_read(&settings, payload, sizeof(payload)), HTTP2_NO_ERROR);
    assert_int_equal(settings.header_table_size, 1);
    assert_int_equal(settings.initial_window, 2);
    assert_int_equal(settings.max_frame_size, 16385);
}

/* In the read buffer the next frame follows. */
static void bytes_after_the_payload_are_not_read(void **state)
{
    struct http2_settings settings = http2_settings_initial;
    char payload[2 * FRAME_SETTING_BYTES];

    (void)state;
    frame_put_setting(payload, SETTING_INITIAL_WINDOW_SIZE, 1);
    frame_put_setting(payload + FRAME_SETTING_BYTES, SETTING_INITIAL_WINDOW_SIZE, 2);
    assert_int_equal(http2_settings_read(&settings, payload, FRAME_SETTING_BYTES), HTTP2_NO_ERROR);
    assert_int_equal(settings.initial_window, 1);
}

static void later_setting_counts(void **state)
{
    struct http2_settings settings = http2_settings_initial;
    char payload[2 * FRAME_SETTING_BYTES];

    (void)state;
    frame_put_setting(payload, SETTING_INITIAL_WINDOW_SIZE, 1);
    frame_put_setting(payload + FRAME_SETTING_BYTES, SETTING_INITIAL_WINDOW_SIZE, 2);
    assert_int_equal(http2_settings_read(&settings, payload, sizeof(payload)), HTTP2_NO_ERROR);
    assert_int_equal(settings.initial_window, 2);
    assert_int_equal(settings.max_frame_size, 16384);
}

static void cut_setting_is_a_size_error(void **state)
{
    struct http2_settings settings = http2_settings_initial;

    (void)state;
    for (size_t length = 1; length < FRAME_SETTING_BYTES; length++)
        assert_int_equal(http2_settings_read(&settings, "\0\0\0\0\0\0", length),
                         HTTP2_FRAME_SIZE_ERROR);
    assert_int_equal(http2_settings_read(&settings, "", 0), HTTP2_NO_ERROR);
}

static void window_overflows_at_31_bits(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int32_t window = cases[i].window;

        assert_int_equal(window_add(&window, cases[i].change), cases[i].fits);
        assert_int_equal(window, cases[i].after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(settings_are_stored),
        cmocka_unit_test(bytes_after_the_payload_are_not_read),
        cmocka_unit_test(later_setting_counts),
        cmocka_unit_test(cut_setting_is_a_size_error),
        cmocka_unit_test(window_overflows_at_31_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
