#include "daemon/master/listeners.h"

#include "daemon/master/listening.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { NO_LANE = -1 };

/* One address that is listened on. */
struct place {
    struct config_address address; /* with the port that is really bound */
    uint32_t rows;                 /* lanes it has */
    uint32_t rows_before;          /* what growing in vain goes back to */
    bool shared;  /* a UNIX socket, or handed in: one socket, which the master accepts from */
    bool handed;  /* by a service manager */
    bool fresh;   /* opened for a change that is not made yet */
    bool leaving; /* the change will close it */
};

struct lane {
    int fd; /* NO_LANE: the number is free */
    uint32_t row;
    struct place *place;
};

struct listeners {
    uint32_t backlog;
    bool handed; /* all were handed in by a service manager: the configuration is not asked */
    bool defer;  /* the kernel holds a connection back until its first bytes come */
    size_t place_count;
    struct place **place; /* in the order of the configuration; those that leave are last */
    uint32_t lanes, room; /* numbers in use, free ones among them included */
    struct lane *lane;    /* by number */
};

/* The lowest free number, or NO_LANE when memory is short. */
static int64_t free_number(struct listeners *listeners)
{
    uint32_t room = listeners->room == 0 ? 16 : listeners->room * 2;
    struct lane *larger;

    for (uint32_t i = 0; i < listeners->lanes; i++)
        if (listeners->lane[i].fd == NO_LANE)
            return i;
    if (listeners->lanes < listeners->room)
        return listeners->lanes++;
    larger = realloc(listeners->lane, room * sizeof(*larger));
    if (larger == NULL)
        return NO_LANE;
    listeners->lane = larger;
    listeners->room = room;
    return listeners->lanes++;
}

static void close_lane(struct listeners *listeners, uint32_t id)
{
    close(listeners->lane[id].fd);
    listeners->lane[id].fd = NO_LANE;
    while (listeners->lanes > 0 && listeners->lane[listeners->lanes - 1].fd == NO_LANE)
        listeners->lanes--;
}

static int add_lane(struct listeners *listeners, struct place *place)
{
    int64_t id = free_number(listeners);
    int fd;

    if (id == NO_LANE)
        return -1;
    listeners->lane[id].fd = NO_LANE;
    fd = listening_open(&place->address, listeners->backlog, listeners->defer);
    if (fd < 0)
        return -1;
    listeners->lane[id] = (struct lane){fd, place->rows++, place};
    return 0;
}

/* Lanes that nobody accepts from would keep their share of the clients waiting. */
static void cut_rows(struct listeners *listeners, struct place *place, uint32_t rows)
{
    int error = errno;

    for (uint32_t i = listeners->lanes; i-- > 0;)
        if (listeners->lane[i].fd != NO_LANE && listeners->lane[i].place == place &&
            listeners->lane[i].row >= rows)
            close_lane(listeners, i);
    if (place->rows > rows)
        place->rows = rows;
    errno = error;
}

/* The least number of rows of any address. */
static uint32_t rows_of_all(const struct listeners *listeners)
{
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < listeners->place_count; i++)
        if (!listeners->place[i]->shared && listeners->place[i]->rows < least)
            least = listeners->place[i]->rows;
    return least;
}

static int grow_to(struct listeners *listeners, uint32_t count)
{
    for (uint32_t row = rows_of_all(listeners); row < count; row++)
        for (size_t i = 0; i < listeners->place_count; i++)
            if (!listeners->place[i]->shared && listeners->place[i]->rows <= row &&
                add_lane(listeners, listeners->place[i]) != 0)
                return -1;
    return 0;
}

int listeners_grow(struct listeners *listeners, uint32_t count)
{
    for (size_t i = 0; i < listeners->place_count; i++)
        listeners->place[i]->rows_before = listeners->place[i]->rows;
    if (grow_to(listeners, count) == 0)
        return 0;
    for (size_t i = 0; i < listeners->place_count; i++)
        cut_rows(listeners, listeners->place[i], listeners->place[i]->rows_before);
    return -1;
}

/* Addresses, and changes of them */

static struct place *find_place(const struct listeners *listeners, const char *text)
{
    for (size_t i = 0; i < listeners->place_count; i++)
        if (strcmp(listeners->place[i]->address.text, text) == 0)
            return listeners->place[i];
    return NULL;
}

