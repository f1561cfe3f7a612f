#include "daemon/connection/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static ssize_t plain_read(int fd, void *buffer, size_t length)
{
    return recv(fd, buffer, length, 0);
}

static ssize_t plain_write(int fd, const struct iovec *parts, int count, bool more)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = (size_t)count};
    int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);

    if (count == 1)
        return send(fd, parts[0].iov_base, parts[0].iov_len, flags);
    return sendmsg(fd, &message, flags);
}

static ssize_t plain_send_file(int fd, int file, off_t *offset, size_t length)
{
    return sendfile(fd, file, offset, length);
}

static void plain_lift_unsent_limit(int fd)
{
    const unsigned int no_limit = 0;

    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &no_limit, sizeof(no_limit));
}

const struct transport transport_plain = {plain_read, plain_write, plain_send_file,
                                          plain_lift_unsent_limit};
