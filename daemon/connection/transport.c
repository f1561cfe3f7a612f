#include "daemon/connection/transport.h"

#include "daemon/connection/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static ssize_t plain_read(struct connection *connection, void *buffer, size_t length)
{
    return recv(connection->fd, buffer, length, 0);
}

static ssize_t plain_write(struct connection *connection, const struct iovec *parts, int count,
                           bool more)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = (size_t)count};
    int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);

    if (count == 1)
        return send(connection->fd, parts[0].iov_base, parts[0].iov_len, flags);
    return sendmsg(connection->fd, &message, flags);
}

static ssize_t plain_send_file(struct connection *connection, int file, off_t *offset,
                               size_t length)
{
    return sendfile(connection->fd, file, offset, length);
}

void transport_lift_unsent_limit(const struct connection *connection)
{
    const unsigned int no_limit = 0;

    setsockopt(connection->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &no_limit, sizeof(no_limit));
}

const struct transport transport_plain = {plain_read, plain_write, plain_send_file};
