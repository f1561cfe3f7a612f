#include "daemon/base/channel.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READS_PER_EVENT = 64, /* a busy channel must not starve the rest of the loop */
    RETRY_MS = 20,        /* after ENOBUFS or ENOMEM, which give no wake-up */
    /* All that a message can carry (SCM_MAX_FD of the kernel), so that the kernel drops none. */
    DESCRIPTORS_MAX = 253,
    CREDENTIALS_BYTES = 512, /* control data that the other end may switch on, and that we ignore */
};

struct message {
    STAILQ_ENTRY(message) link;
    int fd;
    bool give;
    size_t data_length;
    struct {
        int64_t kind; /* 64 bits, so that data is aligned for any struct */
        char data[];
    } body;
};

struct channel {
    int fd;
    enum message_route receives;
    struct channel_owner owner;
    struct event *readable, *writable;
    struct event *read_again, *write_again; /* timers */
    STAILQ_HEAD(, message) queue;
    size_t queued, queued_bytes;
    uint64_t sent, received;
    uint64_t second_began_ns; /* of the count for rate_max */
    uint32_t received_in_second;
    bool broken; /* the other end is closed or has a fault: nothing can be sent */
    bool ended;  /* nothing more is received */
    _Alignas(8) char buffer[sizeof(int64_t) + CHANNEL_PAYLOAD_MAX];
};

static const struct timeval rest = {.tv_sec = 86400}; /* for a timer that is not needed now */

static void on_channel_readable(evutil_socket_t fd, short what, void *argument);
static void on_channel_writable(evutil_socket_t fd, short what, void *argument);
static void on_read_again(evutil_socket_t fd, short what, void *argument);

int channel_pair(int fds[2])
{
    int bytes = 1024 * 1024;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        return -1;
    for (int i = 0; i < 2; i++)
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    return 0;
}

struct channel *channel_open(struct event_base *base, int fd, enum message_route receives,
                             const struct channel_owner *owner)
{
    struct channel *channel = malloc(sizeof(*channel));

    if (channel == NULL) {
        close(fd);
        return NULL;
    }
    memset(channel, 0, offsetof(struct channel, buffer)); /* most channels use few of its pages */
    channel->fd = fd;
    channel->receives = receives;
    channel->owner = *owner;
    STAILQ_INIT(&channel->queue);
    channel->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_channel_readable, channel);
    channel->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_channel_writable, channel);
    channel->read_again = event_new(base, -1, EV_PERSIST, on_read_again, channel);
    channel->write_again = event_new(base, -1, EV_PERSIST, on_channel_writable, channel);
    if (channel->readable == NULL || channel->writable == NULL || channel->read_again == NULL ||
        channel->write_again == NULL || event_add(channel->read_again, &rest) != 0 ||
        event_add(channel->write_again, &rest) != 0 || event_add(channel->readable, NULL) != 0) {
        channel_close(channel);
        return NULL;
    }
    return channel;
}

static void message_free(struct message *message)
{
    if (message->give)
        close(message->fd);
    free(message);
}

/* Removes the first message of the queue; NULL: there is none. */
static struct message *dequeue(struct channel *channel)
{
    struct message *message = STAILQ_FIRST(&channel->queue);

    if (message == NULL)
        return NULL;
    STAILQ_REMOVE_HEAD(&channel->queue, link);
    channel->queued--;
    channel->queued_bytes -= sizeof(*message) + message->data_length;
    return message;
}

void channel_close(struct channel *channel)
{
    struct message *message;

    if (channel == NULL)
        return;
    while ((message = dequeue(channel)) != NULL)
        message_free(message);
    loop_free_event(channel->readable);
    loop_free_event(channel->writable);
    loop_free_event(channel->read_again);
    loop_free_event(channel->write_again);
    close(channel->fd);
    free(channel);
}

/* Returns 0, or an errno. */
static int send_message_now(struct channel *channel, int64_t kind, const void *data, size_t length,
                            int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec body[] = {{&kind, sizeof(kind)}, {(void *)(uintptr_t)data, length}};
    struct msghdr header = {.msg_iov = body, .msg_iovlen = 2};

    if (fd >= 0) {
        struct cmsghdr *rights;

        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &fd, sizeof(int));
    }
    /*
     * MSG_DONTWAIT, because a worker could make a socket blocking that the master shares with it.
     */
    return sendmsg(channel->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ? 0 : errno;
}

static bool is_temporary(int error)
{
    return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == ETOOMANYREFS ||
           error == EINTR;
}

/* The timers are pending from the start, so that a change needs no memory. */

static void start_retry(struct event *timer)
{
    static const struct timeval delay = {.tv_usec = RETRY_MS * 1000};

    event_add(timer, &delay);
}

static void stop_retry(struct event *timer)
{
    event_add(timer, &rest);
}

static void watch_readable(struct channel *channel)
{
    if (event_add(channel->readable, NULL) != 0)
        start_retry(channel->read_again);
}

