/*
 * The slots of a driver, each for one request at a time: how a request or a step of a scenario
 * begins; its open loop. For driver.c and open_loop.c; driver.h is their interface. The client
 * thread.
 */
#ifndef LOADGEN_SLOT_H
#define LOADGEN_SLOT_H

#include "common/clock.h"

#include "loadgen/engine/driver.h"
#include "loadgen/engine/virtual_user.h"
#include "loadgen/plan/arrivals.h"
#include "loadgen/plan/request_plan.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- A FIFO queue of free slots, as a ring ---- */

/* All zero: empty, without room. */
struct slot_queue {
    uint32_t *ring;
    uint32_t capacity, head, length;
};

/* Makes room for CAPACITY slots; never shrinks. Returns false if out of memory. */
bool slot_queue_grow(struct slot_queue *queue, uint32_t capacity);

/* The queue must have room. */
void slot_queue_push(struct slot_queue *queue, uint32_t slot);

/* Removes the oldest slot; the queue must not be empty. */
uint32_t slot_queue_pop(struct slot_queue *queue);

void slot_queue_free(struct slot_queue *queue);

/*
 * ---- The schedule of an open loop in one client thread: when which requests are due ----
 *
 * By the rate, or by a replayed log. With scenarios, what is due is the start of a scenario, and
 * the schedule has no entries.
 */

struct schedule {
    struct request_plan *request_plan;
    uint64_t origin_ns;                /* when the run began, monotonic */
    struct arrivals arrivals;          /* due times by the rate */
    const struct request_entry *entry; /* if the list ends: the next one; NULL: none is left */
    bool ends;                         /* the list ends */
    bool replay;
};

/* ---- Slots ---- */

enum slot_state {
    SLOT_OFF,      /* not in use, or not started yet */
    SLOT_FREE,     /* open loop: in the queue of free slots */
    SLOT_THINKING, /* its timer runs */
    SLOT_BUSY,     /* a request is in flight */
    SLOT_WAITING,  /* page loads: idle, until its browser has a request for it */
    SLOT_DONE,     /* the budget is used up */
};

struct slot {
    struct driver *driver;
    uint32_t number;
    enum slot_state state;
    bool counted;         /* the request in flight is not part of the warm-up */
    bool used, connected; /* ever; set in the first slot of each connection */
    uint64_t begun_ns, due_ns;
    uint64_t free_since_ns;
    size_t list_position;      /* --order each; page loads: the entry in flight */
    uint64_t think_ns;         /* recorded, after the request in flight */
    struct event *thinking;    /* NULL without think time */
    struct virtual_user *user; /* NULL without scenarios */
    struct browser *browser;   /* page loads: of the first slot of a browser; else NULL */
};

struct driver {
    struct driver_config config;
    struct driver_settings settings;
    struct engine *engine;
    struct slot **slots;
    uint32_t slot_count;          /* never below settings.slots */
    uint32_t in_flight, thinking; /* slots */
    uint32_t running;             /* slots that run a scenario, browsers that load pages */
    uint32_t started;             /* slots that the waves have reached */
    struct slot_queue free;       /* open loop */
    struct schedule schedule;     /* open loop */
    bool open;
    bool exhausted; /* no more requests: the list or the schedule has ended */
    uint64_t origin_ns;
    uint64_t last_end_ns, last_due_ns;
    uint64_t random;
    struct event *timer; /* fires for the next request (open loop) or the next wave (closed loop) */
};

/* What the threads need random numbers for: each use has its own sequence in each thread. */
enum random_use { RANDOM_OF_DRIVER, RANDOM_OF_ARRIVALS, RANDOM_USES };

/* The state to begin with. */
uint64_t driver_random(const struct driver_config *config, enum random_use use);

static inline struct timeval driver_timeval(uint64_t us)
{
    return (struct timeval){(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};
}

/* Time since the origin; 0 before it: an open loop starts shortly before its origin. */
static inline double driver_age_ns(const struct driver *driver, uint64_t now_ns)
{
    return now_ns > driver->origin_ns ? (double)(now_ns - driver->origin_ns) : 0;
}

/* Whether a request due at DUE_NS is counted, not part of the warm-up. */
static inline bool driver_is_counted(const struct driver *driver, uint64_t due_ns)
{
    return due_ns >= driver->config.share->budget->counted_from_ns;
}

/* The first slot of the connection, or of the browser, that slot NUMBER belongs to. */
static inline struct slot *slot_leader(const struct driver *driver, uint32_t number)
{
    return driver->slots[number - number % driver->config.plan->streams];
}

/* Where the request in flight is counted. */
static inline struct tally *slot_tally(const struct driver *driver, const struct slot *slot)
{
    return slot->counted ? driver->config.tally : driver->config.warmup;
}

/* Whether the slot runs a scenario. */
static inline bool slot_is_running(const struct slot *slot)
{
    return slot->user != NULL && slot->user->scenario != NULL;
}

/* Whether slot NUMBER only helps the first slot of its browser. */
static inline bool slot_helps(const struct driver *driver, uint32_t number)
{
    return driver->config.plan->page_loads && number % driver->config.plan->streams != 0;
}

/* Begins the request of ENTRY on an idle slot. */
void slot_begin_entry(struct driver *driver, uint32_t number, const struct request_entry *entry,
                      uint64_t due_ns, uint64_t now_ns);

/* Begins the scenario of START on an idle slot. */
void slot_begin_scenario(struct driver *driver, struct slot *slot,
                         const struct scenario_start *start, uint64_t due_ns, uint64_t now_ns);

/*
 * ---- The open loop: requests and scenarios begin when they are due, on free connections ----
 */

/* Frees all slots of the settings and begins what is due already. */
void open_loop_start(struct driver *driver);

/* Slot NUMBER can begin a request. */
void open_loop_free(struct driver *driver, uint32_t number, uint64_t now_ns);

/* Begins all that is due while slots are free, and arms the timer for the next request. */
void open_loop_send(struct driver *driver, uint64_t now_ns);

/* After the loop: counts what was due but never begun. Does nothing in a closed loop. */
void open_loop_finish(struct driver *driver);

#endif
