#include "loadgen/engine/curl_sockets.h"

#include "common/clock.h"

#include "loadgen/base/interrupts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/*
 * The registration of one file descriptor. Kept after close() for the next socket with the same
 * number.
 */
struct watch {
    struct event *event;
    struct curl_group *group;
    const CURL *easy;   /* that libcurl registered it for last */
    short registered;   /* EV_READ, EV_WRITE; 0: not on the loop */
    bool parked;        /* libcurl unregistered it; still in epoll */
    bool reports_close; /* opened by open_socket(): close_socket() will be called */
};

struct curl_sockets {
    struct event_base *base;
    struct watch **by_fd;
    size_t capacity;
};

static short events_of(int what)
{
    switch (what) {
    case CURL_POLL_IN:
        return EV_READ;
    case CURL_POLL_OUT:
        return EV_WRITE;
    case CURL_POLL_INOUT:
        return EV_READ | EV_WRITE;
    default:
        return 0;
    }
}

static struct watch *find_watch(const struct curl_sockets *sockets, int fd)
{
    return (size_t)fd < sockets->capacity ? sockets->by_fd[fd] : NULL;
}

static bool reserve_group(struct curl_sockets *sockets, size_t fd)
{
    size_t capacity = sockets->capacity * 2 > fd ? sockets->capacity * 2 : fd + 64;
    struct watch **grown;

    if (fd < sockets->capacity)
        return true;
    grown = realloc(sockets->by_fd, capacity * sizeof(*grown));
    if (grown == NULL)
        return false;
    memset(grown + sockets->capacity, 0, (capacity - sockets->capacity) * sizeof(*grown));
    sockets->by_fd = grown;
    sockets->capacity = capacity;
    return true;
}

/*
 * Makes the timer fire when it is due, or earlier. Most calls postpone the timer, which leaves the
 * armed event as it is and costs nothing; if it fires early, group_on_timer() arms it again.
 */
static void arm_group_timer(struct curl_group *group)
{
    uint64_t now_ns, wait_us;
    struct timeval wait;

    if (group->timer_armed_ns <= group->timer_due_ns)
        return;
    now_ns = clock_monotonic_ns();
    wait_us = group->timer_due_ns > now_ns ? (group->timer_due_ns - now_ns) / NS_PER_US + 1 : 0;
    wait = (struct timeval){(time_t)(wait_us / 1000000), (suseconds_t)(wait_us % 1000000)};
    events_add(group->timer, &wait);
    group->timer_armed_ns = group->timer_due_ns;
}

/* Calls libcurl for an event or a timeout, then ended() if there are results. */
static void run_action(struct curl_group *group, curl_socket_t fd, int ready)
{
    group->in_action = true;
    group->closed = false;
    curl_multi_socket_action(group->multi, fd, ready, &group->running);
    group->ended(group);
    group->in_action = false;
    arm_group_timer(group);
}

static void group_on_timer(evutil_socket_t fd, short events, void *context)
{
    struct curl_group *group = context;

    (void)fd;
    (void)events;
    group->timer_armed_ns = UINT64_MAX;
    if (group->timer_due_ns > clock_monotonic_ns()) {
        arm_group_timer(group);
        return;
    }
    group->timer_due_ns = UINT64_MAX;
    run_action(group, CURL_SOCKET_TIMEOUT, 0);
}

/* CURLMOPT_TIMERFUNCTION */
static int on_timer_wanted(CURLM *multi, long wait_ms, void *context)
{
    struct curl_group *group = context;

    (void)multi;
    group->timer_due_ns = wait_ms < 0    ? UINT64_MAX
                          : wait_ms == 0 ? 0
                                         : clock_monotonic_ns() + (uint64_t)wait_ms * NS_PER_MS;
    if (!group->in_action)
        arm_group_timer(group);
    return 0;
}

bool curl_sockets_has_bytes(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void on_socket(evutil_socket_t fd, short events, void *context)
{
    struct watch *watch = context;
    int ready = ((events & EV_READ) != 0 ? CURL_CSELECT_IN : 0) |
                ((events & EV_WRITE) != 0 ? CURL_CSELECT_OUT : 0);

    if (!watch->parked) {
        run_action(watch->group, fd, ready);
        return;
    }
    event_del(watch->event);
    watch->registered = 0;
    if (watch->group->unsolicited != NULL && curl_sockets_has_bytes(fd))
        watch->group->unsolicited(watch->group);
}

static struct watch *make_watch(struct curl_sockets *sockets, int fd)
{
    struct watch *watch = find_watch(sockets, fd);

    if (watch != NULL)
        return watch;
    if (!reserve_group(sockets, (size_t)fd))
        return NULL;
    watch = calloc(1, sizeof(*watch));
    if (watch != NULL)
        watch->event = event_new(sockets->base, fd, 0, on_socket, watch);
    if (watch == NULL || watch->event == NULL) {
        free(watch);
        return NULL;
    }
    sockets->by_fd[fd] = watch;
    return watch;
}

static void set_registered(struct curl_sockets *sockets, struct watch *watch, int fd, short events)
{
    if (watch->registered == events)
        return;
    if (watch->registered != 0)
        event_del(watch->event);
    watch->registered = events;
    if (events == 0)
        return;
    event_assign(watch->event, sockets->base, fd, (short)(events | EV_PERSIST), on_socket, watch);
    events_add(watch->event, NULL);
}

/*
 * Whether an unregistered socket may stay in epoll: it was registered since it was opened, and its
 * connection has been established and not failed. libcurl 8 also unregisters sockets that it was
 * waiting to write to: it reads then, too.
 */
static bool can_park(const struct watch *watch, int fd)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof(peer);

    return watch->reports_close && watch->registered != 0 &&
           (watch->registered == EV_READ || getpeername(fd, (struct sockaddr *)&peer, &size) == 0);
}

