/*
 * A real webserverd for one test: its own name, folder, port and shared memory, so that any number
 * of tests may run beside each other.
 *
 * The test process adopts whatever its servers leave behind (PR_SET_CHILD_SUBREAPER): after a stop
 * it can tell that no worker and no logger is left, and after a failed test it can end them.
 *
 * Every function fails the running test when something goes wrong. One thread.
 */
#ifndef TESTS_SERVER_H
#define TESTS_SERVER_H

#include "common/segment_reader.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct server;

/* A cmocka set-up: *state becomes a server that is not started, with an empty site. */
int server_set_up(void **state);

/* The tear-down: ends what a failed test left, printing what the daemon had said; frees. */
int server_tear_down(void **state);

/* Writes a file of the site, whole, replacing the one before by a rename. PATH begins with '/'. */
void server_put(const struct server *server, const char *path, const void *bytes, size_t length);
void server_put_text(const struct server *server, const char *path, const char *text);

/*
 * Writes the configuration file, whole, by a rename. Once it is there, the server starts with it and
 * is told nothing but its name and run directory beside it. Sections [server] with root and a free
 * port, and [log] with the access log, come first unless FORMAT begins with "[server]".
 */
void server_write_config(struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *server_config_path(const struct server *server);

/* Starts with these options ("section.key=value", ended by NULL) and waits until all serve. */
void server_start(struct server *server, ...) __attribute__((sentinel));

/* The same, run by another program, whose words (ended by NULL) come first on the command line. */
void server_start_under(struct server *server, const char *const *wrapper,
                        const char *const *options);

/*
 * Starts a webserverd of SERVER's name and run directory that is expected to refuse; its exit status
 * is returned and what it printed is in *SAID (the caller frees). OPTIONS as above.
 */
int server_start_refused(const struct server *server, char **said, const char *const *options);

/* Fails the test if there is a segment of its name, a file in its run directory, or a process. */
void server_check_nothing_left(const struct server *server);

/* Tells it to stop and checks that it ends with status 0 and leaves nothing. */
void server_stop(struct server *server);

/* Waits for the end that was asked for in another way, and checks the same. */
void server_stopped(struct server *server);

/* After a SIGKILL of the master: waits until it and all that it had started are gone. */
void server_all_gone(struct server *server);

/* After the test has seen the master's end itself: the server can be started again. */
void server_forget(struct server *server);

/* Starts this program from now on, instead of the one that was built. */
void server_use_program(struct server *server, const char *path);

/* After an upgrade: waits until the master is another one, and the one before has ended in order. */
void server_succeeded(struct server *server);

pid_t server_pid(const struct server *server);
uint16_t server_port(const struct server *server);
const char *server_name(const struct server *server);
const char *server_folder(const struct server *server); /* of all its files; the site is www/ */
const char *server_socket(const struct server *server);
const char *server_log(const struct server *server); /* path of the access log */

/* What it has printed so far. The caller frees. */
char *server_output(const struct server *server);
void server_clear_output(const struct server *server);

/* Sends a control line and returns its answer, which the caller owns. */
json_t *server_control(const struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same where the answer has to be "ok", and where it has to be a refusal that says WORDS. */
void server_do(const struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void server_refuses(const struct server *server, const char *line, const char *words);

/* A metric's sum as `status` has it. */
uint64_t server_metric(const struct server *server, const char *name);

/* Waits until a metric has become VALUE: a request is counted just behind its answer. */
void server_expect_metric(const struct server *server, const char *name, uint64_t value);

/* The process ids of the workers that serve, by `status`; returns how many (at most MOST). */
size_t server_workers(const struct server *server, pid_t *pids, size_t most);
pid_t server_logger(const struct server *server);

/* Sends SIGNAL to one process of a server, which must be there (0 would mean this process too). */
void server_signal(pid_t pid, int signal);

/* Its shared memory. The caller detaches. */
void server_attach(const struct server *server, struct segment_reader *reader);

#endif
