/*
 * The engine that leaves HTTP to libcurl. What makes it fast, each measured:
 *
 *   - libcurl walks all connections of a multi handle to find one: a group of slots has its own;
 *   - easy handles are set up once and used for every request of their slot;
 *   - URLs are taken apart once (CURLOPT_CURLU) and no proxy is looked for (CURLOPT_PROXY "");
 *   - sockets stay registered between requests (curl_sockets.h).
 *
 * libcurl sends a request a second time, on a new connection, when the one that it reused turns out
 * to be closed. That would hide a lost request and make two of one in the server's log, so the
 * function that libcurl calls before each sending refuses the second: the request counts as closed.
 */
#include "loadgen/engine/curl_request.h"
#include "loadgen/engine/curl_result.h"
#include "loadgen/engine/curl_sockets.h"
#include "loadgen/engine/driver.h"
#include "loadgen/engine/engine.h"
#include "loadgen/plan/body_check.h"

#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { SLOTS_IN_GROUP = 20 };

struct client {
    struct group *group;
    CURL *easy;
    uint32_t slot;
    const struct request *request; /* the last one; NULL before the first */
    uint64_t begun_ns;
    uint32_t sendings; /* of the request under way */
    uint32_t requests; /* on this connection, where that is limited */
    bool off;          /* its connection is not wanted for now */
    struct body_check check;
    char error[CURL_ERROR_SIZE];
};

struct group {
    struct curl_group curl; /* first: ended() gets a pointer to it */
    struct engine *engine;
    struct client clients[SLOTS_IN_GROUP];
    uint32_t client_count;
    uint32_t under_way;
    uint32_t off; /* clients that are */
    bool dirty;   /* in the engine's list of groups with requests to send */
    struct group *next_dirty;
};

struct engine {
    struct engine_place place;
    struct curl_sockets *sockets;
    struct curl_slist *headers;
    struct group **groups;
    uint32_t group_count, slots;
    uint32_t slots_in_group; /* as many connections in a multi handle */
    struct group *dirty;
    struct error_texts error_texts;
};

static struct client *client_of(const struct engine *engine, uint32_t slot)
{
    return &engine->groups[slot / engine->slots_in_group]->clients[slot % engine->slots_in_group];
}

/* CURLOPT_PREREQFUNCTION: the connection is up and the request goes out next. */
static int before_sending(void *context, char *remote, char *local, int remote_port, int local_port)
{
    struct client *client = context;

    (void)remote, (void)local, (void)remote_port, (void)local_port;
    driver_up(client->group->engine->place.driver, client->slot);
    return client->sendings++ == 0 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/* CURLOPT_WRITEFUNCTION: bodies are counted by libcurl, and checked if that was asked for. */
static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    struct client *client = context;

    body_check_add(&client->check, &client->group->engine->place.plan->checks, bytes, size * count);
    return size * count;
}

/* ---- The life of a request ---- */

static void mark_dirty(struct group *group)
{
    if (group->dirty)
        return;
    group->dirty = true;
    group->next_dirty = group->engine->dirty;
    group->engine->dirty = group;
}

/*
 * libcurl's connections belong to no handle: it keeps as many as clients are on, and closes the
 * oldest when another one becomes free.
 */
static void set_off(struct client *client, bool off)
{
    struct group *group = client->group;
    uint32_t kept;

    if (client->off != off)
        group->off += off ? 1 : -1U;
    client->off = off;
    kept = group->client_count - group->off;
    curl_multi_setopt(group->curl.multi, CURLMOPT_MAXCONNECTS, kept > 0 ? (long)kept : 1L);
}

/* The connection's last request says so to libcurl, which then closes it behind the answer. */
static void count_on_connection(struct client *client, const struct plan *plan)
{
    bool last = ++client->requests == plan->requests_per_connection;

    curl_easy_setopt(client->easy, CURLOPT_FORBID_REUSE, last ? 1L : 0L);
    if (last)
        client->requests = 0;
}

static void engine_curl_begin(struct engine *engine, uint32_t slot, const struct request *request,
                              uint64_t now_ns)
{
    struct client *client = client_of(engine, slot);
    struct group *group = client->group;

    if (client->off)
        set_off(client, false);
    curl_request_choose(client->easy, engine->place.work, request, client->request);
    if (engine->place.plan->requests_per_connection > 0)
        count_on_connection(client, engine->place.plan);
    body_check_begin(&client->check, &engine->place.plan->checks);
    client->request = request;
    client->begun_ns = now_ns;
    client->sendings = 0;
    client->error[0] = '\0';
    group->under_way++;
    curl_multi_add_handle(group->curl.multi, client->easy);
    mark_dirty(group);
}

/*
 * Results of requests that were begun here wait for the loop's next turn: a server that refuses at
 * once must not keep the loop from everything else.
 */
static void run_added(struct group *group)
{
    curl_group_run_added(&group->curl);
    if ((uint32_t)group->curl.running < group->under_way)
        curl_group_call_again(&group->curl);
}

static void engine_curl_flush(struct engine *engine)
{
    while (engine->dirty != NULL) {
        struct group *group = engine->dirty;

        engine->dirty = group->next_dirty;
        group->dirty = false;
        run_added(group);
    }
}

static void leave_multi(struct client *client)
{
    curl_multi_remove_handle(client->group->curl.multi, client->easy);
    client->group->under_way--;
}

