#include "daemon/master/listeners.h"

#include "daemon/base/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { NO_SOCKET = -1 };

struct listen_address {
    struct config_address address; /* with the port that is bound */
    uint32_t rows;                 /* number of its sockets */
    uint32_t rows_before;          /* what a failed listeners_grow() goes back to */
    bool shared;    /* a UNIX socket or an activated one: a single socket, the master accepts */
    bool activated; /* passed by a service manager */
    bool pending;   /* opened by listeners_prepare(), not committed yet */
    bool removed;   /* no longer configured: listeners_commit() closes it */
};

struct listen_socket {
    int fd; /* NO_SOCKET: the number is free */
    uint32_t row;
    struct listen_address *address;
};

struct listeners {
    uint32_t backlog;
    bool activated; /* a service manager passed the sockets: the configured addresses are ignored */
    bool defer;     /* TCP_DEFER_ACCEPT: the kernel reports a connection with its first bytes */
    size_t address_count;
    struct listen_address **address; /* in the order of the configuration, removed ones last */
    uint32_t count, room;            /* numbers in use, including free ones in between */
    struct listen_socket *socket;    /* by number */
};

/* Opening one socket */

/* In host order; 0 for a UNIX socket. */
static in_port_t port_of(const struct config_address *address)
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

/* Closes FD and keeps errno. Returns -1. */
static int close_failed(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
    return -1;
}

static int open_bound(const struct config_address *address, bool reuse_port)
{
    const int off = 0;
    int fd = socket(address->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    /* "*" is one dual-stack socket; a numeric IPv6 address is IPv6 only. */
    if (address->address.ss_family == AF_INET6) {
        if (address->text[0] == '*')
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        else
            switch_on(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    }
    if (switch_on(fd, SOL_SOCKET, SO_REUSEADDR) == 0 &&
        (!reuse_port || switch_on(fd, SOL_SOCKET, SO_REUSEPORT) == 0) &&
        bind(fd, (const struct sockaddr *)&address->address, address->length) == 0)
        return fd;
    return close_failed(fd);
}

/*
 * SO_REUSEPORT would let two servers of one user share a port silently. A bind without it fails if
 * any other process listens there.
 */
static int probe(const struct config_address *address)
{
    int fd = open_bound(address, false);

    if (fd < 0)
        return -1;
    if (listen(fd, 1) != 0)
        return close_failed(fd);
    close(fd);
    return 0;
}

static bool is_listening(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool listening;

    if (fd < 0)
        return false;
    /* EAGAIN: its queue is full. */
    listening =
        connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN;
    close(fd);
    return listening;
}

/*
 * The name of a UNIX socket outlives its process. Returns 0 if it is free or a socket that nobody listens
 * on, which bind_unix() replaces; else -1 with WHY.
 */
static int check_unix(const struct sockaddr_un *address, char *why, size_t size)
{
    struct stat status;

    if (lstat(address->sun_path, &status) != 0)
        return 0;
    if (!S_ISSOCK(status.st_mode)) {
        snprintf(why, size, "cannot listen on unix:%s: a file that is not a socket is in the way",
                 address->sun_path);
        return -1;
    }
    if (!is_listening(address))
        return 0;
    snprintf(why, size, "cannot listen on unix:%s: another program listens there",
             address->sun_path);
    return -1;
}

/* Anybody may connect; the permissions of the directory limit that. Returns a socket, or -1 with errno. */
static int bind_unix(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    unlink(address->sun_path);
    if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
        chmod(address->sun_path, 0666) == 0)
        return fd;
    return close_failed(fd);
}

static int check_address(const struct config_address *address, char *why, size_t size)
{
    if (address->address.ss_family == AF_UNIX)
        return check_unix((const struct sockaddr_un *)&address->address, why, size);
    if (port_of(address) == 0 || probe(address) == 0)
        return 0;
    snprintf(why, size, "cannot listen on %s: %s%s", address->text, strerror(errno),
             errno == EADDRINUSE ? " (another program listens there; see: ss -ltnp)"
             : errno == EACCES   ? " (ports below 1024 need root or CAP_NET_BIND_SERVICE)"
                                 : "");
    return -1;
}

/* Opens one more socket and stores the bound port in ADDRESS. Returns it, or -1 with errno. */
static int open_socket(struct config_address *address, uint32_t backlog, bool defer)
{
    const unsigned int unsent_most = NETWORK_UNSENT_MAX;
    int fd = address->address.ss_family == AF_UNIX
                 ? bind_unix((const struct sockaddr_un *)&address->address)
                 : open_bound(address, true);

    if (fd < 0)
        return -1;
    /* Accepted sockets inherit these options. */
    switch_on(fd, IPPROTO_TCP, TCP_NODELAY);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_most, sizeof(unsent_most));
    if (defer)
        switch_on(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT); /* for one second */
    address->length = sizeof(address->address);
    if (listen(fd, (int)backlog) == 0 &&
        getsockname(fd, (struct sockaddr *)&address->address, &address->length) == 0)
        return fd;
    return close_failed(fd);
}