/* "*:80" may follow "127.0.0.1:80": we listen on that port ourselves, so a probe would find us. */
static bool port_is_ours(const struct listeners *listeners, in_port_t port)
{
    for (size_t i = 0; i < listeners->place_count; i++)
        if (listeners->place[i]->rows > 0 && listening_port(&listeners->place[i]->address) == port)
            return true;
    return false;
}

static int check_free(const struct listeners *listeners, const struct config_address *address,
                      char *why, size_t size)
{
    in_port_t port = listening_port(address);

    return port != 0 && port_is_ours(listeners, port) ? 0 : listening_check(address, why, size);
}

static bool is_unix(const struct place *place)
{
    return place->address.address.ss_family == AF_UNIX;
}

static struct place *add_place(struct listeners *listeners, const struct config_address *address)
{
    struct place **larger =
        realloc(listeners->place, (listeners->place_count + 1) * sizeof(struct place *));
    struct place *place = calloc(1, sizeof(*place));

    if (larger != NULL)
        listeners->place = larger;
    if (larger == NULL || place == NULL) {
        free(place);
        return NULL;
    }
    place->address = *address;
    place->fresh = true;
    listeners->place[listeners->place_count++] = place;
    return place;
}

static void remove_place(struct listeners *listeners, size_t at)
{
    cut_rows(listeners, listeners->place[at], 0);
    free(listeners->place[at]);
    listeners->place_count--;
    memmove(&listeners->place[at], &listeners->place[at + 1],
            (listeners->place_count - at) * sizeof(struct place *));
}

/* A socket that was handed in is the service manager's, name and all. */
static void remove_name(const struct place *place)
{
    if (is_unix(place) && place->rows > 0 && !place->handed)
        unlink(((const struct sockaddr_un *)&place->address.address)->sun_path);
}

void listeners_remove_names(const struct listeners *listeners)
{
    for (size_t i = 0; listeners != NULL && i < listeners->place_count; i++)
        remove_name(listeners->place[i]);
}

void listeners_abandon(struct listeners *listeners)
{
    for (size_t i = listeners->place_count; i-- > 0;) {
        listeners->place[i]->leaving = false;
        if (!listeners->place[i]->fresh)
            continue;
        remove_name(listeners->place[i]);
        remove_place(listeners, i);
    }
}

/* Those of the list come first, in its order. */
static void put_in_order(struct listeners *listeners, const struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        for (size_t p = i; p < listeners->place_count; p++)
            if (strcmp(listeners->place[p]->address.text, list->item[i].text) == 0) {
                struct place *found = listeners->place[p];

                memmove(&listeners->place[i + 1], &listeners->place[i],
                        (p - i) * sizeof(struct place *));
                listeners->place[i] = found;
            }
}

/* Finds or makes the place of every address in LIST; the others are marked as leaving. */
static int arrange(struct listeners *listeners, const struct config_list *list, char *why,
                   size_t size)
{
    for (size_t i = 0; i < listeners->place_count; i++)
        listeners->place[i]->leaving = true;
    for (size_t i = 0; i < list->count; i++) {
        struct place *place = find_place(listeners, list->item[i].text);

        if (place != NULL) {
            place->leaving = false;
            continue;
        }
        if (check_free(listeners, &list->item[i], why, size) != 0)
            return -1;
        place = add_place(listeners, &list->item[i]);
        if (place == NULL) {
            snprintf(why, size, "out of memory");
            return -1;
        }
        place->shared = is_unix(place);
        if (place->shared && add_lane(listeners, place) != 0) {
            snprintf(why, size, "cannot listen on %s: %s", place->address.text, strerror(errno));
            return -1;
        }
    }
    put_in_order(listeners, list);
    return 0;
}

int listeners_prepare(struct listeners *listeners, const struct config *config, uint32_t count,
                      char *why, size_t size)
{
    uint32_t rows = rows_of_all(listeners);

    listeners->backlog = config->connections_backlog;
    listeners->defer = config->connections_defer_accept;
    if (listeners->handed || arrange(listeners, &config->server_listen, why, size) == 0) {
        if (listeners_grow(listeners, rows != UINT32_MAX && rows > count ? rows : count) == 0)
            return 0;
        snprintf(why, size, "cannot open the listening sockets: %s", strerror(errno));
    }
    listeners_abandon(listeners);
    return -1;
}

