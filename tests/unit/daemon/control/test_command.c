/* The request lines of the control socket: framing and splitting. */
#include "daemon/control/command.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct evbuffer *buffer_with(const char *text, size_t length)
{
    struct evbuffer *buffer = evbuffer_new();

    assert_non_null(buffer);
    assert_int_equal(evbuffer_add(buffer, text, length), 0);
    return buffer;
}

static void expect_line(struct evbuffer *buffer, const char *expected)
{
    char *line;

    assert_int_equal(command_line_read(buffer, &line), COMMAND_LINE_WHOLE);
    assert_string_equal(line, expected);
    free(line);
}

static void lines_end_in_lf_or_crlf(void **state)
{
    static const char text[] = "ping\nstatus\r\n\nhel";
    struct evbuffer *buffer = buffer_with(text, strlen(text));
    char *line;

    (void)state;
    expect_line(buffer, "ping");
    expect_line(buffer, "status");
    expect_line(buffer, "");
    assert_int_equal(command_line_read(buffer, &line), COMMAND_LINE_INCOMPLETE);
    assert_null(line);
    evbuffer_add(buffer, "p\n", 2);
    expect_line(buffer, "help");
    evbuffer_free(buffer);
}

static void invalid_line_is_removed(void **state)
{
    static const char text[] = "ping\0x\nratelimit \xff\n\xc3\n\0\ngr\xc3\xbc\xc3\x9f\n";
    struct evbuffer *buffer = buffer_with(text, sizeof(text) - 1);
    char *line;

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(command_line_read(buffer, &line), COMMAND_LINE_INVALID);
        assert_null(line);
    }
    expect_line(buffer, "gr\xc3\xbc\xc3\x9f");
    evbuffer_free(buffer);
}

/* A word that is cut in the middle of a character is no valid JSON string. */
static void errors_may_contain_any_bytes(void **state)
{
    json_t *error = command_error("invalid '%s'\n\tsee", "a\xc3\xff\x1b");

    (void)state;
    assert_non_null(error);
    assert_string_equal(json_string_value(json_object_get(error, "error")),
                        "invalid 'a\\xc3\\xff\\x1b'\n\tsee");
    json_decref(error);
}

/* CONTROL_LINE_MAX counts the newline. */
static void line_length_limit_is_exact(void **state)
{
    static char text[CONTROL_LINE_MAX + 1];
    struct evbuffer *buffer;
    char *line;

    (void)state;
    memset(text, 'x', sizeof(text));
    text[CONTROL_LINE_MAX - 1] = '\n';
    buffer = buffer_with(text, CONTROL_LINE_MAX);
    assert_int_equal(command_line_read(buffer, &line), COMMAND_LINE_WHOLE);
    assert_int_equal(strlen(line), CONTROL_LINE_MAX - 1);
    free(line);
    evbuffer_free(buffer);
    text[CONTROL_LINE_MAX - 1] = 'x';
    text[CONTROL_LINE_MAX] = '\n';
    buffer = buffer_with(text, sizeof(text));
    assert_int_equal(command_line_read(buffer, &line), COMMAND_LINE_TOO_LONG);
    assert_null(line);
    evbuffer_free(buffer);
}

static void endless_line_is_too_long_without_newline(void **state)
{
    static char text[CONTROL_LINE_MAX + 1];
    struct evbuffer *buffer;
    char *line;

    (void)state;
    memset(text, 'x', sizeof(text));
    buffer = buffer_with(text, CONTROL_LINE_MAX);
    assert_int_equal(command_line_read(buffer, &line), COMMAND_LINE_INCOMPLETE);
    evbuffer_add(buffer, "x", 1);
    assert_int_equal(command_line_read(buffer, &line), COMMAND_LINE_TOO_LONG);
    evbuffer_free(buffer);
}

static bool memory_fails;

static void *allocate(size_t size)
{
    return memory_fails ? NULL : malloc(size);
}

static void line_stays_in_the_buffer_without_memory(void **state)
{
    static const char *const lines[] = {"\n", "\r\n", "ping\n"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        struct evbuffer *buffer = buffer_with(lines[i], strlen(lines[i]));
        char *line;

        memory_fails = true;
        assert_int_equal(command_line_read(buffer, &line), COMMAND_LINE_NO_MEMORY);
        memory_fails = false;
        assert_null(line);
        assert_int_equal(evbuffer_get_length(buffer), strlen(lines[i]));
        evbuffer_free(buffer);
    }
}

static void words_are_split_at_spaces_and_tabs(void **state)
{
    static const struct {
        const char *line;
        int count;
        const char *words[3];
    } cases[] = {
        {"", 0, {NULL}},
        {" \t ", 0, {NULL}},
        {"ping", 1, {"ping"}},
        {"  threads\t 4  ", 2, {"threads", "4"}},
        {"a b c", 3, {"a", "b", "c"}},
        {"a b c d", 4, {"a", "b", "c"}}, /* one more than there is room for */
        {"a b c d e f", 4, {"a", "b", "c"}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char *words[3] = {NULL}, *line = strdup(cases[i].line);

        assert_int_equal(command_line_split(line, words, 3), cases[i].count);
        for (int k = 0; k < cases[i].count && k < 3; k++)
            assert_string_equal(words[k], cases[i].words[k]);
        free(line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_in_lf_or_crlf),
        cmocka_unit_test(invalid_line_is_removed),
        cmocka_unit_test(errors_may_contain_any_bytes),
        cmocka_unit_test(line_length_limit_is_exact),
        cmocka_unit_test(endless_line_is_too_long_without_newline),
        cmocka_unit_test(line_stays_in_the_buffer_without_memory),
        cmocka_unit_test(words_are_split_at_spaces_and_tabs),
    };

    event_set_mem_functions(allocate, realloc, free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
