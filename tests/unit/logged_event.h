/* The event_log() of a test, which keeps the last event. Its program has wrap(... event_log). */
#ifndef TESTS_LOGGED_EVENT_H
#define TESTS_LOGGED_EVENT_H

#include "daemon/base/events.h"

#include <stdarg.h>
#include <stdio.h>

static char logged[512]; /* the last event */
static int events;       /* number of events */

/* NOLINTNEXTLINE(clang-diagnostic-reserved-identifier): a name of the linker */
PRINTF_LIKE(2, 3) void __wrap_event_log(enum level level, const char *format, ...);

void __wrap_event_log(enum level level, const char *format, ...)
{
    va_list arguments;

    (void)level;
    events++;
    va_start(arguments, format);
    vsnprintf(logged, sizeof(logged), format, arguments);
    va_end(arguments);
}

#endif
