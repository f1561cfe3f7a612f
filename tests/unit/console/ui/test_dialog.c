/* The line editor: keys, history, completion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "console/ui/dialog.h"

#include <curses.h>
#include <string.h>

static void type(struct edit *edit, const char *text)
{
    for (; *text != '\0'; text++)
        assert_true(edit_key(edit, NULL, (unsigned char)*text));
}

static void keys_edit_like_a_shell(void **state)
{
    struct edit edit = {0};

    (void)state;
    type(&edit, "threads 48");
    edit_key(&edit, NULL, KEY_LEFT);
    edit_key(&edit, NULL, KEY_BACKSPACE);
    assert_string_equal(edit.text, "threads 8");
    edit_key(&edit, NULL, KEY_HOME);
    edit_key(&edit, NULL, KEY_DC);
    assert_string_equal(edit.text, "hreads 8");
    type(&edit, "t");
    edit_key(&edit, NULL, KEY_END);
    edit_key(&edit, NULL, 23); /* Ctrl-W */
    assert_string_equal(edit.text, "threads ");
    edit_key(&edit, NULL, 21); /* Ctrl-U */
    assert_string_equal(edit.text, "");
    assert_false(edit_key(&edit, NULL, KEY_F(1)));
    edit_key(&edit, NULL, KEY_BACKSPACE); /* empty line: no effect */
    edit_key(&edit, NULL, KEY_DC);
    edit_key(&edit, NULL, KEY_LEFT);
    edit_key(&edit, NULL, KEY_RIGHT);
    assert_string_equal(edit.text, "");
}

static void multibyte_characters_are_edited_as_one(void **state)
{
    struct edit edit = {0};

    (void)state;
    type(&edit, "a\xc3\xbc\xe2\x82\xac");
    edit_key(&edit, NULL, KEY_BACKSPACE);
    assert_string_equal(edit.text, "a\xc3\xbc");
    edit_key(&edit, NULL, KEY_LEFT);
    assert_int_equal(edit.cursor, 1);
    edit_key(&edit, NULL, KEY_DC);
    assert_string_equal(edit.text, "a");
}

static void long_line_is_truncated(void **state)
{
    struct edit edit = {0};

    (void)state;
    for (int i = 0; i < 2 * EDIT_BYTES; i++)
        edit_key(&edit, NULL, 'x');
    assert_int_equal(strlen(edit.text), EDIT_BYTES - 1);
}

static void history_moves_back_and_forward(void **state)
{
    static struct edit_history history;
    struct edit edit = {0};

    (void)state;
    for (int i = 0; i < EDIT_HISTORY + 5; i++)
        edit_remember(&history, i % 2 ? "first" : "second");
    edit_remember(&history, "second");
    edit_remember(&history, "second"); /* no consecutive duplicates */
    assert_int_equal(history.count, EDIT_HISTORY);
    edit_key(&edit, &history, KEY_UP);
    assert_string_equal(edit.text, "second");
    edit_key(&edit, &history, KEY_UP);
    assert_string_equal(edit.text, "first");
    edit_key(&edit, &history, KEY_DOWN);
    edit_key(&edit, &history, KEY_DOWN);
    assert_string_equal(edit.text, "");
    edit_key(&edit, &history, KEY_DOWN);
    assert_string_equal(edit.text, "");
}

static void completion_stops_at_common_prefix(void **state)
{
    static const char *const words[] = {"cache-flush", "cache-purge", "threads"};
    struct edit edit = {0};

    (void)state;
    type(&edit, "ca");
    assert_int_equal(edit_complete(&edit, words, 3), 2);
    assert_string_equal(edit.text, "cache-");
    type(&edit, "p");
    assert_int_equal(edit_complete(&edit, words, 3), 1);
    assert_string_equal(edit.text, "cache-purge ");
    type(&edit, "zzz");
    assert_int_equal(edit_complete(&edit, words, 3), 0);
    assert_string_equal(edit.text, "cache-purge zzz");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_edit_like_a_shell),
        cmocka_unit_test(multibyte_characters_are_edited_as_one),
        cmocka_unit_test(long_line_is_truncated),
        cmocka_unit_test(history_moves_back_and_forward),
        cmocka_unit_test(completion_stops_at_common_prefix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
