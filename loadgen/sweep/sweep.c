#include "loadgen/sweep/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static size_t at_least_one(size_t count)
{
    return count > 0 ? count : 1;
}

static size_t count_curves(const struct plan_sweep *over)
{
    return (over->keepalive == PLAN_KEEPALIVE_BOTH ? 2 : 1) *
           at_least_one(over->server_workers.count) * at_least_one(over->server_threads.count);
}

static uint32_t number_at(const struct plan_numbers *numbers, size_t at, uint32_t otherwise)
{
    return numbers->count > 0 ? numbers->value[at] : otherwise;
}

static void name_curve(struct sweep_curve *curve)
{
    size_t used = (size_t)snprintf(curve->name, sizeof(curve->name), "%s",
                                   curve->keepalive ? "keep-alive" : "connection per request");

    if (curve->server.threads_per_worker > 0)
        snprintf(curve->name + used, sizeof(curve->name) - used,
                 ", %" PRIu32 " worker%s x %" PRIu32 " thread%s", curve->server.workers,
                 curve->server.workers == 1 ? "" : "s", curve->server.threads_per_worker,
                 curve->server.threads_per_worker == 1 ? "" : "s");
}

static void fill_points(struct sweep *sweep, size_t number)
{
    const struct plan_numbers *connections = &sweep->plan->sweep.connections;
    struct sweep_curve *curve = &sweep->curves[number];

    curve->count = connections->count;
    curve->points = &sweep->points[number * connections->count];
    for (size_t i = 0; i < curve->count; i++) {
        struct sweep_point *point = &curve->points[i];

        point->plan = *sweep->plan;
        point->plan.keepalive = curve->keepalive;
        point->curve = number;
        plan_set_connections(&point->plan, connections->value[i]);
        snprintf(point->name, sizeof(point->name), "%" PRIu32 " connection%s, %s",
                 connections->value[i], connections->value[i] == 1 ? "" : "s", curve->name);
    }
}

/* Order of the curves: keep-alive is the outermost loop, the server's threads the innermost. */
static void fill_curves(struct sweep *sweep, struct server_sizes server)
{
    const struct plan_sweep *over = &sweep->plan->sweep;
    size_t threads = at_least_one(over->server_threads.count);
    size_t workers = at_least_one(over->server_workers.count);

    for (size_t i = 0; i < sweep->curve_count; i++) {
        struct sweep_curve *curve = &sweep->curves[i];
        bool first_half = i < threads * workers;

        curve->keepalive = over->keepalive == PLAN_KEEPALIVE_ON ||
                           (over->keepalive == PLAN_KEEPALIVE_BOTH && first_half);
        curve->server.workers =
            number_at(&over->server_workers, i / threads % workers, server.workers);
        curve->server.threads_per_worker =
            number_at(&over->server_threads, i % threads, server.threads_per_worker);
        name_curve(curve);
        fill_points(sweep, i);
    }
}

struct sweep *sweep_create(const struct plan *plan, struct server_sizes server, char *why,
                           size_t size)
{
    struct sweep *sweep = calloc(1, sizeof(*sweep));

    snprintf(why, size, "out of memory");
    if (sweep == NULL)
        return NULL;
    sweep->plan = plan;
    sweep->cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    sweep->curve_count = count_curves(&plan->sweep);
    sweep->point_count = sweep->curve_count * plan->sweep.connections.count;
    if (sweep->point_count > SWEEP_POINTS_MAX) {
        snprintf(why, size, "too many points: %zu (at most %d)", sweep->point_count,
                 SWEEP_POINTS_MAX);
    } else {
        sweep->curves = calloc(sweep->curve_count, sizeof(*sweep->curves));
        sweep->points = calloc(sweep->point_count, sizeof(*sweep->points));
        sweep->trials = trials_create(sweep->point_count, plan->rounds);
    }
    if (sweep->curves == NULL || sweep->points == NULL || sweep->trials == NULL) {
        sweep_free(sweep);
        return NULL;
    }
    fill_curves(sweep, server);
    return sweep;
}

void sweep_free(struct sweep *sweep)
{
    if (sweep == NULL)
        return;
    free(sweep->curves);
    free(sweep->points);
    trials_free(sweep->trials);
    free(sweep);
}

size_t sweep_runs_done(const struct sweep *sweep)
{
    size_t done = 0;

    for (size_t i = 0; i < sweep->point_count; i++)
        done += trials_done(sweep->trials, i);
    return done;
}