/* A full socket becomes writable again; ENOBUFS and ENOMEM give no wake-up, so retry on a timer. */
static void wait_to_write(struct channel *channel, int error)
{
    if ((error == EAGAIN || error == EINTR) && event_add(channel->writable, NULL) == 0)
        return;
    event_del(channel->writable);
    start_retry(channel->write_again);
}

/* Nothing more is sent. The other end learns of it when it has read what has arrived. */
static void break_off(struct channel *channel)
{
    channel->broken = true;
    shutdown(channel->fd, SHUT_WR);
}

/* Stops the channel for good; the socket is closed by channel_close(). */
static void stop_channel(struct channel *channel)
{
    break_off(channel);
    channel->ended = true;
    event_del(channel->readable);
    event_del(channel->read_again);
    event_del(channel->writable);
    event_del(channel->write_again);
}

void channel_fail(struct channel *channel, const char *what)
{
    stop_channel(channel);
    channel->owner.fault(channel->owner.owner, what);
}

/* Allocates only if the socket is full, so that MESSAGE_STOP can be sent without memory. */
int channel_send(struct channel *channel, int kind, const void *data, size_t length, int fd,
                 bool give)
{
    struct message *message;
    size_t bytes = sizeof(*message) + length;
    int failed = 0;

    assert(length <= CHANNEL_PAYLOAD_MAX);
    assert(message_fault(message_route_back(channel->receives), kind, data, length, fd >= 0) ==
           NULL);
    if (channel->broken) {
        errno = EPIPE;
        return -1;
    }
    if (channel->queued == 0) {
        failed = send_message_now(channel, kind, data, length, fd);
        if (failed == 0) {
            channel->sent++;
            if (give && fd >= 0)
                close(fd);
            return 0;
        }
        if (!is_temporary(failed)) {
            break_off(channel);
            errno = EPIPE;
            return -1;
        }
    }
    if (channel->owner.queue_max > 0 && channel->queued_bytes + bytes > channel->owner.queue_max) {
        channel_fail(channel, "does not read its messages");
        errno = EPIPE;
        return -1;
    }
    message = malloc(bytes);
    if (message == NULL)
        return -1;
    message->fd = fd;
    message->give = give && fd >= 0;
    message->data_length = length;
    message->body.kind = kind;
    if (length > 0)
        memcpy(message->body.data, data, length);
    if (channel->queued == 0)
        wait_to_write(channel, failed);
    STAILQ_INSERT_TAIL(&channel->queue, message, link);
    channel->queued++;
    channel->queued_bytes += bytes;
    channel->sent++;
    return 0;
}

static void on_channel_writable(evutil_socket_t fd, short what, void *argument)
{
    struct channel *channel = argument;
    struct message *message;

    (void)fd;
    if ((what & EV_TIMEOUT) != 0)
        stop_retry(channel->write_again);
    while ((message = STAILQ_FIRST(&channel->queue)) != NULL) {
        int failed = send_message_now(channel, message->body.kind, message->body.data,
                                      message->data_length, message->fd);

        if (is_temporary(failed)) {
            wait_to_write(channel, failed);
            return;
        }
        if (failed != 0) { /* the messages stay in the queue, for channel_take_unsent() */
            break_off(channel);
            event_del(channel->writable);
            return;
        }
        message_free(dequeue(channel));
    }
    event_del(channel->writable);
    if (channel->owner.drained != NULL)
        channel->owner.drained(channel->owner.owner);
}

/* The descriptors that came with a message. */
struct descriptors {
    int fd[DESCRIPTORS_MAX];
    size_t count;
    bool lost; /* others were sent, too, but this process is out of descriptors */
};

/* SCM_PIDFD (Linux 6.5) comes if the other end has set SO_PASSPIDFD on a socket that we share. */
enum { CONTROL_PIDFD = 4 };

static void close_received(const struct descriptors *descriptors)
{
    for (size_t i = 0; i < descriptors->count; i++)
        close(descriptors->fd[i]);
}

static void take_descriptors(struct msghdr *header, struct descriptors *descriptors)
{
    descriptors->count = 0;
    descriptors->lost = (header->msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item != NULL;
         item = CMSG_NXTHDR(header, item)) {
        size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        int pidfd;

        if (item->cmsg_level != SOL_SOCKET)
            continue;
        if (item->cmsg_type == CONTROL_PIDFD) {
            memcpy(&pidfd, CMSG_DATA(item), sizeof(pidfd));
            close(pidfd);
        } else if (item->cmsg_type == SCM_RIGHTS) {
            memcpy(&descriptors->fd[descriptors->count], CMSG_DATA(item), count * sizeof(int));
            descriptors->count += count;
        }
    }
}

/* Receives into the buffer, with FLAGS of recvmsg(2). Returns its length or -1 with errno. */
static ssize_t receive_bytes(struct channel *channel, int flags, struct descriptors *descriptors)
{
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int)) + CREDENTIALS_BYTES];
        struct cmsghdr align;
    } control;
    struct iovec body = {channel->buffer, sizeof(channel->buffer)};
    struct msghdr header = {.msg_iov = &body,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(channel->fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT | flags);

    if (got < 0)
        return -1;
    take_descriptors(&header, descriptors);
    return got;
}

