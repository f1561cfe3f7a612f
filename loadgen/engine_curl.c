/*
 * The engine that leaves HTTP to libcurl. What makes it fast, each measured:
 *
 *   - libcurl walks all connections of a multi handle to find one: a group of clients has its own;
 *   - easy handles are set up once and used for every request of their client;
 *   - the URL is taken apart once (CURLOPT_CURLU) and no proxy is looked for (CURLOPT_PROXY "");
 *   - sockets stay registered between requests (curl_sockets.h).
 *
 * libcurl sends a request a second time, on a new connection, when the one that it reused turns out
 * to be closed. That would hide a lost request and make two of one in the server's log, so the
 * function that libcurl calls before each sending refuses the second: the request counts as closed.
 */
#include "loadgen/curl_request.h"
#include "loadgen/curl_result.h"
#include "loadgen/curl_sockets.h"
#include "loadgen/engine.h"

#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { CLIENTS_IN_GROUP = 20 };

/* One connection's worth of load: it sends its next request when it has the answer to the last. */
struct client {
    struct group *group;
    CURL *easy;
    uint64_t begun_ns;
    uint32_t sendings; /* of the request under way */
    bool under_way;
    bool came_up;
    char error[CURL_ERROR_SIZE];
};

struct group {
    struct curl_group curl; /* first: ended() gets a pointer to it */
    struct engine *engine;
    struct client *clients;
    uint32_t client_count;
    uint32_t under_way;
    bool started;
};

struct engine {
    struct engine_place place;
    struct curl_sockets *sockets;
    struct curl_request request; /* its URL is a copy: libcurl does not promise to only read it */
    struct group *groups;
    uint32_t group_count, groups_called, groups_started;
    struct client *clients;
    uint32_t under_way;
    uint64_t last_end_ns;
    char other_error[CURL_ERROR_SIZE];
};

/* CURLOPT_PREREQFUNCTION: the connection is up and the request goes out next. */
static int before_sending(void *context, char *remote, char *local, int remote_port, int local_port)
{
    struct client *client = context;

    (void)remote, (void)local, (void)remote_port, (void)local_port;
    if (!client->came_up) {
        client->came_up = true;
        tally_count(client->group->engine->place.tally, TALLY_clients_up, 1);
    }
    return client->sendings++ == 0 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/* CURLOPT_WRITEFUNCTION: bodies are counted by libcurl and thrown away. */
static size_t discard(char *bytes, size_t size, size_t count, void *context)
{
    (void)bytes;
    (void)context;
    return size * count;
}

static void record(struct client *client, CURLcode code, uint64_t now_ns)
{
    struct engine *engine = client->group->engine;
    const struct curl_ending ending = {
        .easy = client->easy,
        .code = code,
        .said = client->error,
        .sendings = client->sendings,
        .latency_ns = now_ns - client->begun_ns,
    };
    struct exchange exchange = curl_result_read(&ending);

    if (exchange.error == ERROR_KIND_OTHER && engine->other_error[0] == '\0')
        snprintf(engine->other_error, sizeof(engine->other_error), "%s", curl_result_text(&ending));
    tally_record(engine->place.tally, &exchange);
}

/* ---- The life of a request ---- */

static void begin_request(struct client *client, uint64_t now_ns)
{
    struct group *group = client->group;
    struct engine *engine = group->engine;

    client->begun_ns = now_ns;
    client->sendings = 0;
    client->error[0] = '\0';
    client->under_way = true;
    group->under_way++;
    engine->under_way++;
    tally_count(engine->place.tally, TALLY_begun, 1);
    curl_multi_add_handle(group->curl.multi, client->easy);
}

static void leave_multi(struct client *client)
{
    curl_multi_remove_handle(client->group->curl.multi, client->easy);
    client->under_way = false;
    client->group->under_way--;
    client->group->engine->under_way--;
}

static void end_request(struct client *client, CURLcode code, uint64_t now_ns)
{
    record(client, code, now_ns);
    leave_multi(client);
    client->group->engine->last_end_ns = now_ns;
}

/* Takes all results of a group and begins a request in place of each. Returns how many began. */
static uint32_t collect(struct group *group)
{
    uint32_t begun = 0;
    CURLMsg *message;
    int more;

    while ((message = curl_multi_info_read(group->curl.multi, &more)) != NULL) {
        CURLcode code = message->data.result;
        struct client *client = NULL;
        uint64_t now_ns = clock_monotonic_ns();

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &client);
        end_request(client, code, now_ns);
        if (supply_take(group->engine->place.share, now_ns)) {
            begin_request(client, now_ns);
            begun++;
        }
    }
    return begun;
}

/*
 * Groups begin in waves, each in a turn of the loop of its own and as large as all before together:
 * the answers to the first connections are not kept waiting until the last is opened, and opening
 * the last does not wait for long either.
 */
static void call_next_wave(struct engine *engine)
{
    uint32_t end = engine->groups_called > 0 ? 2 * engine->groups_called : 1;

    end = end < engine->group_count ? end : engine->group_count;
    while (engine->groups_called < end)
        curl_group_call_again(&engine->groups[engine->groups_called++].curl);
}

