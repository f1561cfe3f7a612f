/*
 * One end of a UNIX socketpair between master and worker: messages with at most one descriptor
 * each, in order, both ways. Sending never blocks: what the socket does not take waits in a queue.
 * Each worker has two: one for commands, one for connections, so that a full one never delays the
 * other. One thread, the one whose event base it was opened with.
 */
#ifndef DAEMON_CHANNEL_H
#define DAEMON_CHANNEL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHANNEL_PAYLOAD_MAX = 64 * 1024 }; /* bytes of a message behind its kind */

struct channel;

/* DATA is valid during the call; FD (-1: none) is the callee's to close. */
typedef void channel_taker(void *owner, int kind, const void *data, size_t length, int fd);

struct channel_owner {
    channel_taker *message;       /* a message came; it must not close the channel in here */
    void (*closed)(void *owner);  /* the other end is gone; no call follows */
    void (*drained)(void *owner); /* the queue became empty again after a wait; may be NULL */
    void *owner;
};

/* A connected pair of sockets for two channels. Returns 0, or -1 with errno. */
int channel_pair(int fds[2]);

/* Takes FD over, also when it fails: NULL, out of memory or descriptors. */
struct channel *channel_open(struct event_base *base, int fd, const struct channel_owner *owner);
void channel_close(struct channel *channel);

/*
 * Sends or queues a message. FD (or -1) is sent along; with GIVE it is closed once it has been sent
 * (or the channel is closed). Returns -1 with errno ENOMEM, EMSGSIZE, or EPIPE when the other end is
 * gone: then nothing was taken.
 */
int channel_send(struct channel *channel, int kind, const void *data, size_t length, int fd,
                 bool give);

/* Delivers all messages that have arrived, though the other end may be gone already. */
void channel_read_all(struct channel *channel);

/* Hands what waits in the queue to TAKE instead of sending it, each with its own descriptor (a
 * given one, else -1). */
void channel_take_unsent(struct channel *channel, channel_taker *take);

/* Messages that wait in the queue: back-pressure for whoever has a choice. */
size_t channel_backlog(const struct channel *channel);

/* True once the other end is known to be gone: nothing more can be sent. */
bool channel_is_broken(const struct channel *channel);

/* Stops or resumes reading; the other end's queue then fills. */
void channel_set_reading(struct channel *channel, bool reading);

#endif
