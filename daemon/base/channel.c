#include "daemon/base/channel.h"

#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READS_PER_EVENT = 64, /* a busy channel must not starve the rest of the loop */
    RETRY_MS = 20,        /* after ENOBUFS or ENOMEM, which give no wake-up */
};

struct message {
    STAILQ_ENTRY(message) link;
    int fd;
    bool give;
    size_t length; /* of bytes */
    struct {
        int64_t kind; /* 64 bits, so that data is aligned for any struct */
        char data[];
    } body;
};

struct channel {
    int fd;
    struct channel_owner owner;
    struct event *readable, *writable;
    struct event *read_again, *write_again; /* timers */
    STAILQ_HEAD(, message) queue;
    size_t queued;
    bool broken; /* the other end is closed */
    _Alignas(8) char buffer[sizeof(int64_t) + CHANNEL_PAYLOAD_MAX];
};

static void on_readable(evutil_socket_t fd, short what, void *argument);
static void on_writable(evutil_socket_t fd, short what, void *argument);
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

struct channel *channel_open(struct event_base *base, int fd, const struct channel_owner *owner)
{
    struct channel *channel = calloc(1, sizeof(*channel));

    if (channel == NULL) {
        close(fd);
        return NULL;
    }
    channel->fd = fd;
    channel->owner = *owner;
    STAILQ_INIT(&channel->queue);
    channel->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, channel);
    channel->writable = event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, channel);
    channel->read_again = event_new(base, -1, 0, on_read_again, channel);
    channel->write_again = event_new(base, -1, 0, on_writable, channel);
    if (channel->readable == NULL || channel->writable == NULL || channel->read_again == NULL ||
        channel->write_again == NULL || event_add(channel->readable, NULL) != 0) {
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

void channel_close(struct channel *channel)
{
    struct message *message;

    if (channel == NULL)
        return;
    while ((message = STAILQ_FIRST(&channel->queue)) != NULL) {
        STAILQ_REMOVE_HEAD(&channel->queue, link);
        message_free(message);
    }
    loop_free_event(channel->readable);
    loop_free_event(channel->writable);
    loop_free_event(channel->read_again);
    loop_free_event(channel->write_again);
    close(channel->fd);
    free(channel);
}

/* Returns 0, or an errno. */
static int transmit(struct channel *channel, int64_t kind, const void *data, size_t length, int fd)
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
    return sendmsg(channel->fd, &header, MSG_NOSIGNAL) >= 0 ? 0 : errno;
}

static struct message *message_new(int kind, const void *data, size_t length, int fd, bool give)
{
    struct message *message = malloc(sizeof(*message) + length);

    if (message == NULL)
        return NULL;
    message->fd = fd;
    message->give = give;
    message->length = length;
    message->body.kind = kind;
    if (length > 0)
        memcpy(message->body.data, data, length);
    return message;
}

static bool is_temporary(int error)
{
    return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == ETOOMANYREFS ||
           error == EINTR;
}

static void start_retry(struct event *timer)
{
    static const struct timeval delay = {.tv_usec = RETRY_MS * 1000};

    event_add(timer, &delay);
}

/* A full socket becomes writable again; ENOBUFS and ENOMEM give no wake-up, so retry on a timer. */
static void wait_to_write(struct channel *channel, int error)
{
    if (error == EAGAIN || error == EINTR) {
        event_add(channel->writable, NULL);
        return;
    }
    event_del(channel->writable);
    start_retry(channel->write_again);
}