/* Begins the first request of each client of a group. Returns how many began. */
static uint32_t start_group(struct group *group)
{
    struct engine *engine = group->engine;
    uint32_t begun = 0;

    group->started = true;
    for (uint32_t i = 0; i < group->client_count; i++) {
        uint64_t now_ns = clock_monotonic_ns();

        if (supply_take_first(engine->place.share, now_ns)) {
            begin_request(&group->clients[i], now_ns);
            begun++;
        }
    }
    if (++engine->groups_started == engine->groups_called)
        call_next_wave(engine);
    return begun;
}

/*
 * Results of requests that were begun here wait for the loop's next turn: a server that refuses at
 * once must not keep the loop from everything else.
 */
static void on_ended(struct curl_group *curl)
{
    struct group *group = (struct group *)curl;
    struct engine *engine = group->engine;

    if ((group->started ? collect(group) : start_group(group)) > 0)
        curl_group_run_added(curl);
    if ((uint32_t)curl->running < group->under_way)
        curl_group_call_again(curl);
    if (engine->under_way == 0 && engine->groups_started == engine->group_count)
        event_base_loopbreak(engine->place.base);
}

/* ---- Setting up ---- */

static bool set_handling(struct client *client)
{
    const struct engine *engine = client->group->engine;
    CURL *easy = client->easy;

    return curl_easy_setopt(easy, CURLOPT_PRIVATE, client) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->error) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, discard) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_sending) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQDATA, client) == CURLE_OK &&
           curl_sockets_adopt(engine->sockets, easy);
}

static bool make_group(struct engine *engine, struct group *group, struct client *clients,
                       uint32_t count)
{
    group->engine = engine;
    group->clients = clients;
    if (!curl_group_begin(&group->curl, engine->sockets, on_ended) ||
        curl_multi_setopt(group->curl.multi, CURLMOPT_MAXCONNECTS, (long)count) != CURLM_OK)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        clients[i].group = group;
        clients[i].easy = curl_easy_init();
        if (clients[i].easy == NULL)
            return false;
        group->client_count = i + 1;
        if (!curl_request_set(&engine->request, clients[i].easy) || !set_handling(&clients[i]))
            return false;
    }
    return true;
}

static bool make_groups(struct engine *engine)
{
    uint32_t left = engine->place.connections;
    uint32_t groups = (left + CLIENTS_IN_GROUP - 1) / CLIENTS_IN_GROUP;

    engine->clients = calloc(left, sizeof(*engine->clients));
    engine->groups = calloc(groups, sizeof(*engine->groups));
    if (engine->clients == NULL || engine->groups == NULL)
        return false;
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t count = left < CLIENTS_IN_GROUP ? left : CLIENTS_IN_GROUP;

        engine->group_count = i + 1;
        if (!make_group(engine, &engine->groups[i], &engine->clients[i * CLIENTS_IN_GROUP], count))
            return false;
        left -= count;
    }
    return true;
}

static void engine_curl_destroy(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->group_count; i++) {
        struct group *group = &engine->groups[i];

        for (uint32_t k = 0; k < group->client_count; k++)
            curl_easy_cleanup(group->clients[k].easy);
        curl_group_end(&group->curl);
    }
    curl_sockets_destroy(engine->sockets);
    curl_slist_free_all(engine->request.headers);
    curl_url_cleanup(engine->request.url);
    free(engine->groups);
    free(engine->clients);
    free(engine);
}

static struct engine *engine_curl_create(const struct engine_place *place)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return NULL;
    engine->place = *place;
    engine->sockets = curl_sockets_create(place->base);
    engine->request = (struct curl_request){
        .plan = place->plan,
        .url = curl_url_dup(place->target->url),
        .addresses = place->target->addresses,
    };
    if (engine->sockets == NULL || engine->request.url == NULL ||
        !curl_request_headers(place->plan, &engine->request.headers) || !make_groups(engine)) {
        engine_curl_destroy(engine);
        return NULL;
    }
    return engine;
}

/* ---- The other verbs of an engine ---- */

static void engine_curl_start(struct engine *engine)
{
    call_next_wave(engine);
}

/* Results that are there already still count. */
static void engine_curl_abandon(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->group_count; i++)
        collect(&engine->groups[i]);
    for (uint32_t i = 0; i < engine->place.connections; i++)
        if (engine->clients[i].under_way) {
            leave_multi(&engine->clients[i]);
            tally_count(engine->place.tally, TALLY_unanswered, 1);
        }
}

static uint32_t engine_curl_under_way(const struct engine *engine)
{
    return engine->under_way;
}

static uint64_t engine_curl_last_end_ns(const struct engine *engine)
{
    return engine->last_end_ns;
}

static const char *engine_curl_other_error(const struct engine *engine)
{
    return engine->other_error;
}

const struct engine_ops engine_curl = {
    .name = "curl",
    .create = engine_curl_create,
    .start = engine_curl_start,
    .abandon = engine_curl_abandon,
    .under_way = engine_curl_under_way,
    .last_end_ns = engine_curl_last_end_ns,
    .other_error = engine_curl_other_error,
    .destroy = engine_curl_destroy,
};
