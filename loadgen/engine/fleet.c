#include "loadgen/engine/fleet.h"

#include "loadgen/base/descriptors.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fleet {
    struct client_thread_setup setup;
    struct fleet_orders orders;
    struct client_thread *thread[PLAN_THREADS_MAX]; /* those that were dismissed too */
    uint32_t made, started;
    uint32_t working[PLAN_THREADS_MAX]; /* numbers of those that are not dismissed */
    uint32_t running;
};

/* What thread PLACE of the working ones does: the even share, and one of what is left over. */
static struct driver_orders orders_of(const struct fleet_orders *orders, uint32_t place)
{
    return (struct driver_orders){
        .connections = orders->connections / orders->threads +
                       (place < orders->connections % orders->threads ? 1 : 0),
        .threads = orders->threads,
        .rate = orders->rate,
    };
}

static bool make_thread(struct fleet *fleet, const struct fleet_orders *orders, uint32_t place,
                        bool late)
{
    const struct driver_orders its_orders = orders_of(orders, place);
    struct client_thread *thread;

    fleet->setup.index = fleet->made;
    fleet->setup.late = late;
    thread = client_thread_create(&fleet->setup, &its_orders);
    if (thread == NULL)
        return false;
    fleet->working[place] = fleet->made;
    fleet->thread[fleet->made++] = thread;
    return true;
}

struct fleet *fleet_create(const struct client_thread_setup *setup,
                           const struct fleet_orders *orders)
{
    struct fleet *fleet = calloc(1, sizeof(*fleet));

    if (fleet == NULL)
        return NULL;
    fleet->setup = *setup;
    fleet->orders = *orders;
    for (uint32_t i = 0; i < orders->threads; i++)
        if (!make_thread(fleet, orders, i, false)) {
            int error = errno;

            fleet_destroy(fleet);
            errno = error;
            return NULL;
        }
    return fleet;
}

/* Signals go to the main thread: the client threads start with all of them blocked. */
int fleet_start(struct fleet *fleet)
{
    sigset_t all, before;
    int error = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (error == 0 && fleet->started < fleet->made) {
        error = client_thread_start(fleet->thread[fleet->started]);
        if (error == 0) {
            fleet->started++;
            fleet->running++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* ---- While it runs ---- */

static int refuse(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return -1;
}

/* Makes and starts what is missing. Returns 0, or -1 with WHY and as many threads as before. */
static int add_threads(struct fleet *fleet, const struct fleet_orders *orders, char *why,
                       size_t size)
{
    uint32_t place = fleet->orders.threads;
    int error = 0;

    for (; place < orders->threads && error == 0; place++) {
        if (fleet->made == PLAN_THREADS_MAX)
            return refuse(why, size, "no more threads: 1024 were started in this run");
        if (!make_thread(fleet, orders, place, true))
            error = errno;
    }
    if (error == 0)
        error = fleet_start(fleet);
    if (error == 0)
        return 0;
    while (fleet->made > fleet->started)
        client_thread_destroy(fleet->thread[--fleet->made]);
    snprintf(why, size, "cannot start more threads: %s", strerror(error));
    return -1;
}

int fleet_order(struct fleet *fleet, const struct fleet_orders *orders, char *why, size_t size)
{
    if (orders->threads != fleet->orders.threads && fleet->setup.plan->replay_file != NULL)
        return refuse(why, size, "a replay keeps its threads: its requests are dealt out already");
    if (descriptors_reserve(orders->connections, orders->threads, why, size) != 0)
        return -1;
    if (orders->threads > fleet->orders.threads && add_threads(fleet, orders, why, size) != 0)
        return -1;
    for (uint32_t place = orders->threads; place < fleet->orders.threads; place++)
        client_thread_dismiss(fleet->thread[fleet->working[place]]);
    for (uint32_t place = 0; place < orders->threads; place++) {
        const struct driver_orders its_orders = orders_of(orders, place);

        client_thread_order(fleet->thread[fleet->working[place]], &its_orders);
    }
    fleet->orders = *orders;
    return 0;
}

uint32_t fleet_ended(struct fleet *fleet, uint32_t count)
{
    fleet->running -= count;
    return fleet->running;
}

uint32_t fleet_running(const struct fleet *fleet)
{
    return fleet->running;
}

void fleet_wake(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->started; i++)
        client_thread_wake(fleet->thread[i]);
}

void fleet_abandon(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->started; i++)
        client_thread_abandon(fleet->thread[i]);
}

void fleet_join(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->started; i++)
        client_thread_join(fleet->thread[i]);
}

/* ---- What came of it ---- */

void fleet_add_up(const struct fleet *fleet, struct tally *sum, struct tally *warmup)
{
    tally_reset(sum);
    if (warmup != NULL)
        tally_reset(warmup);
    for (uint32_t i = 0; i < fleet->made; i++) {
        tally_add(sum, client_thread_tally(fleet->thread[i]));
        if (warmup != NULL)
            tally_add(warmup, client_thread_warmup(fleet->thread[i]));
    }
}

struct fleet_account fleet_account(const struct fleet *fleet)
{
    struct fleet_account all = {.first_begun_ns = UINT64_MAX};

    for (uint32_t i = 0; i < fleet->started; i++) {
        struct client_thread_account one = client_thread_account(fleet->thread[i]);

        if (one.begun_ns < all.first_begun_ns)
            all.first_begun_ns = one.begun_ns;
        if (one.last_end_ns > all.last_end_ns)
            all.last_end_ns = one.last_end_ns;
        all.cpu_ns += one.cpu_ns;
        all.waited_ns += one.waited_ns;
        all.thread_ns += one.ended_ns - one.begun_ns;
        error_texts_add(&all.error_texts, one.error_texts);
    }
    return all;
}

bool fleet_fell_short(const struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->made; i++)
        if (client_thread_fell_short(fleet->thread[i]))
            return true;
    return false;
}

void fleet_destroy(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->made; i++)
        client_thread_destroy(fleet->thread[i]);
    free(fleet);
}
