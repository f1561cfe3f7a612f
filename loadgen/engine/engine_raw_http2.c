/*
 * The raw engine for HTTP/2: a http2_connection for each run of as many slots as the plan has
 * streams.
 */
#include "loadgen/engine/engine.h"

#include "common/clock.h"

#include "loadgen/engine/http2_connection.h"

#include <stdlib.h>

/*
 * TLS connections stay in their multi handle, which they cannot share: a group for each connection.
 */
struct group {
    struct curl_group curl;
    struct http2_connection *connection;
};

struct engine {
    struct http2_shared shared;
    struct curl_sockets *sockets;
    struct curl_groups groups;
    uint32_t slots;
    struct event *sweep; /* checks timeouts */
};

static struct http2_connection *http2_connection_of(const struct engine *engine, uint32_t slot)
{
    uint32_t number = slot / engine->groups.slots_per_group;

    return ((const struct group *)engine->groups.group[number])->connection;
}

/* The ended() of a group: libcurl connected, or failed to. */
static void http2_on_ended(struct curl_group *curl)
{
    struct http2_connection *connection = ((const struct group *)curl)->connection;
    CURLMsg *message;
    int more;

    while ((message = curl_multi_info_read(curl->multi, &more)) != NULL) {
        if (message->msg != CURLMSG_DONE)
            continue;
        if (message->data.result == CURLE_OK)
            http2_connection_established(connection);
        else
            http2_connection_failed(connection, message->data.result);
    }
}

static void http2_on_sweep(evutil_socket_t fd, short events, void *context)
{
    const struct engine *engine = context;
    uint64_t now_ns = clock_monotonic_ns();

    (void)fd;
    (void)events;
    for (uint32_t i = 0; i < engine->slots; i += engine->groups.slots_per_group)
        http2_connection_check_timeouts(http2_connection_of(engine, i), now_ns);
}

/* ---- Operations ---- */

static void engine_raw_http2_begin(struct engine *engine, uint32_t slot,
                                   const struct request *request, uint64_t now_ns)
{
    http2_connection_begin(http2_connection_of(engine, slot), slot, request, now_ns);
}

static void engine_raw_http2_flush(struct engine *engine)
{
    http2_flush(&engine->shared);
}

static bool engine_raw_http2_cancel(struct engine *engine, uint32_t slot)
{
    return http2_connection_cancel(http2_connection_of(engine, slot), slot);
}

static void engine_raw_http2_close(struct engine *engine, uint32_t slot)
{
    http2_connection_close_slot(http2_connection_of(engine, slot), slot);
}

static void engine_raw_http2_forget(struct engine *engine, uint32_t slot)
{
    http2_connection_forget(http2_connection_of(engine, slot), slot);
}

static bool engine_raw_http2_reserve(struct engine *engine, uint32_t slots)
{
    while (engine->slots < slots) {
        struct group *group = (struct group *)curl_groups_get(&engine->groups, engine->slots);

        if (group == NULL)
            return false;
        group->connection =
            http2_connection_create(&engine->shared, &group->curl, engine->sockets, engine->slots);
        if (group->connection == NULL)
            return false;
        engine->slots += engine->groups.slots_per_group;
    }
    return true;
}

static void engine_raw_http2_destroy(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->groups.count; i++)
        http2_connection_destroy(((struct group *)engine->groups.group[i])->connection);
    curl_groups_end(&engine->groups);
    if (engine->sweep != NULL)
        event_free(engine->sweep);
    http2_shared_end(&engine->shared);
    curl_sockets_destroy(engine->sockets);
    free(engine);
}

static struct engine *engine_raw_http2_create(const struct engine_config *config)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return NULL;
    engine->sockets = curl_sockets_create(config->base);
    engine->groups = (struct curl_groups){
        .sockets = engine->sockets,
        .ended = http2_on_ended,
        .group_bytes = sizeof(struct group),
        .slots_per_group = config->plan->streams,
    };
    if (http2_shared_begin(&engine->shared, config) && engine->sockets != NULL &&
        (engine->sweep = raw_sweep_start(config, http2_on_sweep, engine)) != NULL)
        return engine;
    engine_raw_http2_destroy(engine);
    return NULL;
}

const struct engine_ops engine_raw_http2 = {
    .name = "raw",
    .create = engine_raw_http2_create,
    .reserve = engine_raw_http2_reserve,
    .begin = engine_raw_http2_begin,
    .flush = engine_raw_http2_flush,
    .cancel = engine_raw_http2_cancel,
    .close = engine_raw_http2_close,
    .forget = engine_raw_http2_forget,
    .destroy = engine_raw_http2_destroy,
};
