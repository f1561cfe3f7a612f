/*
 * A fake daemon: real shared memory with known contents, and a control socket that implements
 * `threads`. One thread updates the heartbeat, replies, and, when driven, simulates requests at a
 * constant rate.
 *
 * Contents when not driven: two workers with two threads each; thread n (1 to 4) answered 1000 n
 * requests and has n open connections; a history of FIXTURE_SECONDS seconds with 100 requests per
 * second and one second with 5000; FIXTURE_LINES log lines for "/page-N".
 */
#ifndef TESTS_SCREENS_FIXTURE_H
#define TESTS_SCREENS_FIXTURE_H

#include "common/tables.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    FIXTURE_WORKERS = 2,
    FIXTURE_THREADS = 2, /* per worker, initially */
    FIXTURE_SECONDS = 120,
    FIXTURE_PEAK_BACK = 30, /* seconds between the peak and the newest sample */
    FIXTURE_LINES = 40,
};

struct fixture;

/*
 * Creates segment and socket of the instance NAME and starts the thread. Returns NULL after an
 * error message.
 */
struct fixture *fixture_start(const char *name, bool driven);

/* Clean stop: marks and removes the segment, removes the socket. */
void fixture_stop(struct fixture *fixture);

/*
 * Makes it a server of the model pool: thread 0 of each worker accepts and is blocked, because
 * worker 0 has a full queue of 8 places, whose oldest connection has waited AGE_S seconds.
 */
void fixture_make_pool(struct fixture *fixture, unsigned age_s);

/* Logs a change of the master, SECONDS before now. */
void fixture_log_event(struct fixture *fixture, unsigned seconds, const char *text);

/* Adds MORE to METRIC, in the first block of its scope. */
void fixture_add(struct fixture *fixture, enum metric metric, uint64_t more);

/*
 * Adds a certificate for NAMES of 90 days, of which LEFT_S seconds are left; the server has failed
 * FAILURES times to renew it, the last time with ERROR.
 */
void fixture_add_certificate(struct fixture *fixture, const char *names, int64_t left_s,
                             unsigned failures, const char *error);

/* Thread 0.0 of a fixture that is not driven logs COUNT requests. */
void fixture_log_requests(struct fixture *fixture, unsigned count);

/*
 * Records SECONDS moments, one a second from now on, into the new file PATH: the fixture, which is not
 * driven, answers requests; worker 1 dies in second 20, and the threads become 3 in second 40.
 */
void fixture_record(struct fixture *fixture, const char *path, unsigned seconds);

/* While held, commands are read but not answered. Thread-safe. */
void fixture_hold_answers(struct fixture *fixture, bool hold);

/* Number of commands received. Thread-safe. */
unsigned fixture_commands(const struct fixture *fixture);

const char *fixture_socket(const struct fixture *fixture);

#endif
