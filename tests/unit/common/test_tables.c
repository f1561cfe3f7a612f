/* "Did you mean": which known word is offered for one that was typed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "common/tables.h"

#include <string.h>

static const char *const words[] = {"listen",  "root",      "index",         "processes",
                                    "threads", "keepalive", "max_entries",   "max_object",
                                    "level",   "on",        "header_timeout"};

static void test_nearest_word(void **state)
{
    static const struct {
        const char *typed;
        const char *expected;
    } cases[] = {
        {"listen", "listen"},
        {"LISTEN", "listen"},
        {"lisen", "listen"},   /* a letter left out */
        {"lissten", "listen"}, /* one too many */
        {"lixten", "listen"},  /* one replaced */
        {"lsiten", "listen"},  /* two swapped */
        {"thread", "threads"},
        {"process", "processes"},
        {"max_objects", "max_object"},
        {"max_entry", "max_entries"},
        {"keep_alive", "keepalive"},
        {"keep-alive-", "keepalive"},
        {"header-timeout", "header_timeout"},
        {"headertimout", "header_timeout"},
        {"o", "on"},
        {"onn", "on"},
        {"levle", "level"},
        {"rot", "root"},
        {"", NULL},
        {"xyzzy", NULL},
        {"rxxt", NULL}, /* two of four letters are too many */
        {"off", NULL},
        {"listen_on_all_addresses", NULL},
        {"a-word-that-is-longer-than-any-word-that-the-module-cares-to-compare-at-all", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const char *found = nearest_word(cases[i].typed, words, ARRAY_LENGTH(words));

        if (found != cases[i].expected &&
            (found == NULL || cases[i].expected == NULL || strcmp(found, cases[i].expected) != 0))
            fail_msg("'%s' found '%s'", cases[i].typed, found != NULL ? found : "nothing");
    }
}

static void test_first_of_equals(void **state)
{
    static const char *const equals[] = {"cat", "bat", "hat"};

    (void)state;
    assert_string_equal(nearest_word("rat", equals, ARRAY_LENGTH(equals)), "cat");
    assert_string_equal(nearest_word("hat", equals, ARRAY_LENGTH(equals)), "hat");
}

static void test_no_words(void **state)
{
    (void)state;
    assert_null(nearest_word("listen", words, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest_word),
        cmocka_unit_test(test_first_of_equals),
        cmocka_unit_test(test_no_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
