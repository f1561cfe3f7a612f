/*
 * A private webserverd for experiments: its name, directory, port and shared memory are unique,
 * it listens on the loopback address only, needs no privileges and leaves no files behind, even if
 * this process is killed: a child process then removes them (private_server_guard.h). It leads its
 * own process group, so that Ctrl-C does not reach it, and ends when the thread that started it
 * ends. All calls from that thread.
 */
#ifndef COMMON_PRIVATE_SERVER_H
#define COMMON_PRIVATE_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct private_server;

enum { PRIVATE_SERVER_PATH = 256, PRIVATE_SERVER_WHY = 512 };

/*
 * Creates its directory in $TMPDIR or /tmp with an empty document root; starts nothing. PROGRAM
 * NULL: the webserverd in the directory of this program or its ../sbin, else in PATH. Returns NULL
 * with WHY.
 */
struct private_server *private_server_create(const char *program, char *why, size_t size);

/*
 * Replaces its configuration file atomically, for the next start or reload. Name, directories,
 * address and the OPTIONS of the start override it. Returns 0, or -1 with WHY.
 */
int private_server_configure(const struct private_server *server, const char *text, char *why,
                             size_t size);

/*
 * Starts it with OPTIONS ("section.key=value", NULL-terminated), which override all other
 * settings, and waits until all threads serve. Returns 0, or -1 with WHY if it does not run. May be
 * called again after private_server_stop().
 */
int private_server_start(struct private_server *server, const char *const *options, char *why,
                         size_t size);

/*
 * Writes a self-signed certificate and its key, localhost.pem and localhost.key, into its
 * directory. Returns 0, or -1 with WHY.
 */
int private_server_certify(const struct private_server *server, char *why, size_t size);

/* Sets the CPU core of later starts; negative: all cores available to this process. */
void private_server_use_core(struct private_server *server, int core);

/* True if it runs; reaps it if it has exited. */
bool private_server_runs(struct private_server *server);

/* Stops it and waits: SIGTERM, another after a second, SIGKILL after 30 more. */
void private_server_stop(struct private_server *server);

/* Stops it, removes its directory and frees SERVER, which may be NULL. */
void private_server_destroy(struct private_server *server);

/* Name and paths; port and master pid are 0 if it does not run. */
const char *private_server_name(const struct private_server *server);
const char *private_server_directory(const struct private_server *server);
const char *private_server_root(const struct private_server *server);
const char *private_server_socket(const struct private_server *server);
uint16_t private_server_port(const struct private_server *server);
pid_t private_server_pid(const struct private_server *server);

/*
 * Sends a command and returns the reply, which the caller owns; NULL with WHY if there is none or
 * the command failed.
 */
json_t *private_server_command(const struct private_server *server, const char *line, char *why,
                               size_t size);

/*
 * Writes a file below the document root; PATH starts with '/'. Creates directories. 0, or -1 with
 * WHY.
 */
int private_server_put(const struct private_server *server, const char *path, const void *bytes,
                       size_t length, char *why, size_t size);

#endif
