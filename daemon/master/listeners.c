#include "daemon/master/listeners.h"

#include "daemon/base/directory.h"
#include "daemon/base/messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { NO_SOCKET = -1 };

struct listen_address {
    struct config_address address; /* its port is the bound one */
    uint32_t rows;                 /* number of its sockets */
    uint32_t rows_before;          /* number of rows to restore after a failed listeners_grow() */
    bool shared; /* a UNIX or activated socket: there is only one, and the master accepts from it */
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
    bool activated; /* sockets were passed by a service manager: ignore the configured addresses */
    bool defer;     /* TCP_DEFER_ACCEPT: the kernel reports a connection with its first bytes */
    size_t address_count;
    struct listen_address **address; /* in the order of the configuration, removed ones last */
    uint32_t count, room;            /* numbers in use, including free ones in between */
    struct listen_socket *socket;    /* by number */
};

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

static int add_listen_socket(struct listeners *listeners, struct listen_address *address)
{
    int64_t id = allocate_number(listeners);
    int fd;

    if (id == NO_SOCKET)
        return -1;
    listeners->socket[id].fd = NO_SOCKET;
    fd = listen_socket_open(&address->address, listeners->backlog, listeners->defer);
    if (fd < 0)
        return -1;
    listeners->socket[id] = (struct listen_socket){fd, address->rows++, address};
    return 0;
}

/*
 * Closes the sockets from row ROWS on, because connections would wait in a queue that nobody
 * accepts from.
 */
static void cut_rows(struct listeners *listeners, struct listen_address *address, uint32_t rows)
{
    int error = errno;

    for (uint32_t i = listeners->count; i-- > 0;) {
        struct listen_socket *socket = &listeners->socket[i];

        if (socket->fd == NO_SOCKET || socket->address != address || socket->row < rows)
            continue;
        close(socket->fd);
        socket->fd = NO_SOCKET;
    }
    while (listeners->count > 0 && listeners->socket[listeners->count - 1].fd == NO_SOCKET)
        listeners->count--;
    if (address->rows > rows)
        address->rows = rows;
    errno = error;
}

/* The smallest number of rows of any address; UINT32_MAX if all are shared. */
static uint32_t minimum_rows(const struct listeners *listeners)
{
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < listeners->address_count; i++)
        if (!listeners->address[i]->shared && listeners->address[i]->rows < least)
            least = listeners->address[i]->rows;
    return least;
}

/* The largest number of rows of any address that is not shared. */
static uint32_t maximum_rows(const struct listeners *listeners)
{
    uint32_t most = 0;

    for (size_t i = 0; i < listeners->address_count; i++)
        if (!listeners->address[i]->shared && listeners->address[i]->rows > most)
            most = listeners->address[i]->rows;
    return most;
}

