/*
 * The client threads of a run. Each has an event loop, a driver with its engine, a share of the
 * request budget and two tallies, and ends when its requests are done. Connections and rate are
 * split evenly; threads may be added and removed during the run. Main thread.
 */
#ifndef LOADGEN_CLIENT_POOL_H
#define LOADGEN_CLIENT_POOL_H

#include "loadgen/engine/driver.h"

struct client_pool;

struct client_pool_config {
    const struct engine_ops *engine;
    const struct plan *plan;
    struct request_plan *request_plan;
    struct request_budget *budget;
    struct transcript *transcript; /* the first thread's; NULL: none */
    int log_fd;                    /* --log; -1: none */
    int done_fd;                   /* an eventfd: each thread adds 1 when it ends */
};

/* The load of all threads together. */
struct client_pool_settings {
    uint32_t threads;
    uint32_t connections; /* total; at least one per thread */
    struct profile rate;  /* requests per second; open loop only */
};

/* Creates the threads and reserves their shares of the budget. Returns NULL with errno set. */
struct client_pool *client_pool_create(const struct client_pool_config *config,
                                       const struct client_pool_settings *settings);

/* Starts the threads. Returns 0 or an errno; then the threads that did start must be aborted. */
int client_pool_start(struct client_pool *pool);

/* Applies new settings during the run. Returns 0, or -1 with WHY and nothing changed. */
int client_pool_apply(struct client_pool *pool, const struct client_pool_settings *settings,
                      char *why, size_t size);

/* COUNT more threads have ended (done_fd). Returns how many still run. */
uint32_t client_pool_count_ended(struct client_pool *pool, uint32_t count);

uint32_t client_pool_running(const struct client_pool *pool);

/* Makes all threads check whether the run has ended. */
void client_pool_wake(struct client_pool *pool);

/* Makes all threads count their requests in flight as unanswered and end. Stop the budget first. */
void client_pool_abort(struct client_pool *pool);

/* Waits until all threads that were started have ended. */
void client_pool_join(struct client_pool *pool);

/* Sets *sum, and *warmup unless NULL, to the tallies of all threads so far. */
void client_pool_sum(const struct client_pool *pool, struct tally *sum, struct tally *warmup);

/* Totals over all threads, after client_pool_join(). */
struct client_pool_totals {
    uint64_t first_begun_ns, last_end_ns; /* monotonic */
    uint64_t last_due_ns;                 /* the same; open loop: of the last begun request */
    uint64_t cpu_ns;                      /* user and system */
    uint64_t waited_ns;                   /* ready to run, but waiting for a core */
    uint64_t thread_ns;                   /* sum of the threads' lifetimes */
    int log_error;                        /* errno of the log; 0: none */
    struct error_texts error_texts;
    struct negotiations negotiations;
};
struct client_pool_totals client_pool_totals(const struct client_pool *pool);

/*
 * Adds what all threads measured of scenarios to *sum, which is created if it is NULL; it stays
 * NULL without scenarios. After client_pool_join(). Returns false if out of memory.
 */
bool client_pool_sum_scenarios(const struct client_pool *pool, struct scenario_tally **sum);

/* Whether a thread could not create all connections of its settings. */
bool client_pool_ran_out_of_memory(const struct client_pool *pool);

void client_pool_destroy(struct client_pool *pool);

#endif