/* Allocates only if the socket is full, so that MESSAGE_STOP can be sent without memory. */
int channel_send(struct channel *channel, int kind, const void *data, size_t length, int fd,
                 bool give)
{
    struct message *message;
    int failed = 0;

    if (channel->broken || length > CHANNEL_PAYLOAD_MAX) {
        errno = channel->broken ? EPIPE : EMSGSIZE;
        return -1;
    }
    if (channel->queued == 0) {
        failed = transmit(channel, kind, data, length, fd);
        if (failed == 0) {
            if (give && fd >= 0)
                close(fd);
            return 0;
        }
        if (!is_temporary(failed)) {
            channel->broken = true; /* the read event reports it */
            errno = EPIPE;
            return -1;
        }
    }
    message = message_new(kind, data, length, fd, give && fd >= 0);
    if (message == NULL)
        return -1;
    if (channel->queued == 0)
        wait_to_write(channel, failed);
    STAILQ_INSERT_TAIL(&channel->queue, message, link);
    channel->queued++;
    return 0;
}

static void on_writable(evutil_socket_t fd, short what, void *argument)
{
    struct channel *channel = argument;
    struct message *message;

    (void)fd, (void)what;
    while ((message = STAILQ_FIRST(&channel->queue)) != NULL) {
        int failed =
            transmit(channel, message->body.kind, message->body.data, message->length, message->fd);

        if (is_temporary(failed)) {
            wait_to_write(channel, failed);
            return;
        }
        STAILQ_REMOVE_HEAD(&channel->queue, link);
        channel->queued--;
        message_free(message);
    }
    event_del(channel->writable);
    if (channel->owner.drained != NULL)
        channel->owner.drained(channel->owner.owner);
}

static int descriptor_of(struct msghdr *header)
{
    struct cmsghdr *rights = CMSG_FIRSTHDR(header);
    int fd = -1;

    if (rights != NULL && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
    return fd;
}

/* Receives one message. Returns false if there is none or the channel is broken. */
static bool receive(struct channel *channel)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec body = {channel->buffer, sizeof(channel->buffer)};
    struct msghdr header = {.msg_iov = &body,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(channel->fd, &header, MSG_CMSG_CLOEXEC);
    int64_t kind;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got < 0 && (errno == ENOMEM || errno == ENOBUFS)) {
        event_del(channel->readable);
        start_retry(channel->read_again);
        return false;
    }
    if (got < (ssize_t)sizeof(kind)) {
        event_del(channel->readable);
        channel->broken = true;
        channel->owner.closed(channel->owner.owner);
        return false;
    }
    if (header.msg_flags & MSG_CTRUNC)
        event_log(LEVEL_ERROR,
                  "a passed descriptor was lost: too many open files (raise the limit)");
    memcpy(&kind, channel->buffer, sizeof(kind));
    channel->owner.message(channel->owner.owner, (int)kind, channel->buffer + sizeof(kind),
                           (size_t)got - sizeof(kind), descriptor_of(&header));
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *argument)
{
    struct channel *channel = argument;

    (void)fd, (void)what;
    for (int i = 0; i < READS_PER_EVENT && event_pending(channel->readable, EV_READ, NULL); i++)
        if (!receive(channel))
            return;
}

static void on_read_again(evutil_socket_t fd, short what, void *argument)
{
    struct channel *channel = argument;

    (void)fd, (void)what;
    event_add(channel->readable, NULL);
}

void channel_take_unsent(struct channel *channel, channel_handler *handle)
{
    struct message *message;

    while ((message = STAILQ_FIRST(&channel->queue)) != NULL) {
        STAILQ_REMOVE_HEAD(&channel->queue, link);
        channel->queued--;
        handle(channel->owner.owner, (int)message->body.kind, message->body.data, message->length,
               message->give ? message->fd : -1);
        message->give = false;
        message_free(message);
    }
    event_del(channel->writable);
    event_del(channel->write_again);
}

void channel_read_all(struct channel *channel)
{
    while (event_pending(channel->readable, EV_READ, NULL) && receive(channel))
        continue;
}

size_t channel_backlog(const struct channel *channel)
{
    return channel->queued;
}

bool channel_is_broken(const struct channel *channel)
{
    return channel->broken;
}

void channel_set_reading(struct channel *channel, bool reading)
{
    event_del(channel->read_again);
    if (reading)
        event_add(channel->readable, NULL);
    else
        event_del(channel->readable);
}
