/*
 * One end of a UNIX socketpair between master and worker: messages in order, both ways, each with
 * at most one descriptor. Sending never blocks: messages that do not fit the socket are queued.
 * Each worker has two channels, for commands and for connections, so that a full one does not delay
 * the other. Used by one thread: that of its event base.
 */
#ifndef DAEMON_CHANNEL_H
#define DAEMON_CHANNEL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHANNEL_PAYLOAD_MAX = 64 * 1024 }; /* bytes of a message after its kind */

struct channel;

/* DATA is valid during the call; the callee must close FD (-1: none). */
typedef void channel_handler(void *owner, int kind, const void *data, size_t length, int fd);

struct channel_owner {
    channel_handler *message;     /* a message arrived; must not close the channel */
    void (*closed)(void *owner);  /* the other end is closed; no further callbacks */
    void (*drained)(void *owner); /* the queue is empty again; may be NULL */
    void *owner;
};

/* Creates a connected pair of sockets for two channels. Returns 0, or -1 with errno. */
int channel_pair(int fds[2]);

/* Takes ownership of FD, even on failure. NULL: out of memory or descriptors. */
struct channel *channel_open(struct event_base *base, int fd, const struct channel_owner *owner);
void channel_close(struct channel *channel);

/*
 * Sends or queues a message, with the descriptor FD unless it is -1. If GIVE, the channel owns FD
 * and closes it after sending. Returns 0; or -1 with errno ENOMEM, EMSGSIZE, or EPIPE if the other
 * end is closed; on failure FD remains the caller's.
 */
int channel_send(struct channel *channel, int kind, const void *data, size_t length, int fd,
                 bool give);

/* Delivers all messages that have arrived, even if the other end is closed already. */
void channel_read_all(struct channel *channel);

/*
 * Passes the queued messages to HANDLE instead of sending them. Their descriptor is -1 unless it
 * was sent with GIVE.
 */
void channel_take_unsent(struct channel *channel, channel_handler *handle);

/* Number of queued messages, for back-pressure. */
size_t channel_backlog(const struct channel *channel);

/* True once the other end is known to be closed; then nothing more can be sent. */
bool channel_is_broken(const struct channel *channel);

/* Stops or resumes reading. While stopped, messages queue at the other end. */
void channel_set_reading(struct channel *channel, bool reading);

#endif
