/* The list of events, grouped by kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/macros.h"
#include "console/data/lists.h"

#include <stdio.h>

static struct event_list *list;
static const struct event_row *rows[EVENT_LIST_SINGLE];

static int begin(void **state)
{
    (void)state;
    list = event_list_create();
    return list == NULL;
}

static int end(void **state)
{
    (void)state;
    event_list_destroy(list);
    return 0;
}

static void event(uint64_t second, enum level level, const char *text)
{
    struct event_record record = {
        .time_ns = second * NS_PER_S, .level = (uint8_t)level, .role = ROLE_MASTER, .pid = 7};

    snprintf(record.text, sizeof(record.text), "%s", text);
    event_list_add(list, &record);
}

static size_t kinds(enum level min_level, uint64_t until_s)
{
    return event_list_rows(list, false, min_level, until_s * NS_PER_S, rows, ARRAY_LENGTH(rows));
}

static void events_that_differ_in_numbers_are_one_kind(void **state)
{
    (void)state;
    event(10, LEVEL_ERROR, "worker slot 0 (pid 120) was killed: starting another");
    event(11, LEVEL_INFO, "stopping");
    event(12, LEVEL_ERROR, "worker slot 1 (pid 7) was killed: starting another");
    event(13, LEVEL_WARN, "worker slot 1 (pid 7) was killed: starting another");
    assert_int_equal(kinds(LEVEL_DEBUG, 20), 3);
    assert_int_equal(rows[0]->level, LEVEL_WARN);
    assert_int_equal(rows[1]->count, 2);
    assert_int_equal(rows[1]->first_ns, 10 * NS_PER_S);
    assert_int_equal(rows[1]->last_ns, 12 * NS_PER_S);
    assert_string_equal(rows[1]->text, "worker slot 1 (pid 7) was killed: starting another");
    assert_int_equal(kinds(LEVEL_WARN, 20), 2);
    assert_int_equal(kinds(LEVEL_DEBUG, 10), 1);
    assert_int_equal(event_list_total(list, LEVEL_ERROR), 2);
}

static void single_events_are_newest_first(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < EVENT_LIST_SINGLE + 10; i++)
        event(100 + i, LEVEL_INFO, "again");
    assert_int_equal(event_list_rows(list, true, LEVEL_INFO, UINT64_MAX, rows, ARRAY_LENGTH(rows)),
                     EVENT_LIST_SINGLE);
    assert_int_equal(rows[0]->last_ns, (100 + EVENT_LIST_SINGLE + 9) * NS_PER_S);
    assert_int_equal(rows[EVENT_LIST_SINGLE - 1]->last_ns, 110 * NS_PER_S);
    assert_int_equal(event_list_rows(list, true, LEVEL_WARN, UINT64_MAX, rows, 10), 0);
    assert_int_equal(kinds(LEVEL_INFO, 99999), 1);
    assert_int_equal(rows[0]->count, EVENT_LIST_SINGLE + 10);
}

static void oldest_kind_is_replaced(void **state)
{
    char text[EVENT_TEXT_BYTES];

    (void)state;
    for (uint64_t i = 0; i < EVENT_LIST_KINDS + 1; i++) {
        snprintf(text, sizeof(text), "kind %c%c", (char)('a' + i / 26), (char)('a' + i % 26));
        event(100 + i, LEVEL_INFO, text);
    }
    assert_int_equal(kinds(LEVEL_INFO, 99999), EVENT_LIST_KINDS);
    assert_string_equal(rows[EVENT_LIST_KINDS - 1]->text, "kind ab");
}

static void unprintable_bytes_are_escaped(void **state)
{
    (void)state;
    event(1, LEVEL_ERROR, "no file \x1b[2J");
    assert_int_equal(kinds(LEVEL_INFO, 2), 1);
    assert_string_equal(rows[0]->text, "no file \\x1b[2J");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_that_differ_in_numbers_are_one_kind, begin, end),
        cmocka_unit_test_setup_teardown(single_events_are_newest_first, begin, end),
        cmocka_unit_test_setup_teardown(oldest_kind_is_replaced, begin, end),
        cmocka_unit_test_setup_teardown(unprintable_bytes_are_escaped, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
