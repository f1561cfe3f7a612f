/* What a new logger does with the batch that a dead one recorded. */
#include "daemon/logger/batch.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { BYTES_MAX = 1000 };

static void size_of_file_shows_what_was_written(void **state)
{
    static const struct {
        uint64_t before, bytes;
        off_t size;
        enum batch_end end;
    } examples[] = {
        {0, 100, 0, BATCH_UNWRITTEN},
        {500, 100, 500, BATCH_UNWRITTEN},
        {500, 100, 501, BATCH_PARTIAL},
        {500, 100, 599, BATCH_PARTIAL},
        {500, 100, 600, BATCH_WRITTEN},
        {500, 100, 700, BATCH_WRITTEN},   /* somebody else appends, too */
        {500, 100, 499, BATCH_UNWRITTEN}, /* somebody else has cut it: never make it longer */
        {0, BYTES_MAX, BYTES_MAX - 1, BATCH_PARTIAL},
        /* records that no logger makes: the file must keep what it has */
        {0, BYTES_MAX + 1, 10, BATCH_FORGED},
        {0, UINT64_MAX, 1000000, BATCH_FORGED},
        {10, UINT64_MAX - 5, 1000000, BATCH_FORGED}, /* the sum overflows */
        {UINT64_MAX, 100, 1000000, BATCH_FORGED},
        {INT64_MAX, 100, 1000000, BATCH_UNWRITTEN}, /* the largest size */
        {0, 100, 1000000, BATCH_WRITTEN},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        const struct batch_record record = {1, 2, examples[i].before, examples[i].bytes};
        const struct stat file = {
            .st_dev = 1, .st_ino = 2, .st_mode = S_IFREG, .st_size = examples[i].size};

        if (batch_end_of(&record, &file, BYTES_MAX) != examples[i].end)
            fail_msg("example %zu: %d", i, batch_end_of(&record, &file, BYTES_MAX));
    }
}

static void another_file_has_nothing_of_it(void **state)
{
    const struct batch_record record = {1, 2, 500, 100};
    const struct stat other = {.st_dev = 1, .st_ino = 3, .st_mode = S_IFREG, .st_size = 550};
    const struct stat elsewhere = {.st_dev = 4, .st_ino = 2, .st_mode = S_IFREG, .st_size = 550};

    (void)state;
    assert_int_equal(batch_end_of(&record, &other, BYTES_MAX), BATCH_UNWRITTEN);
    assert_int_equal(batch_end_of(&record, &elsewhere, BYTES_MAX), BATCH_UNWRITTEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_of_file_shows_what_was_written),
        cmocka_unit_test(another_file_has_nothing_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