static void set_options(int fd, uint32_t backlog, bool defer)
{
    const int seconds = defer ? 1 : 0;

    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
    listen(fd, (int)backlog);
}

/* Sockets by number */

/* Returns the lowest free number, or NO_SOCKET: out of memory. */
static int64_t allocate_number(struct listeners *listeners)
{
    uint32_t room = listeners->room == 0 ? 16 : listeners->room * 2;
    struct listen_socket *larger;

    for (uint32_t i = 0; i < listeners->count; i++)
        if (listeners->socket[i].fd == NO_SOCKET)
            return i;
    if (listeners->count < listeners->room)
        return listeners->count++;
    larger = realloc(listeners->socket, room * sizeof(*larger));
    if (larger == NULL)
        return NO_SOCKET;
    listeners->socket = larger;
    listeners->room = room;
    return listeners->count++;
}

static void close_socket(struct listeners *listeners, uint32_t id)
{
    close(listeners->socket[id].fd);
    listeners->socket[id].fd = NO_SOCKET;
    while (listeners->count > 0 && listeners->socket[listeners->count - 1].fd == NO_SOCKET)
        listeners->count--;
}

static int add_socket(struct listeners *listeners, struct listen_address *address)
{
    int64_t id = allocate_number(listeners);
    int fd;

    if (id == NO_SOCKET)
        return -1;
    listeners->socket[id].fd = NO_SOCKET;
    fd = open_socket(&address->address, listeners->backlog, listeners->defer);
    if (fd < 0)
        return -1;
    listeners->socket[id] = (struct listen_socket){fd, address->rows++, address};
    return 0;
}

/* Closes the sockets from row ROWS on: connections would wait in a queue that nobody accepts from. */
static void cut_rows(struct listeners *listeners, struct listen_address *address, uint32_t rows)
{
    int error = errno;

    for (uint32_t i = listeners->count; i-- > 0;)
        if (listeners->socket[i].fd != NO_SOCKET && listeners->socket[i].address == address &&
            listeners->socket[i].row >= rows)
            close_socket(listeners, i);
    if (address->rows > rows)
        address->rows = rows;
    errno = error;
}

/* The lowest number of rows of any address; UINT32_MAX if all are shared. */
static uint32_t rows_of_all(const struct listeners *listeners)
{
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < listeners->address_count; i++)
        if (!listeners->address[i]->shared && listeners->address[i]->rows < least)
            least = listeners->address[i]->rows;
    return least;
}

static int grow_to(struct listeners *listeners, uint32_t count)
{
    for (uint32_t row = rows_of_all(listeners); row < count; row++)
        for (size_t i = 0; i < listeners->address_count; i++)
            if (!listeners->address[i]->shared && listeners->address[i]->rows <= row &&
                add_socket(listeners, listeners->address[i]) != 0)
                return -1;
    return 0;
}

int listeners_grow(struct listeners *listeners, uint32_t count)
{
    for (size_t i = 0; i < listeners->address_count; i++)
        listeners->address[i]->rows_before = listeners->address[i]->rows;
    if (grow_to(listeners, count) == 0)
        return 0;
    for (size_t i = 0; i < listeners->address_count; i++)
        cut_rows(listeners, listeners->address[i], listeners->address[i]->rows_before);
    return -1;
}

/* Addresses */

static struct listen_address *find_address(const struct listeners *listeners, const char *text)
{
    for (size_t i = 0; i < listeners->address_count; i++)
        if (strcmp(listeners->address[i]->address.text, text) == 0)
            return listeners->address[i];
    return NULL;
}

/* "*:80" may follow "127.0.0.1:80": a probe would fail because of our own socket. */
static bool port_is_ours(const struct listeners *listeners, in_port_t port)
{
    for (size_t i = 0; i < listeners->address_count; i++)
        if (listeners->address[i]->rows > 0 && port_of(&listeners->address[i]->address) == port)
            return true;
    return false;
}

static bool is_unix(const struct listen_address *address)
{
    return address->address.address.ss_family == AF_UNIX;
}

