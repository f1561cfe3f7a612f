/* The calls that a test's replacements of functions record, in order: "close sockets, start metrics". */
#ifndef TESTS_RECORDED_CALLS_H
#define TESTS_RECORDED_CALLS_H

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static char recorded[512];

PRINTF_LIKE(1, 2) static void record(const char *format, ...)
{
    size_t length = strlen(recorded);
    va_list arguments;

    length += (size_t)snprintf(recorded + length, sizeof(recorded) - length, "%s",
                               length > 0 ? ", " : "");
    va_start(arguments, format);
    vsnprintf(recorded + length, sizeof(recorded) - length, format, arguments);
    va_end(arguments);
}

static void forget_calls(void)
{
    recorded[0] = '\0';
}

/* The calls since the last one. */
static void expect_calls(const char *expected)
{
    assert_string_equal(recorded, expected);
    forget_calls();
}

#endif