void listeners_commit(struct listeners *listeners, void (*rest)(void *context, int fd),
                      void *context)
{
    for (uint32_t i = 0; i < listeners->lanes; i++) {
        const struct lane *lane = &listeners->lane[i];

        if (lane->fd == NO_LANE)
            continue;
        if (lane->place->leaving)
            rest(context, lane->fd);
        else
            listening_adjust(lane->fd, listeners->backlog, listeners->defer);
    }
    for (size_t i = listeners->place_count; i-- > 0;) {
        listeners->place[i]->fresh = false;
        if (!listeners->place[i]->leaving)
            continue;
        remove_name(listeners->place[i]);
        remove_place(listeners, i);
    }
}

static void nothing_left(void *context, int fd)
{
    (void)context, (void)fd;
}

/* A socket from another process becomes a lane of its address. */
static int adopt(struct listeners *listeners, struct inherited_socket *socket)
{
    struct config_address address = {.length = sizeof(address.address)};
    struct place *place;
    int64_t id;

    if (getsockname(socket->fd, (struct sockaddr *)&address.address, &address.length) != 0)
        return -1;
    if (socket->text[0] == '\0')
        listening_name(&address);
    else
        memcpy(address.text, socket->text, sizeof(address.text));
    place = find_place(listeners, address.text);
    if (place == NULL)
        place = add_place(listeners, &address);
    id = place != NULL ? free_number(listeners) : NO_LANE;
    if (id == NO_LANE)
        return -1;
    place->shared = socket->shared;
    place->handed = socket->handed;
    place->fresh = false;
    listeners->handed = socket->handed;
    listeners->lane[id] = (struct lane){socket->fd, place->rows++, place};
    socket->fd = -1;
    return 0;
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
        if (adopt(listeners, &inheritance->socket[i]) != 0) {
            snprintf(why, size, "cannot take an inherited socket: %s", strerror(errno));
            listeners_close(listeners);
            return NULL;
        }
    if (listeners_prepare(listeners, config, count, why, size) != 0) {
        listeners_close(listeners);
        return NULL;
    }
    listeners_commit(listeners, nothing_left, NULL);
    return listeners;
}

void listeners_close(struct listeners *listeners)
{
    if (listeners == NULL)
        return;
    while (listeners->place_count > 0)
        remove_place(listeners, listeners->place_count - 1);
    free(listeners->lane);
    free(listeners->place);
    free(listeners);
}

uint32_t listeners_lanes(const struct listeners *listeners)
{
    return listeners->lanes;
}

int listeners_lane(const struct listeners *listeners, uint32_t id)
{
    const struct lane *lane = &listeners->lane[id];

    return lane->fd == NO_LANE || lane->place->fresh ? NO_LANE : lane->fd;
}

bool listeners_is_shared(const struct listeners *listeners, uint32_t id)
{
    return listeners->lane[id].fd != NO_LANE && listeners->lane[id].place->shared;
}

size_t listeners_list(const struct listeners *listeners, struct inherited_socket *socket)
{
    size_t count = 0;

    for (uint32_t i = 0; i < listeners->lanes; i++) {
        const struct place *place = listeners->lane[i].place;

        if (listeners_lane(listeners, i) < 0)
            continue;
        socket[count].fd = listeners->lane[i].fd;
        socket[count].shared = place->shared;
        socket[count].handed = place->handed;
        memcpy(socket[count].text, place->address.text, sizeof(socket->text));
        count++;
    }
    return count;
}

uint32_t listeners_row(const struct listeners *listeners, uint32_t id)
{
    return listeners->lane[id].row;
}

void listeners_describe(const struct listeners *listeners, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < listeners->place_count; i++) {
        char one[sizeof(listeners->place[i]->address.text) + 8];
        int written;

        listening_describe(&listeners->place[i]->address, one, sizeof(one));
        written = snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "", one);
        if (written < 0 || (size_t)written >= size - used) {
            text[used] = '\0';
            return;
        }
        used += (size_t)written;
    }
}
