#include "daemon/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct listeners {
    uint32_t backlog;
    bool defer; /* the kernel holds a connection back until its first bytes come */
    size_t address_count;
    struct config_address *address; /* with the port that is really bound */
    uint32_t lanes, room;           /* of all addresses: lane i is of address i % address_count */
    int *lane;                      /* descriptors */
};

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

static int open_lane(struct config_address *address, uint32_t backlog, bool defer)
{
    int fd = bound_socket(address, true);

    if (fd < 0)
        return -1;
    switch_on(fd, IPPROTO_TCP, TCP_NODELAY); /* accepted sockets inherit it */
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

static int make_room(struct listeners *listeners, uint32_t lanes)
{
    int *larger;

    if (lanes <= listeners->room)
        return 0;
    larger = realloc(listeners->lane, lanes * sizeof(*larger));
    if (larger == NULL)
        return -1;
    listeners->lane = larger;
    listeners->room = lanes;
    return 0;
}

/* Lanes that nobody accepts from would keep their share of the clients waiting. */
static void shrink(struct listeners *listeners, uint32_t lanes)
{
    int error = errno;

    while (listeners->lanes > lanes)
        close(listeners->lane[--listeners->lanes]);
    errno = error;
}

int listeners_grow(struct listeners *listeners, uint32_t count)
{
    uint32_t wanted = count * (uint32_t)listeners->address_count;
    uint32_t before = listeners->lanes;

    if (make_room(listeners, wanted) != 0)
        return -1;
    while (listeners->lanes < wanted) {
        struct config_address *address =
            &listeners->address[listeners->lanes % listeners->address_count];
        int fd = open_lane(address, listeners->backlog, listeners->defer);

        if (fd < 0) {
            shrink(listeners, before);
            return -1;
        }
        listeners->lane[listeners->lanes++] = fd;
    }
    return 0;
}

static in_port_t port_of(const struct config_address *address)
{
    return ntohs(address->address.ss_family == AF_INET
                     ? ((const struct sockaddr_in *)&address->address)->sin_port
                     : ((const struct sockaddr_in6 *)&address->address)->sin6_port);
}

static int probe_all(const struct listeners *listeners, char *why, size_t size)
{
    for (size_t i = 0; i < listeners->address_count; i++) {
        const struct config_address *address = &listeners->address[i];

        if (port_of(address) == 0 || probe(address) == 0)
            continue;
        snprintf(why, size, "cannot listen on %s: %s%s", address->text, strerror(errno),
                 errno == EADDRINUSE ? " (another program listens there; see: ss -ltnp)"
                 : errno == EACCES   ? " (ports below 1024 need root or CAP_NET_BIND_SERVICE)"
                                     : "");
        return -1;
    }
    return 0;
}

struct listeners *listeners_open(const struct config *config, uint32_t count, char *why,
                                 size_t size)
{
    struct listeners *listeners = calloc(1, sizeof(*listeners));
    size_t addresses = config->server_listen.count;

    if (listeners == NULL ||
        (listeners->address = calloc(addresses, sizeof(struct config_address))) == NULL) {
        snprintf(why, size, "out of memory");
        free(listeners);
        return NULL;
    }
    memcpy(listeners->address, config->server_listen.item,
           addresses * sizeof(struct config_address));
    listeners->address_count = addresses;
    listeners->backlog = config->connections_backlog;
    listeners->defer = config->connections_defer_accept;
    if (probe_all(listeners, why, size) != 0)
        goto failed;
    if (listeners_grow(listeners, count) != 0) {
        snprintf(why, size, "cannot open the listening sockets: %s", strerror(errno));
        goto failed;
    }
    return listeners;

failed:
    listeners_close(listeners);
    return NULL;
}

void listeners_close(struct listeners *listeners)
{
    if (listeners == NULL)
        return;
    for (uint32_t i = 0; i < listeners->lanes; i++)
        close(listeners->lane[i]);
    free(listeners->lane);
    free(listeners->address);
    free(listeners);
}

uint32_t listeners_lanes(const struct listeners *listeners)
{
    return listeners->lanes;
}

int listeners_lane(const struct listeners *listeners, uint32_t id)
{
    return listeners->lane[id];
}

uint32_t listeners_row(const struct listeners *listeners, uint32_t id)
{
    return id / (uint32_t)listeners->address_count;
}

/* The configured text, with the port that is bound. */
static void describe(const struct config_address *address, char *text, size_t size)
{
    const char *colon = strrchr(address->text, ':');

    snprintf(text, size, "%.*s:%u", (int)(colon - address->text), address->text, port_of(address));
}

void listeners_describe(const struct listeners *listeners, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < listeners->address_count; i++) {
        char one[80];
        int written;

        describe(&listeners->address[i], one, sizeof(one));
        written = snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "", one);
        if (written < 0 || (size_t)written >= size - used) {
            text[used] = '\0';
            return;
        }
        used += (size_t)written;
    }
}
