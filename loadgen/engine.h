/*
 * An engine sends the requests of one client thread and takes the answers. How it does that is its
 * own affair; when it may send is the supply's, and what came of it goes into the tally.
 *
 * An engine belongs to its thread: create and destroy are called while the thread does not run, all
 * else by the thread.
 */
#ifndef LOADGEN_ENGINE_H
#define LOADGEN_ENGINE_H

#include "loadgen/plan.h"
#include "loadgen/supply.h"
#include "loadgen/tally.h"
#include "loadgen/target.h"

#include <event2/event.h>

struct engine;

/* What an engine is given; all of it outlives the engine. */
struct engine_place {
    const struct plan *plan;
    const struct target *target;
    struct event_base *base;
    struct supply_share *share;
    struct tally *tally;
    uint32_t connections; /* of this thread */
};

struct engine_ops {
    const char *name;

    /* Returns NULL when there is no memory. */
    struct engine *(*create)(const struct engine_place *place);

    /* Begins the first request of each connection. The event loop does the rest. */
    void (*start)(struct engine *engine);

    /* Gives up every request under way and counts it as unanswered. */
    void (*abandon)(struct engine *engine);

    /*
     * Requests under way. When it comes to 0 the supply was empty for every connection; the engine
     * has then called event_base_loopbreak().
     */
    uint32_t (*under_way)(const struct engine *engine);

    /* When the last request ended, monotonic ns; 0 before. */
    uint64_t (*last_end_ns)(const struct engine *engine);

    /* What was said about the first error of kind OTHER; "" if there was none. */
    const char *(*other_error)(const struct engine *engine);

    void (*destroy)(struct engine *engine);
};

/* libcurl does all: the multi interface on the thread's event loop. */
extern const struct engine_ops engine_curl;

#endif