static int grow_to(struct listeners *listeners, uint32_t count)
{
    for (uint32_t row = minimum_rows(listeners); row < count; row++)
        for (size_t i = 0; i < listeners->address_count; i++)
            if (!listeners->address[i]->shared && listeners->address[i]->rows <= row &&
                add_listen_socket(listeners, listeners->address[i]) != 0)
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

static bool is_listen_address(const struct listen_address *address,
                              const struct config_address *wanted)
{
    return address->address.tls == wanted->tls && address->address.proxy == wanted->proxy &&
           strcmp(address->address.text, wanted->text) == 0;
}

static struct listen_address *find_address(const struct listeners *listeners,
                                           const struct config_address *wanted)
{
    for (size_t i = 0; i < listeners->address_count; i++)
        if (is_listen_address(listeners->address[i], wanted))
            return listeners->address[i];
    return NULL;
}

/*
 * True if we listen on the port already: "*:80" may replace "127.0.0.1:80", and a probe would fail.
 */
static bool listens_on_port(const struct listeners *listeners, in_port_t port)
{
    for (size_t i = 0; i < listeners->address_count; i++)
        if (listeners->address[i]->rows > 0 &&
            listen_socket_port(&listeners->address[i]->address) == port)
            return true;
    return false;
}

static bool is_unix_address(const struct listen_address *address)
{
    return address->address.address.ss_family == AF_UNIX;
}

static struct listen_address *append_listen_address(struct listeners *listeners,
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
    if (is_unix_address(address) && address->rows > 0 && !address->activated)
        directory_remove(((const struct sockaddr_un *)&address->address.address)->sun_path);
}

void listeners_unlink(const struct listeners *listeners)
{
    for (size_t i = 0; listeners != NULL && i < listeners->address_count; i++)
        unlink_address(listeners->address[i]);
}

void listeners_withdraw(const struct listeners *listeners)
{
    for (uint32_t i = 0; i < listeners->count; i++)
        if (listeners_is_ours(listeners, i))
            listen_socket_refuse(&listeners->socket[i].address->address, listeners->socket[i].fd);
    listeners_unlink(listeners);
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
static void sort_addresses(struct listeners *listeners, const struct config_addresses *list)
{
    for (size_t i = 0; i < list->count; i++)
        for (size_t k = i; k < listeners->address_count; k++)
            if (is_listen_address(listeners->address[k], &list->item[i])) {
                struct listen_address *found = listeners->address[k];

                memmove(&listeners->address[i + 1], &listeners->address[i],
                        (k - i) * sizeof(struct listen_address *));
                listeners->address[i] = found;
            }
}

/* True if we listen on the path of CONFIGURED, which is a UNIX socket, in another way. */
static bool path_is_ours(const struct listeners *listeners, const struct config_address *configured)
{
    for (size_t i = 0; i < listeners->address_count; i++)
        if (is_unix_address(listeners->address[i]) &&
            strcmp(listeners->address[i]->address.text, configured->text) == 0)
            return true;
    return false;
}

/* Adds an address that is not listened on yet; a UNIX socket is opened at once. */
static int prepare_address(struct listeners *listeners, const struct config_address *configured,
                           char *why, size_t size)
{
    in_port_t port = listen_socket_port(configured);
    struct listen_address *address;

    /* A second socket would take the path, and could not give it back if the reload fails. */
    if (path_is_ours(listeners, configured)) {
        snprintf(why, size,
                 "a reload cannot change https:// or proxy.listen of %s: use another path, or "
                 "restart the server",
                 configured->text);
        return -1;
    }
    if ((port == 0 || !listens_on_port(listeners, port)) &&
        listen_socket_check(configured, "server.listen", why, size) != 0)
        return -1;
    address = append_listen_address(listeners, configured);
    if (address == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    address->shared = is_unix_address(address);
    if (address->shared && add_listen_socket(listeners, address) != 0) {
        snprintf(why, size, "cannot listen on %s: %s", address->address.text, strerror(errno));
        return -1;
    }
    return 0;
}

/* Marks addresses that are not in LIST as removed, and adds new ones. */
static int prepare_addresses(struct listeners *listeners, const struct config_addresses *list,
                             char *why, size_t size)
{
    for (size_t i = 0; i < listeners->address_count; i++)
        listeners->address[i]->removed = true;
    for (size_t i = 0; i < list->count; i++) {
        struct listen_address *address = find_address(listeners, &list->item[i]);

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
    uint32_t rows = minimum_rows(listeners);

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

/* What the connections of ADDRESS begin with. */
static uint8_t opening_of(const struct listen_address *address)
{
    return (uint8_t)((address->address.proxy ? OPENING_PROXY : 0) |
                     (address->address.tls ? OPENING_TLS : 0));
}

void listeners_commit(struct listeners *listeners,
                      void (*drain)(void *context, int fd, uint8_t opening), void *context)
{
    for (uint32_t i = 0; i < listeners->count; i++) {
        const struct listen_socket *socket = &listeners->socket[i];

        if (socket->fd == NO_SOCKET)
            continue;
        if (socket->address->removed)
            drain(context, socket->fd, opening_of(socket->address));
        else
            listen_socket_update(socket->fd, listeners->backlog, listeners->defer);
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

/* Takes over SOCKET from another process. */
static int inherit_socket(struct listeners *listeners, struct inherited_socket *socket)
{
    struct config_address bound = {
        .length = sizeof(bound.address), .tls = socket->tls, .proxy = socket->proxy};
    struct listen_address *address;
    int64_t id;

    if (getsockname(socket->fd, (struct sockaddr *)&bound.address, &bound.length) != 0)
        return -1;
    if (socket->text[0] == '\0')
        listen_socket_set_text(&bound);
    else
        listen_socket_set_configured(&bound, socket->text);
    address = find_address(listeners, &bound);
    if (address == NULL)
        address = append_listen_address(listeners, &bound);
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

/* Returns 0, or -1 with WHY. */
static int inherit_all(struct listeners *listeners, const struct config *config,
                       struct inheritance *inheritance, char *why, size_t size)
{
    for (size_t i = 0; inheritance != NULL && i < inheritance->count; i++) {
        struct inherited_socket *socket = &inheritance->socket[i];

        if (socket->metrics)
            continue;
        if (socket->activated && socket->proxy && config->proxy_trusted.set.count == 0) {
            snprintf(why, size, "a socket is named proxy, but [proxy] trusted names no proxy");
            return -1;
        }
        if (inherit_socket(listeners, socket) != 0) {
            snprintf(why, size, "cannot use an inherited socket: %s", strerror(errno));
            return -1;
        }
    }
    return 0;
}

static void drain_nothing(void *context, int fd, uint8_t opening)
{
    (void)context, (void)fd, (void)opening;
}

struct listeners *listeners_open(const struct config *config, uint32_t count,
                                 struct inheritance *inheritance, char *why, size_t size)
{
    struct listeners *listeners = calloc(1, sizeof(*listeners));

    if (listeners == NULL) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    if (inherit_all(listeners, config, inheritance, why, size) != 0) {
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

uint64_t listeners_waiting(const struct listeners *listeners)
{
    uint64_t waiting = 0;

    for (uint32_t i = 0; listeners != NULL && i < listeners->count; i++)
        if (listeners_fd(listeners, i) >= 0)
            waiting += listen_socket_waiting(listeners_fd(listeners, i));
    return waiting;
}

bool listeners_is_shared(const struct listeners *listeners, uint32_t id)
{
    return listeners->socket[id].fd != NO_SOCKET && listeners->socket[id].address->shared;
}

uint8_t listeners_opening(const struct listeners *listeners, uint32_t id)
{
    return listeners->socket[id].fd != NO_SOCKET ? opening_of(listeners->socket[id].address) : 0;
}

bool listeners_are_activated(const struct listeners *listeners)
{
    return listeners != NULL && listeners->activated;
}

bool listeners_need_tls(const struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->address_count; i++)
        if (listeners->address[i]->address.tls && !listeners->address[i]->removed)
            return true;
    return false;
}

bool listeners_is_ours(const struct listeners *listeners, uint32_t id)
{
    return listeners->socket[id].fd != NO_SOCKET && !listeners->socket[id].address->activated;
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
        socket[count].tls = address->address.tls;
        socket[count].proxy = address->address.proxy;
        socket[count].metrics = false;
        memcpy(socket[count].text, address->address.text, sizeof(socket->text));
        count++;
    }
    return count;
}

void listeners_describe(const struct listeners *listeners, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < listeners->address_count; i++) {
        char one[sizeof(listeners->address[i]->address.text) + 8];
        int written;

        listen_socket_describe(&listeners->address[i]->address, one, sizeof(one));
        written = snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "", one);
        if (written < 0 || (size_t)written >= size - used) {
            text[used] = '\0';
            return;
        }
        used += (size_t)written;
    }
}

/* Assignment to workers */

/* Makes room for WANTED owners. Returns 0, or -1: out of memory. */
static int reserve_owners(uint32_t **owner, uint32_t *count, uint32_t wanted)
{
    uint32_t *larger;

    if (wanted <= *count)
        return 0;
    larger = realloc(*owner, wanted * sizeof(*larger));
    if (larger == NULL)
        return -1;
    *owner = larger;
    while (*count < wanted)
        larger[(*count)++] = LISTENER_UNASSIGNED;
    return 0;
}

static struct listener_target *find_target(struct listener_target *targets, uint32_t count,
                                           uint32_t worker)
{
    for (uint32_t i = 0; i < count; i++)
        if (targets[i].worker == worker)
            return &targets[i];
    return NULL;
}

/* Each target keeps its first rows, up to its share; those with the fewest get the others. */
static void choose_row_owners(struct listener_assign *assign, uint32_t rows,
                              struct listener_target *targets, uint32_t count)
{
    uint32_t share = rows / count, remainder = rows % count;

    for (uint32_t i = 0; i < count; i++)
        targets[i].rows = 0;
    for (uint32_t i = 0; i < rows; i++) {
        struct listener_target *target = find_target(targets, count, assign->row_owner[i]);

        if (target != NULL && target->rows < share + (remainder > 0)) {
            remainder -= target->rows == share;
            target->rows++;
        } else {
            assign->row_owner[i] = LISTENER_UNASSIGNED;
        }
    }
    for (uint32_t i = 0; i < rows; i++) {
        struct listener_target *fewest = targets;

        if (assign->row_owner[i] != LISTENER_UNASSIGNED)
            continue;
        for (uint32_t j = 1; j < count; j++)
            if (targets[j].rows < fewest->rows)
                fewest = &targets[j];
        fewest->rows++;
        assign->row_owner[i] = fewest->worker;
    }
}

int listener_assign_update(struct listener_assign *assign, const struct listeners *listeners,
                           struct listener_target *targets, uint32_t count)
{
    uint32_t sockets = listeners_count(listeners), rows = maximum_rows(listeners);

    if (reserve_owners(&assign->owner, &assign->count, sockets) != 0 ||
        reserve_owners(&assign->row_owner, &assign->row_count, rows) != 0)
        return -1;
    if (count == 0)
        return 0;
    choose_row_owners(assign, rows, targets, count);
    for (uint32_t i = 0; i < sockets; i++) {
        const struct message_listen_socket message = {i, listeners_row(listeners, i),
                                                      listeners_opening(listeners, i)};
        int fd = listeners_is_shared(listeners, i) ? -1 : listeners_fd(listeners, i);
        uint32_t owner = fd >= 0 ? assign->row_owner[message.row] : LISTENER_UNASSIGNED;
        const struct listener_target *to = find_target(targets, count, owner);
        const struct listener_target *from = find_target(targets, count, assign->owner[i]);

        assign->owner[i] = owner;
        if (to == NULL || to == from)
            continue;
        channel_send(to->commands, MESSAGE_LISTEN_SOCKET_ADD, &message, sizeof(message), fd, false);
        if (from != NULL)
            channel_send(from->commands, MESSAGE_LISTEN_SOCKET_DROP, &message, sizeof(message), -1,
                         false);
    }
    return 0;
}

bool listener_assign_remove(struct listener_assign *assign, uint32_t worker, uint32_t id)
{
    if (id >= assign->count)
        return false;
    if (assign->owner[id] == worker)
        assign->owner[id] = LISTENER_UNASSIGNED;
    return true;
}

void listener_assign_remove_worker(struct listener_assign *assign, uint32_t worker)
{
    for (uint32_t i = 0; i < assign->count; i++)
        listener_assign_remove(assign, worker, i);
}

void listener_assign_free(struct listener_assign *assign)
{
    free(assign->owner);
    free(assign->row_owner);
    *assign = (struct listener_assign){0};
}
