/*
 * The engine that costs the least CPU time: a raw_connection per slot. While libcurl establishes
 * them, the connections of a group share a multi handle.
 */
#include "loadgen/engine/engine.h"

#include "common/clock.h"

#include "loadgen/engine/raw_connection.h"

#include <stdlib.h>

enum {
    CONNECTIONS_IN_GROUP = 20,
};

struct group {
    struct curl_group curl;
    struct raw_connection connections[CONNECTIONS_IN_GROUP];
};

struct engine {
    struct raw_shared shared;
    struct curl_sockets *sockets;
    struct curl_groups groups;
    uint32_t slots;
    struct event *sweep; /* checks timeouts */
};

static struct raw_connection *raw_connection_of(const struct engine *engine, uint32_t slot)
{
    uint32_t per_group = engine->groups.slots_per_group;
    struct group *group = (struct group *)engine->groups.group[slot / per_group];

    return &group->connections[slot % per_group];
}

/* The ended() of a group: libcurl connected, or failed to. */
static void raw_on_ended(struct curl_group *curl)
{
    CURLMsg *message;
    int more;

    while ((message = curl_multi_info_read(curl->multi, &more)) != NULL) {
        CURLcode code = message->data.result;
        struct raw_connection *connection = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &connection);
        if (code == CURLE_OK)
            raw_connection_established(connection);
        else
            raw_connection_failed(connection, code);
    }
}

/* ---- Timeouts ---- */

static void raw_on_sweep(evutil_socket_t fd, short events, void *context)
{
    const struct engine *engine = context;
    uint64_t now_ns = clock_monotonic_ns();

    (void)fd;
    (void)events;
    for (uint32_t i = 0; i < engine->slots; i++)
        raw_connection_check_timeout(raw_connection_of(engine, i), now_ns);
}

/* ---- Operations ---- */

static void engine_raw_begin(struct engine *engine, uint32_t slot, const struct request *request,
                             uint64_t now_ns)
{
    raw_connection_begin(raw_connection_of(engine, slot), request, now_ns);
}

static void engine_raw_flush(struct engine *engine)
{
    (void)engine; /* raw_connection_begin() has already sent it */
}

static bool engine_raw_cancel(struct engine *engine, uint32_t slot)
{
    struct raw_connection *connection = raw_connection_of(engine, slot);

    raw_connection_close(connection);
    return connection->fresh && connection->connect_ns > 0;
}

static void engine_raw_close(struct engine *engine, uint32_t slot)
{
    raw_connection_close(raw_connection_of(engine, slot));
}

static void engine_raw_forget(struct engine *engine, uint32_t slot)
{
    cookie_jar_free(&raw_connection_of(engine, slot)->cookies);
}

static bool add_connection(struct engine *engine, struct group *group)
{
    struct raw_connection *connection =
        &group->connections[engine->slots % engine->groups.slots_per_group];

    if (!raw_connection_init(connection, &engine->shared, &group->curl, engine->sockets,
                             engine->slots))
        return false;
    engine->slots++;
    return true;
}

static bool engine_raw_reserve(struct engine *engine, uint32_t slots)
{
    while (engine->slots < slots) {
        struct group *group = (struct group *)curl_groups_get(&engine->groups, engine->slots);

        if (group == NULL || !add_connection(engine, group))
            return false;
    }
    return true;
}

static void engine_raw_destroy(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->groups.count; i++) {
        struct group *group = (struct group *)engine->groups.group[i];

        for (uint32_t k = 0; k < CONNECTIONS_IN_GROUP; k++)
            raw_connection_destroy(&group->connections[k]);
    }
    curl_groups_end(&engine->groups);
    if (engine->sweep != NULL)
        event_free(engine->sweep);
    raw_shared_end(&engine->shared);
    curl_sockets_destroy(engine->sockets);
    free(engine);
}

static struct engine *engine_raw_create(const struct engine_config *config)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return NULL;
    engine->sockets = curl_sockets_create(config->base);
    engine->groups = (struct curl_groups){
        .sockets = engine->sockets,
        .ended = raw_on_ended,
        .group_bytes = sizeof(struct group),
        .slots_per_group = request_plan_has_tls(config->request_plan) ? 1 : CONNECTIONS_IN_GROUP,
    };
    if (raw_shared_begin(&engine->shared, config) && engine->sockets != NULL &&
        (engine->sweep = raw_sweep_start(config, raw_on_sweep, engine)) != NULL)
        return engine;
    engine_raw_destroy(engine);
    return NULL;
}

const struct engine_ops engine_raw = {
    .name = "raw",
    .create = engine_raw_create,
    .reserve = engine_raw_reserve,
    .begin = engine_raw_begin,
    .flush = engine_raw_flush,
    .cancel = engine_raw_cancel,
    .close = engine_raw_close,
    .forget = engine_raw_forget,
    .destroy = engine_raw_destroy,
};