static struct listen_address *add_address(struct listeners *listeners,
                                          const struct config_address *configured)
{
    struct listen_address **larger = realloc(
        listeners->address, (listeners->address_count + 1) * sizeof(struct listen_address *));
    struct listen_address *address = calloc(1, sizeof(*address));

    if (larger != NULL)
        listeners->address = larger;
    if (larger == NULL || address == NULL) {
        free(address);
        return NULL;
    }
    address->address = *configured;
    address->pending = true;
    listeners->address[listeners->address_count++] = address;
    return address;
}

static void remove_address(struct listeners *listeners, size_t at)
{
    cut_rows(listeners, listeners->address[at], 0);
    free(listeners->address[at]);
    listeners->address_count--;
    memmove(&listeners->address[at], &listeners->address[at + 1],
            (listeners->address_count - at) * sizeof(struct listen_address *));
}

/* The file of an activated socket belongs to the service manager. */
static void unlink_address(const struct listen_address *address)
{
    if (is_unix(address) && address->rows > 0 && !address->activated)
        unlink(((const struct sockaddr_un *)&address->address.address)->sun_path);
}

void listeners_unlink(const struct listeners *listeners)
{
    for (size_t i = 0; listeners != NULL && i < listeners->address_count; i++)
        unlink_address(listeners->address[i]);
}

void listeners_abandon(struct listeners *listeners)
{
    for (size_t i = listeners->address_count; i-- > 0;) {
        listeners->address[i]->removed = false;
        if (!listeners->address[i]->pending)
            continue;
        unlink_address(listeners->address[i]);
        remove_address(listeners, i);
    }
}

/* Moves the addresses of LIST to the front, in its order. */
static void sort_addresses(struct listeners *listeners, const struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        for (size_t k = i; k < listeners->address_count; k++)
            if (strcmp(listeners->address[k]->address.text, list->item[i].text) == 0) {
                struct listen_address *found = listeners->address[k];

                memmove(&listeners->address[i + 1], &listeners->address[i],
                        (k - i) * sizeof(struct listen_address *));
                listeners->address[i] = found;
            }
}

/* Adds an address that is not listened on yet; a UNIX socket is opened at once. */
static int prepare_address(struct listeners *listeners, const struct config_address *configured,
                           char *why, size_t size)
{
    in_port_t port = port_of(configured);
    struct listen_address *address;

    if ((port == 0 || !port_is_ours(listeners, port)) && check_address(configured, why, size) != 0)
        return -1;
    address = add_address(listeners, configured);
    if (address == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    address->shared = is_unix(address);
    if (address->shared && add_socket(listeners, address) != 0) {
        snprintf(why, size, "cannot listen on %s: %s", address->address.text, strerror(errno));
        return -1;
    }
    return 0;
}

/* Marks the addresses that LIST lacks as removed and adds those that it has new. */
static int prepare_addresses(struct listeners *listeners, const struct config_list *list, char *why,
                             size_t size)
{
    for (size_t i = 0; i < listeners->address_count; i++)
        listeners->address[i]->removed = true;
    for (size_t i = 0; i < list->count; i++) {
        struct listen_address *address = find_address(listeners, list->item[i].text);

        if (address != NULL)
            address->removed = false;
        else if (prepare_address(listeners, &list->item[i], why, size) != 0)
            return -1;
    }
    sort_addresses(listeners, list);
    return 0;
}

int listeners_prepare(struct listeners *listeners, const struct config *config, uint32_t count,
                      char *why, size_t size)
{
    uint32_t rows = rows_of_all(listeners);

    listeners->backlog = config->connections_backlog;
    listeners->defer = config->connections_defer_accept;
    if (listeners->activated ||
        prepare_addresses(listeners, &config->server_listen, why, size) == 0) {
        if (listeners_grow(listeners, rows != UINT32_MAX && rows > count ? rows : count) == 0)
            return 0;
        snprintf(why, size, "cannot open the listen sockets: %s", strerror(errno));
    }
    listeners_abandon(listeners);
    return -1;
}

void listeners_commit(struct listeners *listeners, void (*drain)(void *context, int fd),
                      void *context)
{
    for (uint32_t i = 0; i < listeners->count; i++) {
        const struct listen_socket *socket = &listeners->socket[i];

        if (socket->fd == NO_SOCKET)
            continue;
        if (socket->address->removed)
            drain(context, socket->fd);
        else
            set_options(socket->fd, listeners->backlog, listeners->defer);
    }
    for (size_t i = listeners->address_count; i-- > 0;) {
        listeners->address[i]->pending = false;
        if (!listeners->address[i]->removed)
            continue;
        unlink_address(listeners->address[i]);
        remove_address(listeners, i);
    }
}

/* Opening and closing all */

/* Writes the text of an activated socket's address as the configuration would have it. */
static void set_text(struct config_address *address)
{
    char host[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->address;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->address;

    if (address->address.ss_family == AF_UNIX)
        snprintf(address->text, sizeof(address->text), "unix:%.107s",
                 ((const struct sockaddr_un *)&address->address)->sun_path);
    else if (address->address.ss_family == AF_INET6)
        snprintf(address->text, sizeof(address->text), "[%s]:%u",
                 inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host)), port_of(address));
    else
        snprintf(address->text, sizeof(address->text), "%s:%u",
                 inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host)), port_of(address));
}

