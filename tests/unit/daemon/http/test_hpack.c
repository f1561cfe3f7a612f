/* Header blocks without the dynamic table, byte by byte; examples are from RFC 7541 appendix C. */
#include "daemon/http/hpack.h"

#include "common/macros.h"

#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void status_is_indexed_or_literal(void **state)
{
    static const struct {
        int status;
        const char *block;
    } cases[] = {
        {200, "\x88"},
        {204, "\x89"},
        {206, "\x8a"},
        {304, "\x8b"},
        {400, "\x8c"},
        {404, "\x8d"},
        {500, "\x8e"},
        {301, "\x08\x03"
              "301"},
        {431, "\x08\x03"
              "431"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char block[HPACK_STATUS_MAX];
        size_t length = (size_t)(hpack_put_status(block, cases[i].status) - block);

        assert_int_equal(length, strlen(cases[i].block));
        assert_memory_equal(block, cases[i].block, length);
    }
}

static void lines_become_literals_with_lower_case_names(void **state)
{
    static const struct {
        const char *lines;
        struct span block;
    } cases[] = {
        {"", {"", 0}},
        {"Allow: GET\r\n", SPAN("\x0f\x07\x03GET")},
        {"accept-charset: x\r\n", SPAN("\x0f\x00\x01x")},
        {"WWW-Authenticate: x\r\n", SPAN("\x0f\x2e\x01x")},
        {"X-Custom: \r\n", SPAN("\x00\x08x-custom\x00")},
        {"Vary: a:b\r\nAge: 1\r\n", SPAN("\x0f\x2c\x03"
                                         "a:b\x0f\x06\x01"
                                         "1")},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char block[64];
        struct span lines = {cases[i].lines, strlen(cases[i].lines)};
        size_t length = (size_t)(hpack_put_lines(block, lines) - block);

        assert_int_equal(length, cases[i].block.length);
        assert_memory_equal(block, cases[i].block.start, length);
    }
}

/* Lengths at the limits of one, two and three bytes; the block is within HPACK_LINES_MAX. */
static void long_values_have_long_lengths(void **state)
{
    static const struct {
        size_t value;
        struct span length;
    } cases[] = {
        {126, SPAN("\x7e")},
        {127, SPAN("\x7f\x00")},
        {254, SPAN("\x7f\x7f")},
        {255, SPAN("\x7f\x80\x01")},
        {127 + 16383, SPAN("\x7f\xff\x7f")},
        {127 + 16384, SPAN("\x7f\x80\x80\x01")},
    };
    static char lines[20000], block[HPACK_LINES_MAX(20000)];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int length = snprintf(lines, sizeof(lines), "ETag: %0*d\r\n", (int)cases[i].value, 7);
        size_t encoded =
            (size_t)(hpack_put_lines(block, (struct span){lines, (size_t)length}) - block);

        assert_int_equal(encoded, 2 + cases[i].length.length + cases[i].value);
        assert_true(encoded <= HPACK_LINES_MAX((size_t)length));
        assert_memory_equal(block, "\x0f\x13", 2);
        assert_memory_equal(block + 2, cases[i].length.start, cases[i].length.length);
        assert_memory_equal(block + encoded - cases[i].value, lines + 6, cases[i].value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_is_indexed_or_literal),
        cmocka_unit_test(lines_become_literals_with_lower_case_names),
        cmocka_unit_test(long_values_have_long_lengths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
