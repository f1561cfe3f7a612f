#include "loadgen/engine/hostile.h"

#include "common/clock.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/engine/raw_stream.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CLIENTS_IN_GROUP = 20,
    TICK_MS = 100,
    TICKS_BETWEEN_ACTS = 10, /* each client acts once per second, at a tick of its own */
    RECEIVE_BUFFER = 4096,   /* of a slow reader's socket */
    REQUESTS_OF_READER =
        100, /* that a slow reader sends at once, so that their responses pile up */
};

#define SLOW_FIELD       "X-Slow: slow\r\n"
#define SLOW_BODY_LENGTH "1000000000"

struct hostile_client {
    struct hostile_clients *all;
    struct raw_stream stream;
    enum plan_hostile kind;
    uint32_t number;
    bool connecting, connected;
    uint64_t connected_ns;
};

/* A group shares a multi handle, which establishes the connections. */
struct hostile_group {
    struct curl_group curl;
    struct hostile_client clients[CLIENTS_IN_GROUP];
};

struct hostile_clients {
    struct engine_config config;
    struct error_texts error_texts;
    struct negotiations negotiations;
    const struct request *request;
    char *head, *upload; /* the request without its end, and with the head of a body */
    struct curl_sockets *sockets;
    struct curl_groups groups;
    uint32_t count;
    uint64_t ticks;
    struct event *tick, *stopped;
    int stop_fd;
    struct hostile_count counts[PLAN_HOSTILE_KINDS];
    pthread_t thread;
};

static struct hostile_client *hostile_client_of(const struct hostile_clients *all, uint32_t number)
{
    uint32_t per_group = all->groups.slots_per_group;
    struct hostile_group *group = (struct hostile_group *)all->groups.group[number / per_group];

    return &group->clients[number % per_group];
}

/* ---- One connection ---- */

static void count_held(const struct hostile_client *client)
{
    struct hostile_count *count = &client->all->counts[client->kind];
    uint64_t held_ns = clock_monotonic_ns() - client->connected_ns;

    count->held_ns += held_ns;
    if (held_ns > count->longest_ns)
        count->longest_ns = held_ns;
}

static void hostile_close(struct hostile_client *client, bool by_server)
{
    if (client->connected) {
        count_held(client);
        client->all->counts[client->kind].closed += by_server;
    }
    raw_stream_close(&client->stream);
    client->connected = client->connecting = false;
}

/* Sends TEXT, or as much of it as the socket's buffer takes. Returns false if it failed. */
static bool send_text(const struct hostile_client *client, const char *text)
{
    return raw_stream_send(&client->stream, text, strlen(text)) >= 0 ||
           raw_stream_would_block(errno);
}

/* Reads up to SIZE bytes. Returns false if the server closed the connection. */
static bool server_is_there(const struct hostile_client *client, size_t size)
{
    char bytes[4096];
    ssize_t n =
        raw_stream_receive(&client->stream, bytes, size < sizeof(bytes) ? size : sizeof(bytes));

    return n > 0 || (n < 0 && raw_stream_would_block(errno));
}

