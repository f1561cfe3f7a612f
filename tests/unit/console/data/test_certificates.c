/* The certificates in shared memory: texts of an authority or a certificate have no control characters when shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "console/data/lists.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct segment segment;
static struct segment_reader reader;
static struct certificate_list list;

static int begin(void **state)
{
    char name[48], why[256];
    struct segment_plan plan = {.name = name,
                                .socket_path = "",
                                .listening = "",
                                .max_workers = 1,
                                .max_threads = 1,
                                .cache_entries = 16,
                                .max_hosts = 1,
                                .ring_bytes = 16 * 1024};

    (void)state;
    snprintf(name, sizeof(name), "scr-certificates-%d", (int)getpid());
    if (segment_create(&segment, &plan, why, sizeof(why)) != 0)
        return -1;
    segment_publish(&segment);
    return segment_attach(&reader, name, why, sizeof(why)) == SEGMENT_ATTACHED ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    segment_detach(&reader);
    segment_destroy(&segment);
    return 0;
}

static void take(const struct certificate_copy *copy)
{
    segment_store_certificate(&segment, 0, copy);
    segment_store_certificate_count(&segment, 1);
    certificate_list_take(&list, &reader);
    assert_int_equal(list.count, 1);
}

static void control_characters_become_question_marks(void **state)
{
    (void)state;
    take(&(struct certificate_copy){.names = "a.example\x1b]0;title\a",
                                    .issuer = "/CN=\x1b[31mred\x7f",
                                    .error = "refused\r\n\t\x1b[2J\x1b[H\b\x01 at last"});
    assert_string_equal(list.row[0].names, "a.example?]0;title?");
    assert_string_equal(list.row[0].issuer, "/CN=?[31mred?");
    assert_string_equal(list.row[0].error, "refused????[2J?[H?? at last");
}

static void no_control_character_is_left_in_any_place(void **state)
{
    struct certificate_copy copy = {.names = "a.example", .issuer = "/CN=A"};

    (void)state;
    for (size_t i = 0; i + 1 < sizeof(copy.error); i++)
        copy.error[i] = (char)(i % ' ' + 1);
    take(&copy);
    assert_int_equal(strlen(list.row[0].error), sizeof(copy.error) - 1);
    for (size_t i = 0; i + 1 < sizeof(copy.error); i++)
        assert_true(list.row[0].error[i] >= ' ');
}

static void other_text_is_unchanged(void **state)
{
    (void)state;
    take(&(struct certificate_copy){.names = "a.example b.example",
                                    .issuer = "/O=Ünder/CN=X 1",
                                    .error = "answers 429: zu viele Aufträge (rateLimited) ~",
                                    .failures = 3});
    assert_string_equal(list.row[0].names, "a.example b.example");
    assert_string_equal(list.row[0].issuer, "/O=Ünder/CN=X 1");
    assert_int_equal(list.row[0].failures, 3);
    assert_string_equal(list.row[0].error, "answers 429: zu viele Aufträge (rateLimited) ~");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(control_characters_become_question_marks, begin, end),
        cmocka_unit_test_setup_teardown(no_control_character_is_left_in_any_place, begin, end),
        cmocka_unit_test_setup_teardown(other_text_is_unchanged, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