static struct exchange read_result(struct client *client, CURLcode code)
{
    struct engine *engine = client->group->engine;
    const struct plan_checks *checks = &engine->place.plan->checks;
    const struct curl_ending ending = {
        .easy = client->easy,
        .code = code,
        .said = client->error,
        .sendings = client->sendings,
    };
    struct exchange exchange = curl_result_read(&ending);

    if (exchange.error == ERROR_KIND_NONE) {
        exchange.bad_content = body_check_is_bad(&client->check, checks, exchange.body_bytes);
        exchange.downgraded =
            engine->place.plan->http == PLAN_HTTP_2 && !curl_result_is_http2(client->easy);
    }
    if (exchange.error != ERROR_KIND_NONE)
        client->requests = 0;
    if (client->slot == 0 && engine->place.conversation != NULL)
        conversation_end(engine->place.conversation, client->easy);
    if (exchange.error != ERROR_KIND_NONE)
        error_texts_record(&engine->error_texts, exchange.error, curl_result_text(&ending));
    return exchange;
}

/* What libcurl has to say: called in each of its turns. */
static void on_ended(struct curl_group *curl)
{
    struct group *group = (struct group *)curl;
    CURLMsg *message;
    int more;

    while ((message = curl_multi_info_read(group->curl.multi, &more)) != NULL) {
        struct client *client = NULL;
        struct exchange exchange;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &client);
        exchange = read_result(client, message->data.result);
        leave_multi(client);
        driver_ended(group->engine->place.driver, client->slot, &exchange, clock_monotonic_ns());
    }
    engine_curl_flush(group->engine);
    if ((uint32_t)curl->running < group->under_way)
        curl_group_call_again(curl);
}

static bool engine_curl_cancel(struct engine *engine, uint32_t slot)
{
    struct client *client = client_of(engine, slot);
    bool connected = client->sendings > 0 && curl_result_connected(client->easy);

    leave_multi(client);
    return connected;
}

static void engine_curl_close(struct engine *engine, uint32_t slot)
{
    set_off(client_of(engine, slot), true);
}

/* ---- Setting up ---- */

static bool set_handling(struct client *client)
{
    const struct engine *engine = client->group->engine;
    struct conversation *conversation = client->slot == 0 ? engine->place.conversation : NULL;
    CURL *easy = client->easy;

    return curl_easy_setopt(easy, CURLOPT_PRIVATE, client) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->error) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, client) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_sending) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQDATA, client) == CURLE_OK &&
           curl_request_set_connection(engine->place.plan, engine->place.work, easy) &&
           curl_request_set_common(engine->place.work, engine->headers, easy) &&
           curl_sockets_adopt(engine->sockets, easy) &&
           (conversation == NULL || conversation_listen(conversation, easy));
}

static bool add_client(struct engine *engine, struct group *group)
{
    struct client *client = &group->clients[group->client_count];

    client->group = group;
    client->slot = engine->slots;
    client->easy = curl_easy_init();
    if (client->easy == NULL)
        return false;
    group->client_count++;
    engine->slots++;
    set_off(client, false);
    return set_handling(client);
}

static struct group *add_group(struct engine *engine)
{
    struct group **grown = realloc(engine->groups, (engine->group_count + 1) * sizeof(*grown));
    struct group *group = grown != NULL ? calloc(1, sizeof(*group)) : NULL;

    if (grown != NULL)
        engine->groups = grown;
    if (group == NULL)
        return NULL;
    group->engine = engine;
    engine->groups[engine->group_count++] = group;
    if (!curl_group_begin(&group->curl, engine->sockets, on_ended) ||
        curl_multi_setopt(group->curl.multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING) != CURLM_OK)
        return NULL;
    return group;
}

static bool engine_curl_reserve(struct engine *engine, uint32_t slots)
{
    while (engine->slots < slots) {
        uint32_t number = engine->slots / engine->slots_in_group;
        struct group *group =
            number < engine->group_count ? engine->groups[number] : add_group(engine);

        if (group == NULL || !add_client(engine, group))
            return false;
    }
    return true;
}

static void engine_curl_destroy(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->group_count; i++) {
        struct group *group = engine->groups[i];

        for (uint32_t k = 0; k < group->client_count; k++)
            curl_easy_cleanup(group->clients[k].easy);
        curl_group_end(&group->curl);
        free(group);
    }
    curl_sockets_destroy(engine->sockets);
    curl_slist_free_all(engine->headers);
    free(engine->groups);
    free(engine);
}

static struct engine *engine_curl_create(const struct engine_place *place)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return NULL;
    engine->place = *place;
    engine->slots_in_group = place->plan->requests_per_connection > 0 ? 1 : SLOTS_IN_GROUP;
    engine->sockets = curl_sockets_create(place->base);
    if (engine->sockets != NULL && curl_request_headers(place->work, &engine->headers))
        return engine;
    engine_curl_destroy(engine);
    return NULL;
}

static const struct error_texts *engine_curl_error_texts(const struct engine *engine)
{
    return &engine->error_texts;
}

const struct engine_ops engine_curl = {
    .name = "curl",
    .create = engine_curl_create,
    .reserve = engine_curl_reserve,
    .begin = engine_curl_begin,
    .flush = engine_curl_flush,
    .cancel = engine_curl_cancel,
    .close = engine_curl_close,
    .error_texts = engine_curl_error_texts,
    .destroy = engine_curl_destroy,
};
