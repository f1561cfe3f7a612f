/*
 * An engine carries requests: it is told which request to begin on which connection, and says what
 * came of it. When, and which, is the driver's affair; how, over which sockets and by whose HTTP, is
 * the engine's.
 *
 * A connection is a slot, numbered from 0. A slot carries one request at a time, opens its connection
 * when it needs one, and keeps it where the plan and the server allow.
 *
 * An engine belongs to its thread: create, destroy and error_texts are called while the thread does
 * not run, all else by the thread. An engine calls the driver (driver_up, driver_ended) from the event
 * loop only, never from within a function below.
 */
#ifndef LOADGEN_ENGINE_H
#define LOADGEN_ENGINE_H

#include "loadgen/engine/conversation.h"
#include "loadgen/plan/plan.h"
#include "loadgen/plan/work.h"
#include "loadgen/stats/tally.h"

#include <event2/event.h>

struct engine;
struct driver;

/* What an engine is given; all of it outlives the engine. */
struct engine_place {
    const struct plan *plan;
    const struct work *work;
    struct event_base *base;
    struct driver *driver;
    struct conversation *conversation; /* for the first request of slot 0; or NULL */
};

struct engine_ops {
    const char *name;

    /* Returns NULL when there is no memory. */
    struct engine *(*create)(const struct engine_place *place);

    /* Makes room for slots 0 to SLOTS - 1; there is never less than before. False: no memory. */
    bool (*reserve)(struct engine *engine, uint32_t slots);

    /* Begins REQUEST on a slot that is free. It goes out at once, or with the next flush. */
    void (*begin)(struct engine *engine, uint32_t slot, const struct request *request,
                  uint64_t now_ns);

    /* Sends what was begun since the last flush, unless the engine is about to do so by itself. */
    void (*flush)(struct engine *engine);

    /*
     * Gives up the request under way on a slot, without a word to the driver. Returns whether a
     * connection had been established for it.
     */
    bool (*cancel)(struct engine *engine, uint32_t slot);

    /* Closes the connection of a slot that is free and will not be used for a while. */
    void (*close)(struct engine *engine, uint32_t slot);

    /* What was said about the first errors. */
    const struct error_texts *(*error_texts)(const struct engine *engine);

    void (*destroy)(struct engine *engine);
};

/* libcurl does all: the multi interface on the thread's event loop. */
extern const struct engine_ops engine_curl;

/* libcurl connects (names, TLS, proxies); HTTP/1 is our own, for full speed. */
extern const struct engine_ops engine_raw;

#endif
