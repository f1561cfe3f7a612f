/*
 * Messages of a hostile process on a channel: only valid ones are delivered, nothing after the
 * first invalid one, and no descriptor stays open.
 *
 * Input: a byte for the route, then packets: a byte for the number of descriptors, two for the
 * length, and the bytes.
 */
#include "daemon/base/channel.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUTES = ROUTE_LOG_REPORTS + 1, DESCRIPTORS_MAX = 8 };

struct end {
    enum message_route route;
    unsigned long sum; /* of all bytes delivered, so that a sanitizer checks them */
    bool ended;
};

static void add_up(struct end *end, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        end->sum += (unsigned char)bytes[i];
}

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    const struct message_connection *connection = data;
    const struct message_command *command = data;
    struct end *end = owner;

    MUST(!end->ended);
    MUST(message_fault(end->route, kind, data, length, fd >= 0) == NULL);
    if (kind == MESSAGE_CONNECTION || kind == MESSAGE_CONNECTION_RETURNED)
        add_up(end, connection->bytes, connection->length);
    else if (kind == MESSAGE_COMMAND)
        MUST(sizeof(*command) + strlen(command->path) + 1 == length);
    add_up(end, data, length);
    if (fd >= 0)
        close(fd);
}

static void on_closed(void *owner)
{
    ((struct end *)owner)->ended = true;
}

static void on_fault(void *owner, const char *what)
{
    MUST(what[0] != '\0');
    on_closed(owner);
}

static void send_packet(int socket, const uint8_t *bytes, size_t length, size_t count)
{
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec body = {(void *)(uintptr_t)bytes, length};
    struct msghdr header = {.msg_iov = &body, .msg_iovlen = 1};

    if (count > 0) {
        struct cmsghdr *rights;

        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (size_t i = 0; i < count; i++)
            memcpy(CMSG_DATA(rights) + i * sizeof(int), &socket, sizeof(socket));
    }
    sendmsg(socket, &header, MSG_NOSIGNAL);
}

static void send_all(int socket, const uint8_t *data, size_t size)
{
    while (size >= 3) {
        size_t count = data[0] % (DESCRIPTORS_MAX + 1), length = data[1] + 256U * data[2];

        data += 3, size -= 3;
        length = length < size ? length : size;
        send_packet(socket, data, length, count);
        data += length, size -= length;
    }
}

static int next_descriptor(void)
{
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct event_base *base;
    struct end end = {.route = size > 0 ? data[0] % ROUTES : 0};
    const struct channel_owner owner = {
        .message = on_message, .closed = on_closed, .fault = on_fault, .owner = &end};
    struct channel *channel;
    int fds[2], before;

    if (base == NULL)
        base = event_base_new();
    before = next_descriptor();
    MUST(base != NULL && channel_pair(fds) == 0);
    channel = channel_open(base, fds[1], end.route, &owner);
    MUST(channel != NULL);
    if (size > 0)
        send_all(fds[0], data + 1, size - 1);
    channel_read_all(channel);
    channel_close(channel);
    close(fds[0]);
    MUST(next_descriptor() == before);
    return 0;
}
