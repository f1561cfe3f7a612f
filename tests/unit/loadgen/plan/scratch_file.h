/* Two files for the input of a test. */
#ifndef TESTS_SCRATCH_FILE_H
#define TESTS_SCRATCH_FILE_H

#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/test_plan.XXXXXX", second_path[] = "/tmp/test_plan.XXXXXX";

/* Set-up and tear-down of a group of tests. */
static int make_files(void **state)
{
    int one = mkstemp(path), other = mkstemp(second_path);

    (void)state;
    return one < 0 || other < 0 ? -1 : close(one) | close(other);
}

static int remove_files(void **state)
{
    (void)state;
    return unlink(path) | unlink(second_path);
}

static inline void write_bytes(const char *to, const char *bytes, size_t length)
{
    FILE *file = fopen(to, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static inline void write_file(const char *to, const char *text)
{
    write_bytes(to, text, strlen(text));
}

#endif
