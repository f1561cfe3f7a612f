/*
 * A webserverd for one test with its own name, directory, port and shared memory, so that tests can
 * run in parallel.
 *
 * The test process is the subreaper (PR_SET_CHILD_SUBREAPER) of its servers. After a stop it checks
 * that no worker and no logger is left; after a failed test it kills the remaining processes.
 *
 * Errors fail the running test. Single-threaded.
 */
#ifndef TESTS_SERVER_H
#define TESTS_SERVER_H

#include "common/segment_reader.h"
#include "tests/test.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct control_client;
struct server;

/* cmocka setup: *state is a server with an empty site, not started. */
int server_set_up(void **state);

/* cmocka teardown: kills what a failed test left, prints the output of the daemon, and frees. */
int server_tear_down(void **state);

/* A TEST() with such a server, whose name in it is SERVER. */
#define SERVER_TEST(name)                                                                          \
    static void name##_with(struct server *server);                                                \
    TEST_WITH(name, server_set_up, server_tear_down)                                               \
    {                                                                                              \
        name##_with(*state);                                                                       \
    }                                                                                              \
    static void name##_with(struct server *server)

/* Writes a file of the site atomically. PATH begins with '/'. */
void server_put(const struct server *server, const char *path, const void *bytes, size_t length);
void server_put_text(const struct server *server, const char *path, const char *text);

/*
 * Puts COUNT files "PREFIX0", "PREFIX1" and so on with the same bytes. They are links to one file, because
 * creating many takes long. A cache holds the bytes of each path.
 */
void server_put_links(const struct server *server, const char *prefix, unsigned count,
                      const void *bytes, size_t length);

/*
 * Writes the configuration file atomically. If it exists, the server starts with it, plus only name
 * and run directory as options. Sections [server] with root and a free port, and [log] with the
 * access log, are added first unless FORMAT begins with "[server]".
 */
void server_write_config(struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *server_config_path(const struct server *server);

/* False if TEST_SERVER_OPTIONS gives all servers options, such as another model of the workers. */
bool server_has_own_model(void);

/*
 * Starts the server with options ("section.key=value", NULL-terminated) and waits until all threads
 * serve.
 */
void server_start(struct server *server, ...) __attribute__((sentinel));

/* The same, run by another program, whose arguments (NULL-terminated) come first. */
void server_start_under(struct server *server, const char *const *wrapper,
                        const char *const *options);

/*
 * Starts a webserverd with the name and run directory of SERVER that must fail. Returns its exit
 * status and its output in *PRINTED (the caller must free it). OPTIONS as above.
 */
int server_start_rejected(const struct server *server, char **printed, const char *const *options);

/* Fails the test if a segment, a file in the run directory, or a process of the server exists. */
void server_check_nothing_left(const struct server *server);

/* Stops the server and checks that it exits with status 0 and leaves nothing behind. */
void server_stop(struct server *server);

/* Waits for a stop that the test has begun, with the same checks. */
void server_stopped(struct server *server);

/* The path of its segment. */
void server_segment_path(const struct server *server, char *path, size_t size);

/* The same; the exit status must be STATUS. */
void server_stopped_with(struct server *server, int status);

/* After a SIGKILL of the master: waits until the master and all its processes are gone. */
void server_all_gone(struct server *server);

/* After the test has reaped the master: allows another start. */
void server_mark_stopped(struct server *server);

/* Sets the program for later starts; the default is the built webserverd. */
void server_use_program(struct server *server, const char *path);

/* After an upgrade: waits until a new master serves and the old one has exited with status 0. */
void server_succeeded(struct server *server);

pid_t server_pid(const struct server *server);
uint16_t server_port(const struct server *server);
/* Another port that leads to SERVER: server_port() returns it from now on. */
void server_set_port(struct server *server, uint16_t port);
const char *server_name(const struct server *server);
const char *server_directory(
    const struct server *server); /* directory of all files; the site is www/ */
const char *server_socket(const struct server *server);
const char *server_log(const struct server *server); /* path of the access log */

/* Output of the server so far. The caller must free it. */
char *server_output(const struct server *server);
bool server_has_printed(const struct server *server, const char *words);
int server_count_printed(const struct server *server, const char *words);
void server_clear_output(const struct server *server);

/* Sends a control line. Returns the reply; the caller owns it. */
json_t *server_control(const struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same; the reply must be ok, or an error that contains WORDS. */
void server_do(const struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void server_rejects(const struct server *server, const char *line, const char *words);

/* Sends LINE and does not wait for the reply. The caller closes CLIENT. */
void server_begin(const struct server *server, struct control_client *client, const char *line);

/* The total of a metric in `status`. */
uint64_t server_metric(const struct server *server, const char *name);

/* Waits until a metric reaches VALUE: requests are counted shortly after their responses. */
void server_expect_metric(const struct server *server, const char *name, uint64_t value);

/* Process ids of the serving workers from `status`. Returns their number (at most MOST). */
size_t server_workers(const struct server *server, pid_t *pids, size_t most);

/* Address space of a process in bytes. */
rlim_t server_address_space(pid_t pid);
pid_t server_logger(const struct server *server);

/* Process ids of the children of the master. Returns their number (at most MOST). */
size_t server_children(const struct server *server, pid_t *pids, size_t most);

/* Sends SIGNAL to a process of the server. PID must not be 0, which is the own process group. */
void server_signal(pid_t pid, int signal);

/* Sends SIGSTOP and waits until no thread of the process runs; SIGCONT lets it run again. */
void server_freeze(pid_t pid);

/* Attaches to its shared memory. The caller must detach. */
void server_attach(const struct server *server, struct segment_reader *reader);

/* Number of recent events whose text contains WORDS. */
int server_count_events(const struct segment_reader *reader, const char *words);

#endif
