#include "console/lab/stalled.h"

#include "common/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AGAIN_NS (NS_PER_S / 4)

static const char half[] = "GET / HTTP/1.1\r\nHost: stage\r\nX-Sent: half";

void lab_stalled_set(struct lab_stalled *stalled, int count)
{
    for (int i = 0; i < stalled->count; i++)
        if (stalled->fds[i] >= 0)
            close(stalled->fds[i]);
    stalled->count = count < LAB_STALLED_MAX ? count : LAB_STALLED_MAX;
    for (int i = 0; i < stalled->count; i++)
        stalled->fds[i] = -1;
    stalled->next_ns = 0;
}

/* A connection under way, or -1. On the loopback it is there at once, unless the server refuses. */
static int connect_one(uint16_t port)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0 &&
        (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 || errno == EINPROGRESS) &&
        send(fd, half, sizeof(half) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(half) - 1)
        return fd;
    close(fd);
    return -1;
}

static bool is_closed(int fd)
{
    char said[512];
    ssize_t length;

    do
        length = recv(fd, said, sizeof(said), 0);
    while (length > 0);
    return length == 0 || errno != EAGAIN;
}

void lab_stalled_update(struct lab_stalled *stalled, uint16_t port, uint64_t now_ns)
{
    if (now_ns < stalled->next_ns)
        return;
    stalled->next_ns = now_ns + AGAIN_NS;
    for (int i = 0; i < stalled->count; i++) {
        if (stalled->fds[i] >= 0 && is_closed(stalled->fds[i])) {
            close(stalled->fds[i]);
            stalled->fds[i] = -1;
        }
        if (stalled->fds[i] < 0)
            stalled->fds[i] = connect_one(port);
    }
}
