#include "daemon/master/listening.h"

#include "daemon/base/unix_name.h"
#include "daemon/connection/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

in_port_t listening_port(const struct config_address *address)
{
    if (address->address.ss_family == AF_UNIX)
        return 0;
    return ntohs(address->address.ss_family == AF_INET
                     ? ((const struct sockaddr_in *)&address->address)->sin_port
                     : ((const struct sockaddr_in6 *)&address->address)->sin6_port);
}

static int switch_on(int fd, int level, int option)
{
    const int on = 1;

    return setsockopt(fd, level, option, &on, sizeof(on));
}

static int bound_socket(const struct config_address *address, bool shared)
{
    const int off = 0;
    int fd = socket(address->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    /* "*" is one dual-stack socket; a numeric IPv6 address is IPv6 alone. */
    if (address->address.ss_family == AF_INET6) {
        if (address->text[0] == '*')
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        else
            switch_on(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    }
    if (switch_on(fd, SOL_SOCKET, SO_REUSEADDR) == 0 &&
        (!shared || switch_on(fd, SOL_SOCKET, SO_REUSEPORT) == 0) &&
        bind(fd, (const struct sockaddr *)&address->address, address->length) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/*
 * With SO_REUSEPORT two servers of one user would share a port unseen: a bind without it tells
 * whether somebody is there.
 */
static int probe(const struct config_address *address)
{
    int fd = bound_socket(address, false);

    if (fd < 0)
        return -1;
    if (listen(fd, 1) != 0) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    close(fd);
    return 0;
}

int listening_open(struct config_address *address, uint32_t backlog, bool defer)
{
    const unsigned int unsent_most = TRANSPORT_UNSENT_MOST;
    int fd = address->address.ss_family == AF_UNIX
                 ? unix_name_bind((const struct sockaddr_un *)&address->address)
                 : bound_socket(address, true);

    if (fd < 0)
        return -1;
    switch_on(fd, IPPROTO_TCP, TCP_NODELAY); /* accepted sockets inherit it, and what follows */
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_most, sizeof(unsent_most));
    if (defer)
        switch_on(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT); /* for a second */
    address->length = sizeof(address->address);
    if (listen(fd, (int)backlog) == 0 &&
        getsockname(fd, (struct sockaddr *)&address->address, &address->length) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int listening_check(const struct config_address *address, char *why, size_t size)
{
    if (address->address.ss_family == AF_UNIX)
        return unix_name_check((const struct sockaddr_un *)&address->address, why, size);
    if (listening_port(address) == 0 || probe(address) == 0)
        return 0;
    snprintf(why, size, "cannot listen on %s: %s%s", address->text, strerror(errno),
             errno == EADDRINUSE ? " (another program listens there; see: ss -ltnp)"
             : errno == EACCES   ? " (ports below 1024 need root or CAP_NET_BIND_SERVICE)"
                                 : "");
    return -1;
}

void listening_name(struct config_address *address)
{
    char host[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->address;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->address;

    if (address->address.ss_family == AF_UNIX)
        snprintf(address->text, sizeof(address->text), "unix:%.107s",
                 ((const struct sockaddr_un *)&address->address)->sun_path);
    else if (address->address.ss_family == AF_INET6)
        snprintf(address->text, sizeof(address->text), "[%s]:%u",
                 inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host)), listening_port(address));
    else
        snprintf(address->text, sizeof(address->text), "%s:%u",
                 inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host)), listening_port(address));
}

void listening_describe(const struct config_address *address, char *text, size_t size)
{
    const char *colon = strrchr(address->text, ':');

    if (address->address.ss_family == AF_UNIX)
        snprintf(text, size, "%s", address->text);
    else
        snprintf(text, size, "%.*s:%u", (int)(colon - address->text), address->text,
                 listening_port(address));
}

void listening_adjust(int fd, uint32_t backlog, bool defer)
{
    const int seconds = defer ? 1 : 0;

    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
    listen(fd, (int)backlog);
}
