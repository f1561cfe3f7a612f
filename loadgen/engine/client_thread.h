/*
 * One thread of connections: an event loop, a driver with its engine, a share of the requests and two
 * tallies. It ends by itself when its requests are done; others reach it only through the functions
 * that say so.
 *
 * Made, started, joined and freed by the main thread.
 */
#ifndef LOADGEN_CLIENT_THREAD_H
#define LOADGEN_CLIENT_THREAD_H

#include "loadgen/engine/driver.h"

struct client_thread;

struct client_thread_setup {
    const struct engine_ops *engine;
    const struct plan *plan;
    struct work *work;
    struct supply *supply;
    struct conversation *conversation; /* of the first thread; NULL: nobody wants to know */
    uint32_t index;
    bool late;   /* made while the run goes on */
    int done_fd; /* an eventfd: 1 is added when the thread has ended */
};

/* Returns NULL when there is no memory or descriptor; errno says. Its share is reserved. */
struct client_thread *client_thread_create(const struct client_thread_setup *setup,
                                           const struct driver_orders *orders);

/* Starts it. Returns 0 or an errno. */
int client_thread_start(struct client_thread *thread);

/* Gives it new orders, which it follows soon. */
void client_thread_order(struct client_thread *thread, const struct driver_orders *orders);

/* Makes it end when it has begun what it took out of the supply. */
void client_thread_dismiss(struct client_thread *thread);

/* Makes it look whether the run is over. */
void client_thread_wake(struct client_thread *thread);

/* Makes it count what is under way as unanswered and end. The supply was stopped before. */
void client_thread_abandon(struct client_thread *thread);

/* Waits for its end. Only once, and only if it was started. */
void client_thread_join(struct client_thread *thread);

/* What it counts, and what it counted while warming up; may be read at any time. */
const struct tally *client_thread_tally(const struct client_thread *thread);
const struct tally *client_thread_warmup(const struct client_thread *thread);

/* Whether there was no memory for connections that it was ordered to have. Any time. */
bool client_thread_fell_short(const struct client_thread *thread);

/* What it measured of itself, once it was joined. */
struct client_thread_account {
    uint64_t begun_ns; /* monotonic */
    uint64_t ended_ns;
    uint64_t last_end_ns;                  /* of the last request; begun_ns when there was none */
    uint64_t cpu_ns;                       /* user and system */
    uint64_t waited_ns;                    /* for a core that others had */
    const struct error_texts *error_texts; /* the thread's */
};
struct client_thread_account client_thread_account(const struct client_thread *thread);

/* Not while it runs. */
void client_thread_destroy(struct client_thread *thread);

#endif
