/*
 * A client of the control socket: one line of words out, one line of JSON back. Blocking with a
 * deadline for scripts; its descriptor may also be watched by an event loop. One thread at a time.
 */
#ifndef COMMON_CONTROL_CLIENT_H
#define COMMON_CONTROL_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

enum {
    CONTROL_LINE_MAX = 4096,         /* longest request line, with its newline, bytes */
    CONTROL_REPLY_MAX = 1024 * 1024, /* longest answer line, bytes */
    CONTROL_WORDS_MAX = 16,
};

struct control_client {
    int fd;       /* non-blocking; -1 when not connected */
    char *answer; /* what has come so far; owned by the client */
    size_t length, room;
};

enum control_result {
    CONTROL_REPLY,     /* *line is the answer, without its newline, valid until the next call */
    CONTROL_PENDING,   /* nothing whole yet */
    CONTROL_FAILED,    /* the daemon closed the connection or broke the protocol; WHY says */
    CONTROL_NO_DAEMON, /* nothing listens on that socket; WHY says */
    CONTROL_DENIED,    /* the socket's permissions keep this user out; WHY says */
};

/* Connects to the UNIX socket at PATH. Returns CONTROL_PENDING (ready to send), or why not. */
enum control_result control_connect(struct control_client *client, const char *path, char *why,
                                    size_t size);

/* Sends LINE and a newline. LINE has no newline and fits CONTROL_LINE_MAX. */
enum control_result control_send(struct control_client *client, const char *line, char *why,
                                 size_t size);

/* Takes what has arrived, waiting up to TIMEOUT_MS (0: not at all) for a whole line. */
enum control_result control_receive(struct control_client *client, int timeout_ms,
                                    const char **line, char *why, size_t size);

/* Closes and frees; may be called again. */
void control_close(struct control_client *client);

#endif
