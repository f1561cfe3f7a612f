/*
 * The real wsload, and a small server in the test's process that counts the requests it reads, so that
 * what wsload reports can be held against what really came. The path of a request says how the server
 * (mis)behaves:
 *
 *     /ok            200, kept alive, "hello"        /close    200, and closes
 *     /missing       404                             /lost     closes without a word
 *     /second-lost   answers only the first request of a connection
 *     /short, /bad-chunk, /garbage                   answers that are none
 *     /silent        no answer                       /chunked  200, "hello" in chunks
 *     /stalling      200, but nothing moves for STALL_MS in every STALL_PERIOD_MS
 *     anything else  200, kept alive, "hello"
 *
 * Every function fails the running test when something goes wrong. One thread.
 */
#ifndef TESTS_WSLOAD_FIXTURE_H
#define TESTS_WSLOAD_FIXTURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

enum {
    PATIENCE_MS = 60000,
    STALL_AFTER_MS = 1000, /* from the first request on that path to the first stall */
    STALL_MS = 1000,
    STALL_PERIOD_MS = 5000,
    KEPT_HEADS = 4096, /* of how many requests the server keeps what they said */
    KEPT_HEAD_BYTES = 512,
};

/* cmocka set-up and tear-down of the server. */
int wsload_server_start(void **state);
int wsload_server_stop(void **state);

uint16_t wsload_server_port(void);
const char *wsload_server_socket(void); /* path of a UNIX socket of the same server */
uint64_t wsload_server_read(void);      /* requests so far */
uint64_t wsload_server_accepted(void);  /* connections so far */

/* Forgets the heads kept so far; the next request's is number 0. */
void wsload_server_forget(void);
uint64_t wsload_server_heads(void);
const char *wsload_server_head(uint64_t number); /* head, and what of the body came with it */

/* A socket on a free port of the loopback on which nobody listens, and that port. */
int wsload_bind_anywhere(uint16_t *port);

/* A running wsload. */
struct program {
    pid_t pid;
    int out, err; /* what it writes */
    int control;  /* its descriptor 0, to write lines to */
};

extern const char *wsload_engine;      /* that it uses: "curl" unless set */
extern rlim_t wsload_descriptor_limit; /* of wsload, where it is lower than ours */

/* Starts wsload --json with the words of OPTIONS (a sweep if they begin so) and a URL of the server. */
struct program wsload_start(const char *options, uint16_t port, const char *path);

/* The same with the whole URL, which may be NULL. */
struct program wsload_start_url(const char *options, const char *url);

/* Waits for the end. Returns the exit status and the report, NULL if there was none. */
int wsload_finish(struct program program, json_t **report);

/* Starts and finishes, and fails unless the exit status is STATUS. The caller owns the report. */
json_t *wsload_run(const char *options, const char *path, int status);

/*
 * The same where time ends the run, which on a busy machine may be before the first request: begun was
 * then none, and the exit status is 2, else 0.
 */
json_t *wsload_run_for_time(const char *options, uint16_t port, const char *path);

void wsload_say(struct program program, const char *line);

/* The next line of JSON from FD; fails the test when none comes for long. */
json_t *wsload_line(int fd);

/* The number at "a.b" in REPORT; 0 where there is none. */
json_int_t number_at(const json_t *report, const char *outer, const char *inner);
double real_at(const json_t *report, const char *outer, const char *inner);
bool has_note(const json_t *report, const char *name);

#endif
