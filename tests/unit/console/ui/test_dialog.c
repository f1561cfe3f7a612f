/* The line editor: keys, history, completion. */
#include "console/ui/dialog.h"

#include "tests/test.h"

#include <curses.h>
#include <string.h>

static void type(struct edit *edit, const char *text)
{
    for (; *text != '\0'; text++)
        assert_true(edit_key(edit, NULL, (unsigned char)*text));
}

TEST(keys_edit_like_a_shell)
{
    struct edit edit = {0};

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

TEST(multibyte_characters_are_edited_as_one)
{
    struct edit edit = {0};

    type(&edit, "a\xc3\xbc\xe2\x82\xac");
    edit_key(&edit, NULL, KEY_BACKSPACE);
    assert_string_equal(edit.text, "a\xc3\xbc");
    edit_key(&edit, NULL, KEY_LEFT);
    assert_int_equal(edit.cursor, 1);
    edit_key(&edit, NULL, KEY_DC);
    assert_string_equal(edit.text, "a");
}

TEST(long_line_is_truncated)
{
    struct edit edit = {0};

    for (int i = 0; i < 2 * EDIT_BYTES; i++)
        edit_key(&edit, NULL, 'x');
    assert_int_equal(strlen(edit.text), EDIT_BYTES - 1);
}

TEST(history_moves_back_and_forward)
{
    static struct edit_history history;
    struct edit edit = {0};

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

TEST(completion_stops_at_common_prefix)
{
    static const char *const words[] = {"cache-flush", "cache-purge", "threads"};
    struct edit edit = {0};

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
