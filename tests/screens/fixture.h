/*
 * A stand-in for the daemon: real shared memory with known contents, and a control socket that
 * answers `threads`. Its one thread beats the heart, answers, and, when driven, serves imaginary
 * requests at a steady pace.
 *
 * What it shows when not driven: two workers of two threads; the n-th thread (1 to 4) has answered
 * 1000 n requests and has n connections open; a history of FIXTURE_SECONDS seconds with
 * 100 requests a second, except for one second with 5000; FIXTURE_LINES log lines for "/page-N".
 */
#ifndef TESTS_SCREENS_FIXTURE_H
#define TESTS_SCREENS_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FIXTURE_WORKERS = 2,
    FIXTURE_THREADS = 2, /* in each worker, at first */
    FIXTURE_SECONDS = 120,
    FIXTURE_PEAK_BACK = 30, /* seconds between the peak and the newest sample */
    FIXTURE_LINES = 40,
};

struct fixture;

/* Creates segment and socket for the instance NAME and starts the thread. NULL after a message. */
struct fixture *fixture_start(const char *name, bool driven);

/* Stops in order: the segment is marked and goes, so does the socket. */
void fixture_stop(struct fixture *fixture);

/* While held, commands are read but not answered. Any thread. */
void fixture_hold_answers(struct fixture *fixture, bool hold);

/* Commands that came. Any thread. */
unsigned fixture_commands(const struct fixture *fixture);

const char *fixture_socket(const struct fixture *fixture);

#endif