/* Takes over SOCKET from another process. */
static int inherit_socket(struct listeners *listeners, struct inherited_socket *socket)
{
    struct config_address bound = {.length = sizeof(bound.address)};
    struct listen_address *address;
    int64_t id;

    if (getsockname(socket->fd, (struct sockaddr *)&bound.address, &bound.length) != 0)
        return -1;
    if (socket->text[0] == '\0')
        set_text(&bound);
    else
        memcpy(bound.text, socket->text, sizeof(bound.text));
    address = find_address(listeners, bound.text);
    if (address == NULL)
        address = add_address(listeners, &bound);
    id = address != NULL ? allocate_number(listeners) : NO_SOCKET;
    if (id == NO_SOCKET)
        return -1;
    address->shared = socket->shared;
    address->activated = socket->activated;
    address->pending = false;
    listeners->activated = socket->activated;
    listeners->socket[id] = (struct listen_socket){socket->fd, address->rows++, address};
    socket->fd = -1;
    return 0;
}

static void drain_nothing(void *context, int fd)
{
    (void)context, (void)fd;
}

struct listeners *listeners_open(const struct config *config, uint32_t count,
                                 struct inheritance *inheritance, char *why, size_t size)
{
    struct listeners *listeners = calloc(1, sizeof(*listeners));

    if (listeners == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    for (size_t i = 0; inheritance != NULL && i < inheritance->count; i++)
        if (inherit_socket(listeners, &inheritance->socket[i]) != 0) {
            snprintf(why, size, "cannot use an inherited socket: %s", strerror(errno));
            listeners_close(listeners);
            return NULL;
        }
    if (listeners_prepare(listeners, config, count, why, size) != 0) {
        listeners_close(listeners);
        return NULL;
    }
    listeners_commit(listeners, drain_nothing, NULL);
    return listeners;
}

void listeners_close(struct listeners *listeners)
{
    if (listeners == NULL)
        return;
    while (listeners->address_count > 0)
        remove_address(listeners, listeners->address_count - 1);
    free(listeners->socket);
    free(listeners->address);
    free(listeners);
}

/* Looking */

uint32_t listeners_count(const struct listeners *listeners)
{
    return listeners->count;
}

int listeners_fd(const struct listeners *listeners, uint32_t id)
{
    const struct listen_socket *socket = &listeners->socket[id];

    return socket->fd == NO_SOCKET || socket->address->pending ? -1 : socket->fd;
}

uint32_t listeners_row(const struct listeners *listeners, uint32_t id)
{
    return listeners->socket[id].row;
}

bool listeners_is_shared(const struct listeners *listeners, uint32_t id)
{
    return listeners->socket[id].fd != NO_SOCKET && listeners->socket[id].address->shared;
}

size_t listeners_export(const struct listeners *listeners, struct inherited_socket *socket)
{
    size_t count = 0;

    for (uint32_t i = 0; i < listeners->count; i++) {
        const struct listen_address *address = listeners->socket[i].address;

        if (listeners_fd(listeners, i) < 0)
            continue;
        socket[count].fd = listeners->socket[i].fd;
        socket[count].shared = address->shared;
        socket[count].activated = address->activated;
        memcpy(socket[count].text, address->address.text, sizeof(socket->text));
        count++;
    }
    return count;
}

/* The configured text with the bound port. */
static void describe_address(const struct config_address *address, char *text, size_t size)
{
    const char *colon = strrchr(address->text, ':');

    if (address->address.ss_family == AF_UNIX)
        snprintf(text, size, "%s", address->text);
    else
        snprintf(text, size, "%.*s:%u", (int)(colon - address->text), address->text,
                 port_of(address));
}

void listeners_describe(const struct listeners *listeners, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < listeners->address_count; i++) {
        char one[sizeof(listeners->address[i]->address.text) + 8];
        int written;

        describe_address(&listeners->address[i]->address, one, sizeof(one));
        written = snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "", one);
        if (written < 0 || (size_t)written >= size - used) {
            text[used] = '\0';
            return;
        }
        used += (size_t)written;
    }
}
