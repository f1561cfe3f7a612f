/*
 * A master without processes, for tests of its parts. The channels of its workers end in the test,
 * and its events are in its segment. No process is started.
 */
#ifndef TESTS_MASTER_SCENE_H
#define TESTS_MASTER_SCENE_H

#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/config/load.h"
#include "daemon/master/internal.h"
#include "tests/test.h"
#include "tests/unit/last_event.h"
#include "tests/unit/own_segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCENE_WORKERS = 3, SCENE_THREADS = 2 };

/* A worker's ends of its channels, and what came through them. */
struct scene_end {
    struct channel *commands, *connections;
    int received[MESSAGE_COUNT];
    struct message_give give; /* the last one */
};

static struct master master;
static struct scene_end ends[SCENE_WORKERS];

static void scene_receive(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct scene_end *end = owner;

    (void)length;
    end->received[kind]++;
    if (kind == MESSAGE_GIVE)
        end->give = *(const struct message_give *)data;
    if (fd >= 0)
        close(fd);
}

static void scene_fault(void *owner, const char *what)
{
    (void)owner;
    fail_msg("%s", what);
}

/* Makes *OURS a channel of the master to the worker that ENDS in *THEIRS. */
static void scene_open_pair(struct scene_end *end, enum message_route to_worker,
                            struct channel **ours, struct channel **theirs)
{
    const struct channel_owner owner = {.message = scene_receive,
                                        .closed = child_ignore_closed,
                                        .fault = scene_fault,
                                        .owner = end};
    int fds[2];

    assert_int_equal(channel_pair(fds), 0);
    *ours = channel_open(master.base, fds[0], message_route_back(to_worker), &owner);
    *theirs = channel_open(master.base, fds[1], to_worker, &owner);
    assert_non_null(*ours);
    assert_non_null(*theirs);
}

/* Each worker is in state STATE, of the current generation, with one thread. */
static int scene_begin(enum worker_state state)
{
    static char control_socket[64];
    static const char *const overrides[] = {
        "server.listen=127.0.0.1:0", "server.root=/",       "workers.dispatch=master",
        "workers.processes=3",       "workers.threads=2",   "log.level=info",
        "log.access=/dev/null",      "log.error=/dev/null", control_socket};
    static const struct options options = {.overrides = overrides,
                                           .override_count = ARRAY_LENGTH(overrides)};
    const struct config_sources sources = {.overrides = overrides,
                                           .override_count = ARRAY_LENGTH(overrides)};
    const struct segment_plan plan = {.max_workers = SCENE_WORKERS, .max_threads = SCENE_THREADS};
    char why[256];

    snprintf(control_socket, sizeof(control_socket), "control.socket=/tmp/webserverd-unit-%d",
             (int)getpid());
    memset(ends, 0, sizeof(ends));
    master = (struct master){.options = &options,
                             .config = calloc(1, sizeof(*master.config)),
                             .base = event_base_new(),
                             .auxiliary = {.logs = LOG_FILES_NONE},
                             .reload = {.new_logs = LOG_FILES_NONE},
                             .root_watch = {.inotify = -1},
                             .upgrade = {.inheritance = INHERITANCE_NONE, .successor_link = -1}};
    if (config_load(master.config, &sources, stderr) != 0 ||
        own_segment_create(&master.segment, plan) != 0)
        return -1;
    master.listeners = listeners_open(master.config, 1, NULL, why, sizeof(why));
    master.control = control_socket_open(master.config, false, master.base, command_run, &master,
                                         why, sizeof(why));
    if (master.control == NULL || auxiliary_init(&master) != 0 || workers_init(&master) != 0 ||
        lifecycle_init(&master) != 0 || supervisor_init(&master) != 0 ||
        dispatch_init(&master) != 0 || rebalance_init(&master) != 0)
        return -1;
    certificates_init(&master);
    master.auxiliary.logger.finished = true;                 /* no logger is started, */
    master.workers.start_backoff.not_before_ns = UINT64_MAX; /* ...and no worker */
    master.life.state = LIFE_serving;
    master.life.announced = true;
    for (uint32_t i = 0; i < SCENE_WORKERS; i++) {
        struct worker_process *worker = &master.workers.worker[i];

        if (segment_reserve(&master.segment, i, SCENE_THREADS) != 0)
            return -1;
        worker->state = state;
        worker->generation = 1;
        worker->threads_sent = worker->threads_actual = 1;
        scene_open_pair(&ends[i], ROUTE_COMMANDS, &worker->commands, &ends[i].commands);
        scene_open_pair(&ends[i], ROUTE_DISPATCH, &worker->connections, &ends[i].connections);
    }
    events_attach(&master.segment, SEGMENT_RING_MASTER);
    atomic_store(&segment_master(&master.segment)->log_level, LEVEL_INFO);
    return 0;
}

static inline int scene_begin_serving(void **state)
{
    (void)state;
    return scene_begin(WORKER_SERVING);
}

static int scene_end(void **state)
{
    (void)state;
    events_attach(NULL, 0);
    for (uint32_t i = 0; i < SCENE_WORKERS; i++) {
        channel_close(ends[i].commands);
        channel_close(ends[i].connections);
    }
    control_socket_close(master.control, true);
    lifecycle_free(&master.life);
    reload_free(&master.reload);
    rebalance_free(&master.rebalance);
    dispatch_free(&master.dispatch);
    workers_free(&master.workers);
    certificates_free(&master.certificates);
    auxiliary_free(&master.auxiliary);
    close(master.auxiliary.doorbell);
    close(master.auxiliary.alive[0]);
    close(master.auxiliary.alive[1]);
    listeners_close(master.listeners);
    roots_close(&master.roots);
    roots_close(&master.reload.previous_roots);
    json_decref(master.monitor.worker_deaths);
    segment_destroy(&master.segment);
    event_base_free(master.base);
    config_free(master.config);
    free(master.config);
    return 0;
}

/* Reads what the master has sent to the worker in SLOT. */
static inline struct scene_end *scene_read(uint32_t slot)
{
    channel_read_all(ends[slot].commands);
    if (ends[slot].connections != NULL)
        channel_read_all(ends[slot].connections);
    return &ends[slot];
}

/* Number of events so far, and the last one; "": none. */
static inline uint64_t scene_events(void)
{
    return event_count(&master.segment);
}

static inline const char *scene_last_event(void)
{
    return last_event(&master.segment);
}

#endif