static void receive_later(struct channel *channel)
{
    event_del(channel->readable);
    start_retry(channel->read_again);
}

/* Drops the first message of the socket. Returns false with errno if that is impossible. */
static bool drop_first(const struct channel *channel)
{
    ssize_t got;
    char byte;

    do
        got = recv(channel->fd, &byte, sizeof(byte), MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    return got >= 0;
}

/*
 * A message that is received without its descriptor has lost it. So look at it first: that yields
 * the descriptor, too. Returns like receive_bytes(); EMFILE: the message stays.
 */
static ssize_t receive_whole(struct channel *channel, struct descriptors *descriptors)
{
    ssize_t got;

    if (channel->owner.no_descriptor == NULL)
        return receive_bytes(channel, 0, descriptors);
    got = receive_bytes(channel, MSG_PEEK, descriptors);
    if (got > 0 && descriptors->lost) {
        close_received(descriptors);
        errno = EMFILE;
        return -1;
    }
    if (got > 0 && !drop_first(channel)) { /* it would arrive twice */
        close_received(descriptors);
        return -1;
    }
    return got;
}

static bool exceeds_rate(struct channel *channel)
{
    uint64_t now_ns;

    if (channel->owner.rate_max == 0)
        return false;
    now_ns = clock_monotonic_ns();
    if (now_ns - channel->second_began_ns >= NS_PER_S) {
        channel->second_began_ns = now_ns;
        channel->received_in_second = 0;
    }
    return ++channel->received_in_second > channel->owner.rate_max;
}

/* Delivers the message of GOT bytes in the buffer if it is valid. */
static void deliver_message(struct channel *channel, size_t got,
                            const struct descriptors *descriptors)
{
    const char *data = channel->buffer + sizeof(int64_t), *fault;
    size_t length = got - sizeof(int64_t);
    int64_t kind;

    memcpy(&kind, channel->buffer, sizeof(kind));
    fault = message_fault(channel->receives, kind, data, length,
                          descriptors->count + (descriptors->lost ? 1 : 0));
    if (fault == NULL && exceeds_rate(channel))
        fault = "sends too many messages";
    if (fault != NULL) {
        close_received(descriptors);
        channel_fail(channel, fault);
        return;
    }
    if (descriptors->lost)
        event_log(LEVEL_ERROR,
                  "a passed descriptor was lost: too many open files (raise the limit)");
    channel->received++;
    channel->owner.message(channel->owner.owner, (int)kind, data, length,
                           descriptors->count > 0 ? descriptors->fd[0] : -1);
}

/*
 * Receives one message. Returns false if there is none or the channel is broken. A message without
 * bytes cannot be told from the end.
 */
static bool receive_message(struct channel *channel)
{
    struct descriptors descriptors;
    ssize_t got;

    if (channel->owner.ready != NULL && !channel->owner.ready(channel->owner.owner)) {
        receive_later(channel);
        return false;
    }
    got = receive_whole(channel, &descriptors);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got < 0 && (errno == ENOMEM || errno == ENOBUFS || errno == EMFILE)) {
        if (errno == EMFILE)
            channel->owner.no_descriptor(channel->owner.owner);
        receive_later(channel);
        return false;
    }
    if (got >= (ssize_t)sizeof(int64_t)) {
        deliver_message(channel, (size_t)got, &descriptors);
        return true;
    }
    if (got >= 0)
        close_received(&descriptors);
    stop_channel(channel);
    channel->owner.closed(channel->owner.owner);
    return false;
}

static void on_channel_readable(evutil_socket_t fd, short what, void *argument)
{
    struct channel *channel = argument;

    (void)fd, (void)what;
    for (int i = 0; i < READS_PER_EVENT && event_pending(channel->readable, EV_READ, NULL); i++)
        if (!receive_message(channel))
            return;
}

static void on_read_again(evutil_socket_t fd, short what, void *argument)
{
    struct channel *channel = argument;

    (void)fd, (void)what;
    stop_retry(channel->read_again);
    watch_readable(channel);
}

void channel_take_unsent(struct channel *channel, channel_handler *handle)
{
    struct message *message;

    while ((message = dequeue(channel)) != NULL) {
        handle(channel->owner.owner, (int)message->body.kind, message->body.data,
               message->data_length, message->give ? message->fd : -1);
        message->give = false;
        message_free(message);
    }
    event_del(channel->writable);
    stop_retry(channel->write_again);
}

void channel_read_all(struct channel *channel)
{
    while (event_pending(channel->readable, EV_READ, NULL) && receive_message(channel))
        continue;
}

size_t channel_backlog(const struct channel *channel)
{
    return channel->queued;
}

uint64_t channel_sent(const struct channel *channel)
{
    return channel->sent;
}

uint64_t channel_received(const struct channel *channel)
{
    return channel->received;
}

bool channel_is_broken(const struct channel *channel)
{
    return channel->broken;
}

void channel_set_reading(struct channel *channel, bool reading)
{
    if (channel->ended)
        return;
    stop_retry(channel->read_again);
    if (reading)
        watch_readable(channel);
    else
        event_del(channel->readable);
}