/* CURLMOPT_SOCKETFUNCTION */
static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *context, void *unused)
{
    struct curl_group *group = context;
    struct curl_sockets *sockets = group->sockets;
    struct watch *watch = make_watch(sockets, fd);

    (void)unused;
    if (watch == NULL)
        return -1;
    watch->group = group;
    watch->easy = easy;
    watch->parked = what == CURL_POLL_REMOVE && can_park(watch, fd);
    set_registered(sockets, watch, fd, watch->parked ? EV_READ : events_of(what));
    return 0;
}

/* CURLOPT_OPENSOCKETFUNCTION */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct curl_sockets *sockets = context;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    struct watch *watch = fd >= 0 ? make_watch(sockets, fd) : NULL;

    (void)purpose;
    if (watch != NULL)
        watch->reports_close = true;
    return fd >= 0 ? fd : CURL_SOCKET_BAD;
}

/* CURLOPT_CLOSESOCKETFUNCTION */
static int close_socket(void *context, curl_socket_t fd)
{
    struct curl_sockets *sockets = context;
    struct watch *watch = find_watch(sockets, fd);

    if (watch != NULL) {
        if (watch->group != NULL)
            watch->group->closed = true;
        set_registered(sockets, watch, fd, 0);
        watch->parked = false;
        watch->reports_close = false;
    }
    return close(fd);
}

struct curl_sockets *curl_sockets_create(struct event_base *base)
{
    struct curl_sockets *sockets = calloc(1, sizeof(*sockets));

    if (sockets != NULL)
        sockets->base = base;
    return sockets;
}

void curl_sockets_destroy(struct curl_sockets *sockets)
{
    if (sockets == NULL)
        return;
    for (size_t fd = 0; fd < sockets->capacity; fd++)
        if (sockets->by_fd[fd] != NULL) {
            event_free(sockets->by_fd[fd]->event);
            free(sockets->by_fd[fd]);
        }
    free(sockets->by_fd);
    free(sockets);
}

bool curl_sockets_adopt(struct curl_sockets *sockets, CURL *easy)
{
    return curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, sockets) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, sockets) == CURLE_OK;
}

/* Initializes *group, which calls ENDED. Returns false if out of memory. */
static bool curl_group_begin(struct curl_group *group, struct curl_sockets *sockets,
                             void (*ended)(struct curl_group *group))
{
    *group = (struct curl_group){
        .sockets = sockets,
        .multi = curl_multi_init(),
        .timer_due_ns = UINT64_MAX,
        .timer_armed_ns = UINT64_MAX,
        .ended = ended,
    };
    group->timer = event_new(sockets->base, -1, 0, group_on_timer, group);
    return group->multi != NULL && group->timer != NULL &&
           curl_multi_setopt(group->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted) == CURLM_OK &&
           curl_multi_setopt(group->multi, CURLMOPT_SOCKETDATA, group) == CURLM_OK &&
           curl_multi_setopt(group->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted) == CURLM_OK &&
           curl_multi_setopt(group->multi, CURLMOPT_TIMERDATA, group) == CURLM_OK;
}

void curl_group_run_added(struct curl_group *group)
{
    group->timer_due_ns = UINT64_MAX;
    curl_multi_socket_action(group->multi, CURL_SOCKET_TIMEOUT, 0, &group->running);
}

void curl_group_check(struct curl_group *group, const CURL *easy)
{
    const struct curl_sockets *sockets = group->sockets;

    for (size_t fd = 0; fd < sockets->capacity; fd++) {
        const struct watch *watch = sockets->by_fd[fd];

        if (watch != NULL && watch->group == group && watch->easy == easy &&
            watch->registered != 0 && !watch->parked) {
            run_action(group, (curl_socket_t)fd, 0);
            return;
        }
    }
}

void curl_group_call_again(struct curl_group *group)
{
    group->timer_due_ns = 0;
    if (!group->in_action)
        arm_group_timer(group);
}

/* Call after all its easy handles have been removed. */
static void curl_group_end(struct curl_group *group)
{
    if (group->multi != NULL)
        curl_multi_cleanup(group->multi);
    if (group->timer != NULL)
        event_free(group->timer);
}

struct curl_group *curl_groups_get(struct curl_groups *groups, uint32_t slot)
{
    uint32_t number = slot / groups->slots_per_group;
    struct curl_group **grown, *group;

    if (number < groups->count)
        return groups->group[number];
    grown = realloc(groups->group, (groups->count + 1) * sizeof(struct curl_group *));
    if (grown == NULL)
        return NULL;
    groups->group = grown;
    group = calloc(1, groups->group_bytes);
    if (group == NULL)
        return NULL;
    groups->group[groups->count++] = group;
    if (!curl_group_begin(group, groups->sockets, groups->ended))
        return NULL;
    group->unsolicited = groups->unsolicited;
    return group;
}

void curl_groups_end(struct curl_groups *groups)
{
    for (uint32_t i = 0; i < groups->count; i++) {
        curl_group_end(groups->group[i]);
        free(groups->group[i]);
    }
    free(groups->group);
}
