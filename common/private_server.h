/*
 * A webserverd of one's own, for an experiment: it has a name, a folder, a port and shared memory that
 * no other has, listens on the loopback only, needs no privilege, and leaves nothing behind. It is the
 * leader of a process group, so that Ctrl-C reaches only whoever started it; when that one dies, it
 * ends too. One thread: the one that starts it, which has to stay.
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
 * Makes its folder below $TMPDIR or /tmp, with an empty site in it; nothing is started. PROGRAM NULL is
 * the webserverd beside this program or in its ../sbin, else the one in PATH. Returns NULL with WHY.
 */
struct private_server *private_server_create(const char *program, char *why, size_t size);

/*
 * Writes its configuration file, whole, by a rename: for the next start, or for a `reload`. Its name,
 * folders, address, and all OPTIONS of the start prevail over it. Returns 0, or -1 with WHY.
 */
int private_server_configure(const struct private_server *server, const char *text, char *why,
                             size_t size);

/*
 * Starts it with OPTIONS ("section.key=value", ended by NULL), which prevail over the ones above, and
 * waits until all threads serve. Returns 0, or -1 with WHY: nothing runs then. It may be started again
 * after private_server_stop().
 */
int private_server_start(struct private_server *server, const char *const *options, char *why,
                         size_t size);

/* From its next start on it runs on CORE only; below 0: on all that this process may use. */
void private_server_use_core(struct private_server *server, int core);

/* Whether it still runs: false when it was not started, or has ended by itself, and is then reaped. */
bool private_server_runs(struct private_server *server);

/* Ends it and waits for its end: in order, and after some seconds by force. */
void private_server_stop(struct private_server *server);

/* The same, and removes all that is left of it. NULL is allowed. */
void private_server_destroy(struct private_server *server);

/* What it is called, and where its things are. Of one that runs: port, process id of the master. */
const char *private_server_name(const struct private_server *server);
const char *private_server_directory(const struct private_server *server);
const char *private_server_root(const struct private_server *server);
const char *private_server_socket(const struct private_server *server);
uint16_t private_server_port(const struct private_server *server);
pid_t private_server_pid(const struct private_server *server);

/*
 * Sends a control line and waits for its answer, which the caller owns. Returns NULL with WHY when there
 * is none, or when it is a refusal.
 */
json_t *private_server_command(const struct private_server *server, const char *line, char *why,
                               size_t size);

/* Writes a file of the site. PATH begins with '/'; its folders are made. Returns 0, or -1 with WHY. */
int private_server_put(const struct private_server *server, const char *path, const void *bytes,
                       size_t length, char *why, size_t size);

#endif
