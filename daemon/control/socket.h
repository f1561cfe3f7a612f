/*
 * The control socket: a server of lines. Each line of a client goes to a function of the owner,
 * whose reply is a line of JSON. A client gets its replies in order. The reply to a change is sent
 * when the change is in force; only that client waits. The server never waits for a client: unread
 * replies stay in a bounded buffer. The owner's event loop.
 */
#ifndef DAEMON_SOCKET_H
#define DAEMON_SOCKET_H

#include "common/control_client.h"
#include "common/macros.h"
#include "daemon/config/config.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <jansson.h>
#include <stdint.h>

enum {
    CONTROL_CLIENTS_MAX = 64,     /* more are refused with an error reply */
    CONTROL_CLIENTS_RESERVED = 2, /* so many places are only for root and the server's user */
};

struct control_socket;

/* A reply, or how to make it when the change is in force. */
struct control_reply {
    json_t *json; /* owned by the receiver; NULL without in_force(): out of memory */
    bool (*in_force)(void *owner, uint64_t token); /* NULL: the reply is ready */
    json_t *(*report)(void *owner, uint64_t token);
    uint64_t token;         /* argument of in_force() and report() */
    uint64_t wait_limit_ms; /* then the reply is an error */
};

/* Runs LINE, which it may change. UID and PID are those of the client. */
typedef struct control_reply control_run(void *owner, char *line, unsigned uid, int pid);

/*
 * Opens config->control_socket, or, if BESIDE, the same path with the suffix ".new". Returns NULL
 * with WHY.
 */
struct control_socket *control_socket_open(const struct config *config, bool beside,
                                           struct event_base *base, control_run *run, void *owner,
                                           char *why, size_t size);

/* Renames it to config->control_socket. Returns 0, or -1 with errno. */
int control_socket_promote(struct control_socket *control, const struct config *config);

/* Removes the ".new" socket of a new master that failed. */
void control_socket_remove_new(const struct config *config);

/* Applies the permissions of CONFIG. Returns 0, or -1 with WHY. */
int control_socket_set_access(const struct control_socket *control, const struct config *config,
                              char *why, size_t size);

/*
 * Sends the replies whose change is now in force. The socket also looks for them itself, but later.
 */
void control_socket_check(struct control_socket *control);

/* Closes it and all clients; with REMOVE also removes its file. NULL is allowed. */
void control_socket_close(struct control_socket *control, bool remove);

/* {"ok": false, "error": …}; NULL: out of memory. */
json_t *control_error(const char *format, ...) PRINTF_LIKE(1, 2);

/* The framing of lines */

enum control_line {
    CONTROL_LINE_INCOMPLETE, /* more bytes are needed */
    CONTROL_LINE_WHOLE,      /* *LINE is a line without its newline; the caller frees it */
    CONTROL_LINE_TOO_LONG,   /* CONTROL_LINE_MAX bytes or more without a newline */
    CONTROL_LINE_INVALID,    /* a line that is not UTF-8 or has a NUL byte; it was removed */
    CONTROL_LINE_NO_MEMORY,
};

/* Removes the next line, which ends in LF or CRLF, from INPUT. *LINE is NULL unless it is whole. */
enum control_line control_line_read(struct evbuffer *input, char **line);

#endif
