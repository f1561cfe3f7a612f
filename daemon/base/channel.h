/*
 * One end of a UNIX socketpair between the master and a child: messages in order, both ways, each
 * with at most one descriptor. Sending never blocks: messages that do not fit the socket are
 * queued. A worker has two channels, for commands and for connections, so that a full one does not
 * delay the other; the logger has one. Used by one thread: that of its event base.
 *
 * The other end may be hostile. Only messages that messages.def allows are delivered, with no
 * descriptor but theirs; at the first other one the channel stops for good.
 */
#ifndef DAEMON_CHANNEL_H
#define DAEMON_CHANNEL_H

#include "daemon/base/messages.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHANNEL_PAYLOAD_MAX = 64 * 1024 }; /* bytes after its kind; every message has fewer */

/* rate_max of a child that reports what seldom happens: many times what it needs. */
enum { CHANNEL_REPORTS_MAX = 5000 };

struct channel;

/*
 * DATA is valid during the call; the callee must close FD (-1: none, or lost because this process
 * is out of descriptors).
 */
typedef void channel_handler(void *owner, int kind, const void *data, size_t length, int fd);

struct channel_owner {
    channel_handler *message;     /* a message arrived; must not close the channel */
    void (*closed)(void *owner);  /* the other end is closed; no further callbacks */
    void (*drained)(void *owner); /* the queue is empty again; may be NULL */
    /*
     * Before each message: false if the owner has no memory for one. It stays in the socket, and
     * the channel tries again soon. May be NULL.
     */
    bool (*ready)(void *owner);
    /*
     * This process has no room for the descriptor of the next message, which stays as well. NULL:
     * the message is delivered without it.
     */
    void (*no_descriptor)(void *owner);
    /*
     * WHAT the other end did: "sent a message of unknown kind", "does not read its messages". No
     * further callbacks; the callee must not close the channel.
     */
    void (*fault)(void *owner, const char *what);
    void *owner;
    size_t queue_max;  /* bytes queued here before the other end has a fault; 0: no limit */
    uint32_t rate_max; /* messages received in a second before it has one; 0: no limit */
};

/* Creates a connected pair of sockets for two channels. Returns 0, or -1 with errno. */
int channel_pair(int fds[2]);

/*
 * Receives messages of the route RECEIVES and sends those of the opposite one. Takes ownership of
 * FD, even on failure. NULL: out of memory or descriptors.
 */
struct channel *channel_open(struct event_base *base, int fd, enum message_route receives,
                             const struct channel_owner *owner);
void channel_close(struct channel *channel);

/*
 * Sends or queues a message, with the descriptor FD unless it is -1. If GIVE, the channel owns FD
 * and closes it after sending. Returns 0; or -1 with errno ENOMEM, or EPIPE if the other end is
 * closed or has a fault; on failure FD remains the caller's.
 */
int channel_send(struct channel *channel, int kind, const void *data, size_t length, int fd,
                 bool give);

/* Calls the owner's fault(WHAT): a message is valid, but not at this time. Stops the channel. */
void channel_fail(struct channel *channel, const char *what);

/* Delivers all messages that have arrived, even if the other end is closed already. */
void channel_read_all(struct channel *channel);

/*
 * Passes the queued messages to HANDLE instead of sending them. Their descriptor is -1 unless it
 * was sent with GIVE.
 */
void channel_take_unsent(struct channel *channel, channel_handler *handle);

/* Number of queued messages, for back-pressure. */
size_t channel_backlog(const struct channel *channel);

/* Number of messages sent, or queued to be sent, and number delivered. */
uint64_t channel_sent(const struct channel *channel);
uint64_t channel_received(const struct channel *channel);

/* True once the other end is known to be closed or has a fault; then nothing more can be sent. */
bool channel_is_broken(const struct channel *channel);

/* Stops or resumes reading. While stopped, messages queue at the other end. */
void channel_set_reading(struct channel *channel, bool reading);

#endif
