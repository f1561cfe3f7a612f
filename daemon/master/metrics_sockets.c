#include "daemon/master/metrics_sockets.h"

#include "daemon/base/events.h"
#include "daemon/master/listen_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 64 };

static int find_text(const struct metrics_sockets *sockets, const char *text)
{
    for (size_t i = 0; i < sockets->count; i++)
        if (strcmp(sockets->address[i].text, text) == 0)
            return (int)i;
    return -1;
}

/* The inherited socket of this address; NULL: none. */
static struct inherited_socket *find_inherited(const struct inheritance *inheritance,
                                               const char *text)
{
    for (size_t i = 0; inheritance != NULL && i < inheritance->count; i++) {
        struct inherited_socket *socket = &inheritance->socket[i];

        if (socket->metrics && socket->fd >= 0 && strcmp(socket->text, text) == 0)
            return socket;
    }
    return NULL;
}

/* "*:9180" may replace "127.0.0.1:9180", and a probe would fail. */
static bool port_is_ours(const struct metrics_sockets *sockets, in_port_t port)
{
    for (size_t i = 0; i < sockets->count; i++)
        if (listen_socket_port(&sockets->address[i]) == port)
            return true;
    return false;
}

static int open_new(struct config_address *address, const struct metrics_sockets *current,
                    char *why, size_t size)
{
    int fd;

    if (!port_is_ours(current, listen_socket_port(address)) &&
        listen_socket_check(address, "metrics.listen", why, size) != 0)
        return -1;
    fd = listen_socket_open(address, BACKLOG, false);
    if (fd < 0)
        snprintf(why, size, "cannot listen on %s: %s", address->text, strerror(errno));
    return fd;
}

static bool is_loopback(const struct config_address *address)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->address;

    if (address->address.ss_family == AF_INET)
        return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

static void report(const struct config_address *address, bool has_users)
{
    char text[sizeof(address->text) + 8];

    listen_socket_describe(address, text, sizeof(text));
    event_log(LEVEL_INFO, "metrics on http://%s/metrics", text);
    if (!is_loopback(address))
        event_log(LEVEL_WARN,
                  "other machines may reach the metrics on %s: %s; limit who can connect, %sor set "
                  "metrics.listen to a loopback address",
                  text,
                  has_users ? "passwords cross the network in clear text" : "they need no password",
                  has_users ? "" : "set metrics.users, ");
}

/* Returns the socket of ADDRESS, whose port it stores; or -1 with WHY. */
static int open_one(struct config_address *address, bool has_users,
                    const struct metrics_sockets *current, struct inheritance *inheritance,
                    char *why, size_t size)
{
    int at = find_text(current, address->text), fd;
    struct inherited_socket *inherited = find_inherited(inheritance, address->text);

    if (at >= 0) {
        address->address = current->address[at].address;
        fd = fcntl(current->fd[at], F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            snprintf(why, size, "cannot listen on %s: %s", address->text, strerror(errno));
        return fd;
    }
    if (inherited != NULL) {
        fd = inherited->fd;
        inherited->fd = -1;
        getsockname(fd, (struct sockaddr *)&address->address, &address->length);
    } else {
        fd = open_new(address, current, why, size);
    }
    if (fd >= 0)
        report(address, has_users);
    return fd;
}

int metrics_sockets_open(struct metrics_sockets *sockets, const struct config *config,
                         const struct metrics_sockets *current, struct inheritance *inheritance,
                         char *why, size_t size)
{
    sockets->count = 0;
    for (size_t i = 0; i < config->metrics_listen.count; i++) {
        struct config_address *address = &sockets->address[i];

        *address = config->metrics_listen.item[i];
        sockets->fd[i] =
            open_one(address, config->metrics_logins.count > 0, current, inheritance, why, size);
        if (sockets->fd[i] < 0) {
            metrics_sockets_close(sockets);
            return -1;
        }
        sockets->count++;
    }
    return 0;
}

void metrics_sockets_close(struct metrics_sockets *sockets)
{
    while (sockets->count > 0)
        close(sockets->fd[--sockets->count]);
}

static bool have_same_addresses(const struct metrics_sockets *one,
                                const struct metrics_sockets *other)
{
    for (size_t i = 0; i < one->count; i++)
        if (i >= other->count || strcmp(one->address[i].text, other->address[i].text) != 0)
            return false;
    return one->count == other->count;
}

bool metrics_sockets_replace(struct metrics_sockets *sockets, struct metrics_sockets *next)
{
    bool differ = !have_same_addresses(sockets, next);

    metrics_sockets_close(sockets);
    *sockets = *next;
    next->count = 0;
    return differ;
}

size_t metrics_sockets_export(const struct metrics_sockets *sockets,
                              struct inherited_socket *exported)
{
    for (size_t i = 0; i < sockets->count; i++) {
        exported[i] = (struct inherited_socket){.fd = sockets->fd[i], .metrics = true};
        memcpy(exported[i].text, sockets->address[i].text, sizeof(exported[i].text));
    }
    return sockets->count;
}
