/*
 * What most tests of the console need: one stand-in for the daemon, one console on a terminal, and
 * words that are to be seen on it. One test at a time.
 */
#ifndef TESTS_SCREENS_STAGE_H
#define TESTS_SCREENS_STAGE_H

#include "fixture.h"
#include "terminal.h"

#include <stddef.h>

/* What a test has started; ended by stage_teardown(), also when it failed. */
extern struct fixture *fixture;
extern struct terminal *terminal;

int stage_teardown(void **state);

/* The instance of this test program. */
const char *stage_name(void);

void stage_fixture(void);
void stage_end_fixture(void);

/* Runs the console with MORE arguments; both lists end with NULL, and may be NULL. */
void stage_console(int rows, int columns, const char *const *more, const char *const *environment);
void stage_end_console(void);

/* All of TEXTS are on the screen, once it has been drawn; what is missing is named. */
void stage_shows(const char *const *texts, size_t count);

#define ASSERT_SHOWS(...)                                                                          \
    do {                                                                                           \
        static const char *const texts_[] = {__VA_ARGS__};                                         \
        stage_shows(texts_, sizeof(texts_) / sizeof(texts_[0]));                                   \
    } while (0)

/* The console ends by itself, and leaves the terminal as it was. */
void stage_ended_well(void);

#endif
