/*
 * Runs wsload against a small server in the test process that counts the requests it reads, so that
 * a test can compare the report with the truth. The request path selects the behaviour:
 *
 *     /ok            200, keep-alive, "hello"        /close    200, then closes
 *     /missing       404                             /lost     closes without an response
 *     /second-lost   responds only to the first request of a connection
 *     /second-half   the same, but to the second one begins a response that it does not complete
 *     /short, /bad-chunk, /garbage                   malformed responses
 *     /long-length   200 with a Content-Length that fits no integer
 *     /surplus       200, keep-alive, followed by the same response again
 *     /surplus-chunked   200 in chunks, followed by other bytes
 *     /endless-head, /endless-line                   a head without an end
 *     /silent        no response                       /chunked  200, "hello" in chunks
 *     /stalling      200, but stalls for STALL_MS in every STALL_PERIOD_MS; its times are kept
 *     /gated         200, as soon as wsload_server_allow() permits it
 *     /slow          200, after five milliseconds
 *     anything else  200, keep-alive, "hello"
 *
 * Errors fail the running test. Single-threaded.
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
    STALL_AFTER_MS = 500, /* time from the first request to that path to the first stall */
    STALL_MS = 500,
    STALL_PERIOD_MS = 2500,
    KEPT_HEADS = 4096, /* number of requests whose heads the server keeps */
    KEPT_HEAD_BYTES = 512,
};

/* cmocka setup and teardown. */
int wsload_server_start(void **state);
int wsload_server_stop(void **state);

uint16_t wsload_server_port(void);
const char *wsload_server_socket(void); /* path of a UNIX socket of the same server */
uint64_t wsload_server_read(void);      /* requests so far */
uint64_t wsload_server_accepted(void);  /* connections so far */

/*
 * Times of a request to /stalling, monotonic. wsload sent it after READY_NS, and had its response
 * before NEXT_NS.
 */
struct stalling_request {
    uint64_t ready_ns;    /* before the previous response on the connection; 0: the first request */
    uint64_t arrived_ns;  /* after it was received */
    uint64_t answered_ns; /* before the response was sent */
    uint64_t next_ns;     /* after the next request on the connection, or its end */
};

/*
 * Waits until all times are known. Returns the requests in the order of arrival, and their number.
 */
const struct stalling_request *wsload_server_stalling(size_t *count);

/* Lets that many more requests to /gated pass. */
void wsload_server_allow(uint64_t requests);

/* Sends another response on the connection of the last request that was answered. */
void wsload_server_repeat(void);

/* Clears the kept heads and times; the next request has number 0. */
void wsload_server_clear(void);
uint64_t wsload_server_heads(void);
const char *wsload_server_head(
    uint64_t number); /* head and the part of the body received with it */

/* Binds a socket to a free loopback port without listening. Returns the socket and the port. */
int wsload_bind_anywhere(uint16_t *port);

/* A running wsload. */
struct program {
    pid_t pid;
    int out, err; /* standard output */
    int control;  /* standard input, for control lines */
};

extern const char *wsload_engine; /* $WSLOAD_ENGINE, else "curl", unless set */

extern rlim_t wsload_descriptor_limit; /* memory limit of wsload, if lower than ours */

/* Starts wsload --json with OPTIONS (which may begin with "sweep") and a URL of the server. */
struct program wsload_start(const char *options, uint16_t port, const char *path);

/* The same with a complete URL, or NULL for none. */
struct program wsload_start_url(const char *options, const char *url);

/* Waits for the exit. Returns the exit status, and the report or NULL. */
int wsload_wait(struct program program, json_t **report);

/* The same; the exit status must be STATUS. The caller owns the report. */
json_t *wsload_finish(struct program program, int status);

/* Runs to the end; the exit status must be STATUS. The caller owns the report. */
json_t *wsload_run(const char *options, const char *path, int status);

/*
 * The same for a run limited by time. On a busy machine it may end before the first request; its
 * exit status is then 2, otherwise 0.
 */
json_t *wsload_run_for_time(const char *options, uint16_t port, const char *path);

void wsload_say(struct program program, const char *line);

/* Reads the next JSON line from FD; a timeout fails the test. */
json_t *wsload_line(int fd);

/* The number MEMBER of the next progress line, without its fraction. */
json_int_t wsload_progress(struct program program, const char *member);

/* The number at "a.b" in REPORT, or 0. */
json_int_t number_at(const json_t *report, const char *outer, const char *inner);
double real_at(const json_t *report, const char *outer, const char *inner);
bool has_note(const json_t *report, const char *name);

#endif