/* The first act of a connection. Returns false if it failed. */
static bool begin_to_act(struct hostile_client *client)
{
    const struct hostile_clients *all = client->all;
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    const int small = RECEIVE_BUFFER;
    bool good = true;

    switch (client->kind) {
    case PLAN_HOSTILE_SLOW_HEAD:
        return send_text(client, all->head);
    case PLAN_HOSTILE_SLOW_BODY:
        return send_text(client, all->upload);
    case PLAN_HOSTILE_SLOW_READ:
        setsockopt(client->stream.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        for (int i = 0; i < REQUESTS_OF_READER && good; i++)
            good = send_text(client, all->request->message);
        return good;
    case PLAN_HOSTILE_RESET:
        good = send_text(client, all->request->message);
        setsockopt(client->stream.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        hostile_close(client, false);
        return good;
    case PLAN_HOSTILE_IDLE:
    case PLAN_HOSTILE_KINDS:
        break;
    }
    return true;
}

/* The act of each second. Returns false if the server closed the connection. */
static bool act_again(const struct hostile_client *client)
{
    switch (client->kind) {
    case PLAN_HOSTILE_SLOW_HEAD:
        return server_is_there(client, SIZE_MAX) && send_text(client, SLOW_FIELD);
    case PLAN_HOSTILE_SLOW_BODY:
        return server_is_there(client, SIZE_MAX) && send_text(client, "x");
    case PLAN_HOSTILE_SLOW_READ:
        return server_is_there(client, 1);
    case PLAN_HOSTILE_IDLE:
    case PLAN_HOSTILE_RESET:
    case PLAN_HOSTILE_KINDS:
        break;
    }
    return server_is_there(client, SIZE_MAX);
}

static void hostile_connected(struct hostile_client *client)
{
    client->connecting = false;
    if (!raw_stream_take_socket(&client->stream)) {
        client->all->counts[client->kind].failed++;
        hostile_close(client, false);
        return;
    }
    client->connected = true;
    client->connected_ns = clock_monotonic_ns();
    client->all->counts[client->kind].opened++;
    if (!begin_to_act(client))
        hostile_close(client, true);
}

/* The ended() of a group: connections were established, or failed. */
static void hostile_on_ended(struct curl_group *curl)
{
    CURLMsg *message;
    int more;

    while ((message = curl_multi_info_read(curl->multi, &more)) != NULL) {
        struct hostile_client *client = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &client);
        if (message->data.result == CURLE_OK) {
            hostile_connected(client);
        } else {
            client->all->counts[client->kind].failed++;
            hostile_close(client, false);
        }
    }
}

/* ---- The thread ---- */

static void on_hostile_tick(evutil_socket_t fd, short events, void *context)
{
    struct hostile_clients *all = context;

    (void)fd;
    (void)events;
    for (uint32_t i = 0; i < all->count; i++) {
        struct hostile_client *client = hostile_client_of(all, i);

        if (client->connecting ||
            (client->kind != PLAN_HOSTILE_RESET && all->ticks > 0 &&
             client->number % TICKS_BETWEEN_ACTS != all->ticks % TICKS_BETWEEN_ACTS))
            continue;
        if (client->connected && !act_again(client))
            hostile_close(client, true);
        if (!client->connected) {
            client->connecting = true;
            raw_stream_connect(&client->stream, all->request);
        }
    }
    all->ticks++;
}

static void on_hostile_stop(evutil_socket_t fd, short events, void *context)
{
    const struct hostile_clients *all = context;

    (void)fd;
    (void)events;
    event_base_loopbreak(all->config.base);
}

static void *run_hostile_clients(void *context)
{
    struct hostile_clients *all = context;

    on_hostile_tick(-1, 0, all);
    event_base_dispatch(all->config.base);
    for (uint32_t i = 0; i < all->count; i++) {
        struct hostile_client *client = hostile_client_of(all, i);

        if (client->connected && !act_again(client))
            hostile_close(client, true);
        all->counts[client->kind].open += client->connected;
        hostile_close(client, false);
    }
    return NULL;
}

/* ---- Life cycle ---- */

/* Makes the texts that clients send from the message of the first request. */
static bool make_texts(struct hostile_clients *all)
{
    const char *message = all->request->message;
    const char *path = strchr(message, ' '), *end = strstr(message, "\r\n");
    const char *host = strstr(message, "\r\nHost:");
    const char *host_end = host != NULL ? strstr(host + 2, "\r\n") : NULL;

    if (path == NULL || end == NULL || host_end == NULL)
        return false;
    if (asprintf(&all->head, "GET%.*s%.*s\r\n", (int)(end - path), path, (int)(host_end - host),
                 host) < 0)
        all->head = NULL;
    if (asprintf(&all->upload,
                 "POST%.*s%.*s\r\nContent-Type: application/octet-stream\r\n"
                 "Content-Length: " SLOW_BODY_LENGTH "\r\n\r\n",
                 (int)(end - path), path, (int)(host_end - host), host) < 0)
        all->upload = NULL;
    return all->head != NULL && all->upload != NULL;
}

static bool add_hostile_client(struct hostile_clients *all, enum plan_hostile kind)
{
    struct curl_group *group = curl_groups_get(&all->groups, all->count);
    struct hostile_client *client;

    if (group == NULL)
        return false;
    client = hostile_client_of(all, all->count);
    client->all = all;
    client->kind = kind;
    client->number = all->count++;
    return raw_stream_init(&client->stream, &all->config, group, all->sockets, client);
}

static bool set_up_hostile_clients(struct hostile_clients *all)
{
    const struct plan *plan = all->config.plan;
    const struct timeval period = {0, TICK_MS * 1000};

    all->config.base = event_base_new();
    if (all->config.base == NULL || !make_texts(all))
        return false;
    all->sockets = curl_sockets_create(all->config.base);
    all->groups = (struct curl_groups){
        .sockets = all->sockets,
        .ended = hostile_on_ended,
        .group_bytes = sizeof(struct hostile_group),
        .slots_per_group = request_plan_has_tls(all->config.request_plan) ? 1 : CLIENTS_IN_GROUP,
    };
    if (all->sockets == NULL)
        return false;
    for (size_t kind = 0; kind < PLAN_HOSTILE_KINDS; kind++) {
        all->counts[kind].asked = plan->hostile[kind];
        for (uint32_t i = 0; i < plan->hostile[kind]; i++)
            if (!add_hostile_client(all, (enum plan_hostile)kind))
                return false;
    }
    all->tick = event_new(all->config.base, -1, EV_PERSIST, on_hostile_tick, all);
    all->stopped = event_new(all->config.base, all->stop_fd, EV_READ, on_hostile_stop, all);
    return all->tick != NULL && all->stopped != NULL && event_add(all->tick, &period) == 0 &&
           event_add(all->stopped, NULL) == 0;
}

static void free_hostile_clients(struct hostile_clients *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        raw_stream_destroy(&hostile_client_of(all, i)->stream);
    curl_groups_end(&all->groups);
    curl_sockets_destroy(all->sockets);
    if (all->tick != NULL)
        event_free(all->tick);
    if (all->stopped != NULL)
        event_free(all->stopped);
    if (all->config.base != NULL)
        event_base_free(all->config.base);
    if (all->stop_fd >= 0)
        close(all->stop_fd);
    free(all->head);
    free(all->upload);
    free(all);
}

struct hostile_clients *hostile_clients_start(const struct request_plan *request_plan)
{
    struct hostile_clients *all = calloc(1, sizeof(*all));
    sigset_t every, before;
    int error = ENOMEM;

    if (all == NULL)
        return NULL;
    all->config = (struct engine_config){
        .plan = request_plan->plan,
        .request_plan = request_plan,
        .error_texts = &all->error_texts,
        .negotiations = &all->negotiations,
    };
    all->request = &request_plan->requests[request_plan->entries[0].request];
    all->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (all->stop_fd >= 0 && set_up_hostile_clients(all)) {
        sigfillset(&every);
        pthread_sigmask(SIG_BLOCK, &every, &before);
        error = pthread_create(&all->thread, NULL, run_hostile_clients, all);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error == 0)
            return all;
    }
    free_hostile_clients(all);
    errno = error;
    return NULL;
}

void hostile_clients_stop(struct hostile_clients *clients,
                          struct hostile_count counts[PLAN_HOSTILE_KINDS])
{
    const uint64_t one = 1;

    if (clients == NULL)
        return;
    while (write(clients->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
    pthread_join(clients->thread, NULL);
    memcpy(counts, clients->counts, sizeof(clients->counts));
    free_hostile_clients(clients);
}
