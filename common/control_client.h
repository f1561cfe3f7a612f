/*
 * Client of the control socket: sends a command line, receives a line of JSON. Calls block up to a
 * timeout; the descriptor may also be polled by an event loop. One thread at a time.
 */
#ifndef COMMON_CONTROL_CLIENT_H
#define COMMON_CONTROL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

enum {
    CONTROL_LINE_MAX = 4096,         /* longest command line in bytes, newline included */
    CONTROL_REPLY_MAX = 1024 * 1024, /* longest reply line in bytes */
    CONTROL_WORDS_MAX = 16,
};

struct control_client {
    int fd;      /* non-blocking; -1 when not connected */
    char *reply; /* bytes received so far; owned by the client */
    size_t length, capacity;
};

enum control_result {
    CONTROL_REPLY,     /* *line is the reply without its newline, valid until the next call */
    CONTROL_PENDING,   /* no complete reply yet */
    CONTROL_FAILED,    /* the connection was closed or the reply is too long; see WHY */
    CONTROL_NO_DAEMON, /* nothing listens on the socket; see WHY */
    CONTROL_DENIED,    /* no permission to connect, or a server of another user; see WHY */
};

/*
 * Connects to the UNIX socket PATH, whose server must run as root or as this user. Returns
 * CONTROL_PENDING when ready to send.
 */
enum control_result control_connect(struct control_client *client, const char *path, char *why,
                                    size_t size);

/*
 * Sends LINE and a newline. LINE contains no newline and fits CONTROL_LINE_MAX. If the server has
 * closed the connection, control_receive() returns its last reply or fails.
 */
enum control_result control_send(struct control_client *client, const char *line, char *why,
                                 size_t size);

/* Receives; waits up to TIMEOUT_MS (0: does not wait) for a complete line. */
enum control_result control_receive(struct control_client *client, int timeout_ms,
                                    const char **line, char *why, size_t size);

/* Closes and frees. May be called twice. */
void control_close(struct control_client *client);

#endif
