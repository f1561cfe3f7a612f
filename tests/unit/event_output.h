/*
 * The events that the code under test logs, which go to standard error while no segment is
 * attached.
 */
#ifndef TESTS_EVENT_OUTPUT_H
#define TESTS_EVENT_OUTPUT_H

#include "tests/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* In the set-up of each test: forgets the events so far. cmocka keeps its standard error. */
static inline void events_forget(void)
{
    static bool redirected;

    if (!redirected) {
        int output = memfd_create("events", MFD_CLOEXEC);

        stderr = fdopen(dup(STDERR_FILENO), "w");
        assert_non_null(stderr);
        assert_int_equal(dup2(output, STDERR_FILENO), STDERR_FILENO);
        close(output);
        redirected = true;
    }
    assert_int_equal(ftruncate(STDERR_FILENO, 0), 0);
    assert_int_equal(lseek(STDERR_FILENO, 0, SEEK_SET), 0);
}

/* Number of events. Stores the text of the last one in TEXT, which is empty if there is none. */
static inline int events_read(char *text, size_t size)
{
    char output[8192];
    ssize_t length = pread(STDERR_FILENO, output, sizeof(output) - 1, 0);
    int count = 0;

    assert_in_range(length, 0, sizeof(output) - 2);
    output[length] = '\0';
    *text = '\0';
    for (char *line = output, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        const char *begin = strstr(line, ": "); /* behind time, level, role and pid */

        *end = '\0';
        assert_non_null(begin);
        snprintf(text, size, "%s", begin + 2);
        count++;
    }
    return count;
}

static inline int event_count(void)
{
    char text[1024];

    return events_read(text, sizeof(text));
}

/* The text of the last event. */
static inline const char *last_event(void)
{
    static char text[1024];

    events_read(text, sizeof(text));
    return text;
}

#endif
