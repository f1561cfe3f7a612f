/*
 * The engine for full speed: a wire (wire.h) for each slot. Groups of wires share a multi handle while
 * libcurl makes their connections.
 */
#include "loadgen/engine/engine.h"

#include "common/clock.h"

#include "loadgen/engine/wire.h"

#include <stdlib.h>

enum {
    WIRES_IN_GROUP = 20,
    SWEEPS = 20, /* in the time that a request may take */
    SHORTEST_SWEEP_MS = 5,
    LONGEST_SWEEP_MS = 250,
};

struct group {
    struct curl_group curl;
    struct wire wires[WIRES_IN_GROUP];
};

struct engine {
    struct wire_room room;
    struct curl_sockets *sockets;
    struct group **groups;
    uint32_t group_count, slots;
    uint32_t wires_in_group; /* as many in a multi handle */
    struct event *sweep;
};

static struct wire *wire_of(const struct engine *engine, uint32_t slot)
{
    return &engine->groups[slot / engine->wires_in_group]->wires[slot % engine->wires_in_group];
}

/* What libcurl has to say about connections. */
static void on_ended(struct curl_group *curl)
{
    CURLMsg *message;
    int more;

    while ((message = curl_multi_info_read(curl->multi, &more)) != NULL) {
        CURLcode code = message->data.result;
        struct wire *wire = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &wire);
        if (code == CURLE_OK)
            wire_connected(wire);
        else
            wire_not_connected(wire, code);
    }
}

/* ---- Time ---- */

static void on_sweep(evutil_socket_t fd, short events, void *context)
{
    const struct engine *engine = context;
    uint64_t now_ns = clock_monotonic_ns();

    (void)fd;
    (void)events;
    for (uint32_t i = 0; i < engine->slots; i++)
        wire_look_at_time(wire_of(engine, i), now_ns);
}

static bool start_sweeping(struct engine *engine)
{
    uint64_t ms = engine->room.place.plan->timeout_ms / SWEEPS;
    struct timeval period;

    ms = ms < SHORTEST_SWEEP_MS ? SHORTEST_SWEEP_MS : ms > LONGEST_SWEEP_MS ? LONGEST_SWEEP_MS : ms;
    period = (struct timeval){0, (suseconds_t)(ms * 1000)};
    engine->sweep = event_new(engine->room.place.base, -1, EV_PERSIST, on_sweep, engine);
    return engine->sweep != NULL && event_add(engine->sweep, &period) == 0;
}

/* ---- The verbs of an engine ---- */

static void engine_raw_begin(struct engine *engine, uint32_t slot, const struct request *request,
                             uint64_t now_ns)
{
    wire_begin(wire_of(engine, slot), request, now_ns);
}

static void engine_raw_flush(struct engine *engine)
{
    (void)engine; /* everything has been sent */
}

static bool engine_raw_cancel(struct engine *engine, uint32_t slot)
{
    struct wire *wire = wire_of(engine, slot);

    wire_take_down(wire);
    return wire->fresh && wire->connect_ns > 0;
}

static void engine_raw_close(struct engine *engine, uint32_t slot)
{
    wire_take_down(wire_of(engine, slot));
}

static bool add_wire(struct engine *engine, struct group *group)
{
    struct wire *wire = &group->wires[engine->slots % engine->wires_in_group];

    if (!wire_set_up(wire, &engine->room, &group->curl, engine->sockets, engine->slots))
        return false;
    engine->slots++;
    return true;
}

static struct group *add_group(struct engine *engine)
{
    struct group **grown = realloc(engine->groups, (engine->group_count + 1) * sizeof(*grown));
    struct group *group = grown != NULL ? calloc(1, sizeof(*group)) : NULL;

    if (grown != NULL)
        engine->groups = grown;
    if (group == NULL)
        return NULL;
    engine->groups[engine->group_count++] = group;
    return curl_group_begin(&group->curl, engine->sockets, on_ended) ? group : NULL;
}

static bool engine_raw_reserve(struct engine *engine, uint32_t slots)
{
    while (engine->slots < slots) {
        uint32_t number = engine->slots / engine->wires_in_group;
        struct group *group =
            number < engine->group_count ? engine->groups[number] : add_group(engine);

        if (group == NULL || !add_wire(engine, group))
            return false;
    }
    return true;
}

static void destroy_group(struct group *group)
{
    for (uint32_t i = 0; i < WIRES_IN_GROUP; i++)
        wire_release(&group->wires[i]);
    curl_group_end(&group->curl);
    free(group);
}

static void engine_raw_destroy(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->group_count; i++)
        destroy_group(engine->groups[i]);
    if (engine->sweep != NULL)
        event_free(engine->sweep);
    wire_room_end(&engine->room);
    curl_sockets_destroy(engine->sockets);
    free(engine->groups);
    free(engine);
}

static bool has_tls(const struct work *work)
{
    for (size_t i = 0; i < work->count; i++)
        if (work->requests[i].target.tls)
            return true;
    return false;
}

static struct engine *engine_raw_create(const struct engine_place *place)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return NULL;
    engine->wires_in_group = has_tls(place->work) ? 1 : WIRES_IN_GROUP;
    engine->sockets = curl_sockets_create(place->base);
    if (wire_room_begin(&engine->room, place) && engine->sockets != NULL && start_sweeping(engine))
        return engine;
    engine_raw_destroy(engine);
    return NULL;
}

static const struct error_texts *engine_raw_error_texts(const struct engine *engine)
{
    return &engine->room.error_texts;
}

const struct engine_ops engine_raw = {
    .name = "raw",
    .create = engine_raw_create,
    .reserve = engine_raw_reserve,
    .begin = engine_raw_begin,
    .flush = engine_raw_flush,
    .cancel = engine_raw_cancel,
    .close = engine_raw_close,
    .error_texts = engine_raw_error_texts,
    .destroy = engine_raw_destroy,
};
