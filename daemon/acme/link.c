#include "daemon/acme/link.h"

#include "common/clock.h"
#include "daemon/base/channel.h"
#include "daemon/base/loop.h"
#include "daemon/config/acme.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct link {
    struct event_base *base;
    struct channel *channel;
    struct event *timer;
    bool ended;        /* the master has gone, or closed the channel */
    bool set;          /* the workers answer the last challenge */
    bool record_ended; /* the program for the last DNS record has */
    struct message_acme_record_done record;
    bool requested;      /* the master has requested something since the last wait for it */
    uint32_t key_change; /* last requested; 0: none */
    uint32_t renewal[ACME_NAMES_MAX]; /* last requested, by the number of the name; 0: none */
    uint64_t alive_ns;                /* time of the last sign of life, monotonic */
};

static void on_link_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct link *link = owner;
    const struct message_acme_renew *renew = data;
    const struct message_acme_change_key *change = data;

    (void)length, (void)fd;
    if (kind == MESSAGE_ACME_CHALLENGE_SET) {
        link->set = true;
    } else if (kind == MESSAGE_ACME_RECORD_DONE) {
        memcpy(&link->record, data, sizeof(link->record));
        link->record_ended = true;
    } else if (kind == MESSAGE_ACME_CHANGE_KEY) {
        link->key_change = change->change;
        link->requested = true;
    } else if (renew->name < ACME_NAMES_MAX) {
        link->renewal[renew->name] = renew->renewal;
        link->requested = true;
    }
}

static void on_link_closed(void *owner)
{
    struct link *link = owner;

    link->ended = true;
}

static void on_link_fault(void *owner, const char *what)
{
    (void)what;
    on_link_closed(owner);
}

static void on_link_timer(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what, (void)argument; /* the loop returns */
}

struct link *link_new(int fd)
{
    struct link *link = calloc(1, sizeof(*link));
    const struct channel_owner owner = {.message = on_link_message,
                                        .closed = on_link_closed,
                                        .fault = on_link_fault,
                                        .owner = link};

    if (link == NULL)
        return NULL;
    link->base = event_base_new();
    if (link->base != NULL) {
        link->channel = channel_open(link->base, fd, ROUTE_ACME_ORDERS, &owner);
        link->timer = event_new(link->base, -1, 0, on_link_timer, link);
    }
    if (link->channel != NULL && link->timer != NULL)
        return link;
    link_free(link);
    return NULL;
}

void link_free(struct link *link)
{
    channel_close(link->channel);
    loop_free_event(link->timer);
    if (link->base != NULL)
        event_base_free(link->base);
    free(link);
}

static void show_life(struct link *link)
{
    uint64_t now = clock_monotonic_ns();

    if (now - link->alive_ns < NS_PER_S)
        return;
    link->alive_ns = now;
    channel_send(link->channel, MESSAGE_ACME_ALIVE, NULL, 0, -1, false);
}

bool link_pulse(struct link *link)
{
    show_life(link);
    event_base_loop(link->base, EVLOOP_NONBLOCK);
    return !link->ended;
}

/* Waits until the next event or for MS. */
static void run_loop(struct link *link, uint64_t ms)
{
    loop_start_timer(link->timer, ms);
    event_base_loop(link->base, EVLOOP_ONCE);
    event_del(link->timer);
}

/* Waits for MS, or until *DONE. Returns false if the process must end. */
static bool wait_until(struct link *link, uint32_t ms, const bool *done)
{
    uint64_t end = clock_monotonic_ns() + ms * NS_PER_MS, now;

    while (!link->ended && !*done && (now = clock_monotonic_ns()) < end) {
        uint64_t left_ms = (end - now) / NS_PER_MS + 1;

        show_life(link);
        run_loop(link, left_ms < 1000 ? left_ms : 1000);
    }
    return !link->ended;
}

bool link_wait(struct link *link, uint32_t ms)
{
    static const bool never = false;

    return wait_until(link, ms, &never);
}

bool link_wait_for_request(struct link *link, uint32_t ms)
{
    bool lives = wait_until(link, ms, &link->requested);

    link->requested = false;
    return lives;
}

uint32_t link_renewal(const struct link *link, uint32_t name)
{
    return link->renewal[name];
}

uint32_t link_key_change(const struct link *link)
{
    return link->key_change;
}

void link_log(struct link *link, enum level level, const char *format, ...)
{
    _Alignas(
        struct message_acme_event) char space[sizeof(struct message_acme_event) + ACME_EVENT_BYTES];
    struct message_acme_event *message = (struct message_acme_event *)space;
    va_list arguments;

    message->level = (uint32_t)level;
    va_start(arguments, format);
    vsnprintf(message->text, ACME_EVENT_BYTES, format, arguments);
    va_end(arguments);
    channel_send(link->channel, MESSAGE_ACME_EVENT, message,
                 sizeof(*message) + strlen(message->text) + 1, -1, false);
}

int link_publish(struct link *link, const struct message_acme_challenge *challenge)
{
    link->set = false;
    if (channel_send(link->channel, MESSAGE_ACME_CHALLENGE, challenge, sizeof(*challenge), -1,
                     false) != 0)
        return -1;
    while (!link->set && !link->ended) {
        show_life(link);
        run_loop(link, 1000);
    }
    return link->ended ? -1 : 0;
}

int link_run_record(struct link *link, const struct message_acme_record *record, char *why,
                    size_t size)
{
    link->record_ended = false;
    if (channel_send(link->channel, MESSAGE_ACME_RECORD, record, sizeof(*record), -1, false) != 0)
        link->ended = true;
    while (!link->record_ended && !link->ended) {
        show_life(link);
        run_loop(link, 1000);
    }
    if (link->record_ended && link->record.good)
        return 0;
    snprintf(why, size, "%s", link->record_ended ? link->record.error : "the server stops");
    return -1;
}

void link_report(struct link *link, enum message_kind kind, const void *data, size_t length)
{
    channel_send(link->channel, (int)kind, data, length, -1, false);
}
