/*
 * Shared by most console tests: one fake daemon, one console on a terminal, and checks of its
 * screen. One test at a time.
 */
#ifndef TESTS_SCREENS_STAGE_H
#define TESTS_SCREENS_STAGE_H

#include "fixture.h"
#include "terminal.h"
#include "tests/test.h"

#include <stddef.h>

/* Started by a test; ended by stage_teardown(), also after a failure. */
extern struct fixture *fixture;
extern struct terminal *terminal;

int stage_teardown(void **state);

/* The instance of this test program. */
const char *stage_name(void);

void stage_fixture(void);
void stage_end_fixture(void);

/* Runs the console with MORE arguments. Both lists end with NULL and may be NULL. */
void stage_console(int rows, int columns, const char *const *more, const char *const *environment);
void stage_end_console(void);

/* Both. */
void stage_open(int rows, int columns, const char *const *more, const char *const *environment);

/* The same for random input: the console finds no other server. */
void stage_console_of_one_server(const char *const *more);

/* The same without -n: the console finds the servers whose names begin with stage_name(). */
void stage_console_without_name(int rows, int columns, const char *const *more);

/* The same as user nobody in the group of this process. Needs root. */
void stage_console_as_nobody(int rows, int columns);

/* Waits until all TEXTS are on the screen; fails with the first one missing. */
void stage_shows(const char *const *texts, size_t count);

/* Waits for the console to exit, and checks that it restored the terminal. */
void stage_ended_well(void);

#endif
