/* "Did you mean": the nearest word. */
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

static void nearest_word_by_edit_distance(void **state)
{
    static const struct {
        const char *typed;
        const char *expected;
    } cases[] = {
        {"listen", "listen"},
        {"LISTEN", "listen"},
        {"lisen", "listen"},   /* deletion */
        {"lissten", "listen"}, /* insertion */
        {"lixten", "listen"},  /* substitution */
        {"lsiten", "listen"},  /* transposition */
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
        {"rxxt", NULL},  /* 2 of 4 letters differ */
        {"elvex", NULL}, /* a transposition and a substitution, of 5 letters */
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

static void nearest_word_prefers_first(void **state)
{
    static const char *const equals[] = {"cat", "bat", "hat"};

    (void)state;
    assert_string_equal(nearest_word("rat", equals, ARRAY_LENGTH(equals)), "cat");
    assert_string_equal(nearest_word("hat", equals, ARRAY_LENGTH(equals)), "hat");
}

static void nearest_word_of_no_words_is_null(void **state)
{
    (void)state;
    assert_null(nearest_word("listen", words, 0));
}

static void unknown_word_gets_advice(void **state)
{
    static const struct {
        const char *typed;
        const char *expected;
    } cases[] = {
        {"lisen", "; did you mean 'listen'?"},
        {"--lisen", "; did you mean --listen?"},
        {"xyzzy", "; see -h"},
    };
    static const struct {
        int number;
        const char *name;
    } table[] = {{1, "root"}, {2, NULL}, {3, "listen"}};
    char text[DID_YOU_MEAN_SIZE];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_string_equal(
            did_you_mean(text, cases[i].typed, WORD_LIST(words, ARRAY_LENGTH(words)), "; see -h"),
            cases[i].expected);
        assert_string_equal(
            did_you_mean(text, cases[i].typed, WORD_LIST_OF(table, name), "; see -h"),
            cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_word_by_edit_distance),
        cmocka_unit_test(nearest_word_prefers_first),
        cmocka_unit_test(nearest_word_of_no_words_is_null),
        cmocka_unit_test(unknown_word_gets_advice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
