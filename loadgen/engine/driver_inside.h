/*
 * What the files of the driver share: its slots, and what both kinds of loop do to them. A closed loop
 * (closed_loop.c) begins the next request of a slot when the last has its answer; an open loop
 * (open_loop.c) begins requests when they are due, on slots that wait for them in a queue.
 */
#ifndef LOADGEN_DRIVER_INSIDE_H
#define LOADGEN_DRIVER_INSIDE_H

#include "loadgen/engine/driver.h"
#include "loadgen/engine/due.h"
#include "loadgen/engine/slot_queue.h"

enum slot_state {
    SLOT_OFF,      /* not wanted, or not begun yet */
    SLOT_FREE,     /* waits for a request that is due: in the queue of free slots */
    SLOT_THINKING, /* its timer runs */
    SLOT_BUSY,     /* a request is under way */
    SLOT_DONE,     /* there was no more request for it */
};

struct slot {
    struct driver *driver;
    uint32_t number;
    enum slot_state state;
    bool counted;       /* the request under way is counted, not part of the warm-up */
    bool used, came_up; /* ever */
    uint64_t begun_ns, due_ns;
    uint64_t free_since_ns;
    struct event *thinking; /* NULL without think time */
};

struct driver {
    struct driver_place place;
    struct driver_orders orders;
    struct engine *engine;
    struct slot **slots;
    uint32_t slot_count; /* made; at least orders.connections */
    uint32_t under_way;
    uint32_t started;       /* slots that the waves have reached */
    struct slot_queue free; /* in an open loop */
    struct due due;         /* the same */
    bool open;
    bool no_more; /* nothing is due any more */
    uint64_t origin_ns;
    uint64_t last_end_ns;
    uint64_t random;
    struct event *timer; /* open loop: the next request; closed loop: the next wave */
};

/* How old the run is; 0 before its origin, which an open loop awaits. */
static inline double driver_age_ns(const struct driver *driver, uint64_t now_ns)
{
    return now_ns > driver->origin_ns ? (double)(now_ns - driver->origin_ns) : 0;
}

/* ---- driver.c ---- */

/* Whether a request that is due at TIME_NS counts, or is part of the warm-up. */
bool driver_is_counted(const struct driver *driver, uint64_t time_ns);

/* Begins REQUEST, due at DUE_NS, on a slot that carries none. */
void driver_begin(struct driver *driver, uint32_t number, const struct request *request,
                  uint64_t due_ns, uint64_t now_ns);

/* Leaves the event loop when nothing is under way and nothing is to come. */
void driver_look_for_end(struct driver *driver, uint64_t now_ns);

/* Closes the connection of a slot that is not wanted any more. */
void driver_turn_off(struct driver *driver, uint32_t number);

/* ---- closed_loop.c ---- */

/* Begins the next request of a slot, if there is one; FIRST is for a slot of the first waves. */
void closed_loop_begin(struct driver *driver, uint32_t number, uint64_t now_ns, bool first);

/* Lets a slot wait before that, as --think says. */
void closed_loop_think(struct driver *driver, struct slot *slot);

/* The driver's timer in a closed loop, and the run's begin: the next wave of slots begins. */
void closed_loop_start_wave(struct driver *driver);

/* The event of a slot's think time is over. CONTEXT is the slot. */
void closed_loop_on_thought(evutil_socket_t fd, short events, void *context);

/* ---- open_loop.c ---- */

void open_loop_start(struct driver *driver);

/* A slot waits for a request. */
void open_loop_push_free(struct driver *driver, uint32_t number, uint64_t now_ns);

/* The driver's timer in an open loop: begins all that is due while slots are free, and waits again. */
void open_loop_send_due(struct driver *driver, uint64_t now_ns);

/* Counts what was due before the run's end and never begun. */
void open_loop_finish(struct driver *driver);

#endif
