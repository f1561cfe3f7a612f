/*
 * The life cycle of the master: the table of lifecycle.def, its dispatcher, and the actions that
 * announce the server and end it. Those of reloads and upgrades are in reload.c and upgrade.c.
 */
#include "daemon/master/internal.h"

#include "common/escape.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LOGGER_GRACE_MS = 5000, /* added to the time that the logger may wait for a log */
    KILL_GRACE_MS =
        2000,        /* added to drain_timeout, at which workers close the remaining connections */
    MOVES_MS = 5000, /* longest wait of a stop for connections between workers */
};

/* The table */

enum life_action {
#define LIFE_ACTION(name, next, help) ACTION_##name,
#include "daemon/master/lifecycle.def"
    LIFE_ACTIONS
};

enum { LIFE_SAME = LIFE_STATES };

static const struct {
    int (*act)(struct master *master);
    int next; /* state, or LIFE_SAME */
} actions[LIFE_ACTIONS] = {
#define LIFE_ACTION(name, next, help) {act_##name, LIFE_##next},
#include "daemon/master/lifecycle.def"
};

/* Each row names its actions without a prefix. */
#define ROW(a, b, c, d, e, f, g, h, i, j)                                                          \
    {ACTION_##a, ACTION_##b, ACTION_##c, ACTION_##d, ACTION_##e,                                   \
     ACTION_##f, ACTION_##g, ACTION_##h, ACTION_##i, ACTION_##j},

static const enum life_action cells[LIFE_EVENTS][LIFE_STATES] = {
#define LIFE_EVENT(name, help, ...) ROW(__VA_ARGS__)
#include "daemon/master/lifecycle.def"
};

static const char *const state_names[] = {
#define LIFE_STATE(name, help) #name,
#include "daemon/master/lifecycle.def"
};

static const char *const event_names[] = {
#define LIFE_EVENT(name, help, ...) #name,
#include "daemon/master/lifecycle.def"
};

/* Dispatching */

bool lifecycle_is_stopping(const struct master *master)
{
    return master->life.state >= LIFE_retiring;
}

static void enter_state(struct lifecycle *life, enum life_state state)
{
    if (state == life->state)
        return;
    event_del(life->timer);
    life->state = state;
}

static void handle_life_event(struct master *master, enum life_event event)
{
    enum life_state before = master->life.state;
    enum life_action action = cells[event][before];

    if (action == ACTION_impossible)
        event_log(LEVEL_ERROR, "life cycle: '%s' is impossible when %s", event_names[event],
                  state_names[before]);
    if (actions[action].next != LIFE_SAME)
        enter_state(&master->life, (enum life_state)actions[action].next);
    if (actions[action].act(master) != 0)
        enter_state(&master->life, before);
}

void lifecycle_report(struct master *master, enum life_event event)
{
    struct lifecycle *life = &master->life;

    life->deferred |= UINT32_C(1) << event;
    if (life->acting)
        return;
    life->acting = true;
    while (life->deferred != 0) {
        int first = __builtin_ctz(life->deferred);

        life->deferred &= life->deferred - 1;
        handle_life_event(master, (enum life_event)first);
    }
    life->acting = false;
}

void lifecycle_set_deadline(struct master *master, uint64_t ms)
{
    const struct timeval when = {.tv_sec = (time_t)(ms / 1000),
                                 .tv_usec = (suseconds_t)(ms % 1000) * 1000};

    if (event_add(master->life.timer, &when) != 0) /* no memory: a stop must end, so do not wait */
        event_active(master->life.timer, EV_TIMEOUT, 0);
}

static void on_deadline(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    lifecycle_report(argument, EVENT_timeout);
}

int lifecycle_init(struct master *master)
{
    _Static_assert(LIFE_EVENTS <= 32, "deferred has 32 bits");
    master->life.timer = event_new(master->base, -1, 0, on_deadline, master);
    return master->life.timer != NULL ? 0 : -1;
}

void lifecycle_free(struct lifecycle *life)
{
    loop_free_event(life->timer);
    life->timer = NULL;
}

/* Observing */

/* True if nothing is left to wait for but the end of the event loop. */
static bool is_flushed(const struct master *master)
{
    return auxiliary_logger_has_finished(&master->auxiliary) &&
           (!master->life.retired || master->auxiliary.metrics.leaving == 0);
}

/*
 * After another upgrade, an older master may still finish responses. It learns of a stop only by
 * this one.
 */
static bool awaits_older_master(const struct master *master)
{
    return master->life.retired && !master->life.failed && master->upgrade.inheritance.link >= 0;
}

void lifecycle_report_processes(struct master *master)
{
    const struct workers *workers = &master->workers;
    enum life_state *state = &master->life.state;

    if (workers_are_renewed(master))
        lifecycle_report(master, EVENT_new_serve);
    lifecycle_report(master,
                     workers_are_replacing(workers) ? EVENT_old_workers : EVENT_no_old_workers);
    if (!master->life.failed && workers_are_renewed(master) && !workers_are_replacing(workers))
        lifecycle_report(master, EVENT_all_serve);
    if (workers_alive(workers) == 0 && !upgrade_must_end(master) && !awaits_older_master(master))
        lifecycle_report(master, EVENT_all_gone);
    if (is_flushed(master))
        lifecycle_report(master, EVENT_flushed);
    if (*state == LIFE_serving)
        upgrade_start_waiting(master);
    if (*state == LIFE_serving || *state == LIFE_starting)
        reload_start_waiting(master);
}

void lifecycle_stop(struct master *master, enum life_event event)
{
    lifecycle_report(master, master->life.stop_requested ? EVENT_stop_again : event);
    master->life.stop_requested = true;
    lifecycle_report_processes(master);
}

/* Actions that only change the state; those with more to do are in the files of their subjects. */

int act_impossible(struct master *master)
{
    (void)master;
    return 0;
}

int act_nothing(struct master *master)
{
    (void)master;
    return 0;
}

int act_await_old(struct master *master)
{
    (void)master;
    return 0;
}

int act_settle(struct master *master)
{
    (void)master;
    return 0;
}

/* The server serves */

/* A pipe with lines of the access log, which a program reads. */
static bool output_is_a_log(const struct config *config)
{
    return strcmp(config->log_access, "-") == 0 && isatty(STDOUT_FILENO) == 0;
}

/* Prints where the server listens, and how to watch and stop it. */
static void announce(const struct master *master)
{
    const struct config *config = master->config;
    bool usual = strcmp(config->server_name, INSTANCE_DEFAULT_NAME) == 0;
    char *root = realpath(config->server_root, NULL);
    char which[INSTANCE_NAME_MAX + 8], sizes[96];

    snprintf(which, sizeof(which), "%s%s", usual ? "" : " -n ", usual ? "" : config->server_name);
    snprintf(sizes, sizeof(sizes), "%u worker%s, %u serving thread%s per worker",
             config->workers_processes, units_plural(config->workers_processes, "", "s"),
             config->workers_threads, units_plural(config->workers_threads, "", "s"));
    if (output_is_a_log(config)) {
        event_log(LEVEL_INFO, "serves %s on %s: %s", root != NULL ? root : config->server_root,
                  master->segment.header.listening, sizes);
    } else {
        printf("webserverd %s serves ", WEBSERVERD_VERSION);
        escape_print(stdout, root != NULL ? root : config->server_root);
        printf(" on %s: %s\n  watch it: wsconsole%s    stop it: %swsctl%s stop\n",
               master->segment.header.listening, sizes, which,
               master->options->detach ? "" : "Ctrl-C, or ", which);
        fflush(stdout);
    }
    free(root);
}

/*
 * After an upgrade the service is ready already, and the service manager accepts no message of this
 * master until the old one has named it.
 */
int act_announce(struct master *master)
{
    bool upgrade = master->upgrade.inheritance.pending;

    if (master->life.announced)
        return 0;
    if (upgrade_take_over(master) != 0)
        return -1;
    master->life.announced = true;
    announce(master);
    if (!upgrade)
        notify_send("READY=1\nSTATUS=serving on %s", master->segment.header.listening);
    daemonize_report_ready();
    return 0;
}

/* Stopping: the workers answer what is on its way, then finish their requests */

static void report_stopping(const struct master *master)
{
    atomic_store(&segment_master(&master->segment)->stopping, 1);
    event_log(LEVEL_INFO, "stopping: finishing open requests");
}

/* The kernel then refuses new connections, unless another process has the sockets, too. */
static void close_listeners(struct master *master)
{
    dispatch_stop_accepting(&master->dispatch);
    listeners_close(master->listeners);
    master->listeners = NULL;
}

static void wait_for_workers(struct master *master)
{
    lifecycle_set_deadline(master, master->config->workers_drain_timeout + KILL_GRACE_MS);
}

/* The listen sockets stay open, if this master still has any: see listeners_withdraw(). */
int act_hasten(struct master *master)
{
    master->life.retired = false;
    inheritance_report_stop(&master->upgrade.inheritance);
    notify_send("STOPPING=1\nSTATUS=finishing open requests");
    report_stopping(master);
    rebalance_stop(&master->rebalance);
    supervisor_end_workers(master, WORKER_EVENT_stop);
    lifecycle_set_deadline(master, master->config->workers_stop_grace);
    return 0;
}

/* Until an upgrade is complete, the listen sockets belong to the old master. */
int act_begin_stop(struct master *master)
{
    const struct inheritance *inheritance = &master->upgrade.inheritance;

    certificates_stop(master);
    if (!inheritance->pending && master->listeners != NULL)
        listeners_withdraw(master->listeners);
    return act_hasten(master);
}

int act_stop_both(struct master *master)
{
    upgrade_stop(master);
    return act_begin_stop(master);
}

/* Connections that are on their way between workers have arrived: now as in retire_workers(). */
static void finish_workers(struct master *master)
{
    dispatch_take_all(master);
    close_listeners(master);
    supervisor_end_workers(master, WORKER_EVENT_finish);
    wait_for_workers(master);
}

int act_finish(struct master *master)
{
    rebalance_await(master, MOVES_MS, finish_workers);
    return 0;
}

static void retire_workers(struct master *master)
{
    dispatch_flush(master);
    close_listeners(master);
    supervisor_end_workers(master, WORKER_EVENT_retire);
    if (master->config->workers_reload_timeout > 0)
        lifecycle_set_deadline(master, master->config->workers_reload_timeout);
}

int act_retire(struct master *master)
{
    uint64_t drain_ms = master->config->workers_drain_timeout;

    if (master->reload.waiting)
        upgrade_pass_reload(master);
    auxiliary_release_metrics(&master->auxiliary);
    certificates_stop(master);
    master->life.retired = true;
    upgrade_pass_metrics(master);
    report_stopping(master);
    /* Nobody waits for the end of this master. */
    rebalance_await(master, drain_ms > MOVES_MS ? drain_ms : MOVES_MS, retire_workers);
    return 0;
}

int act_force(struct master *master)
{
    upgrade_force(master);
    master->life.forced = true;
    master->life.retired = false;
    event_log(LEVEL_WARN, "stopping now: killing the workers");
    rebalance_stop(&master->rebalance);
    close_listeners(master);
    supervisor_end_workers(master, WORKER_EVENT_finish);
    workers_kill(&master->workers);
    return 0;
}

int act_kill_workers(struct master *master)
{
    event_log(LEVEL_WARN, "some workers did not exit within workers.drain_timeout: killing them");
    workers_kill(&master->workers);
    return 0;
}

/* Flushing: the logger writes the remaining lines, then the loop ends */

int act_flush(struct master *master)
{
    uint32_t wait_ms = master->life.forced ? 0 : master->config->workers_drain_timeout;

    summary_finish(master);
    /* The workers may have died before they were told to finish. */
    rebalance_stop(&master->rebalance);
    close_listeners(master);
    event_log(LEVEL_INFO, "stopped");
    auxiliary_release_metrics(&master->auxiliary);
    auxiliary_stop_logger(master, wait_ms);
    lifecycle_set_deadline(master, (uint64_t)wait_ms + LOGGER_GRACE_MS);
    return 0;
}

static void report_flushed(struct master *master)
{
    if (is_flushed(master))
        lifecycle_report(master, EVENT_flushed);
}

int act_end_metrics(struct master *master)
{
    auxiliary_end_metrics(&master->auxiliary);
    report_flushed(master);
    return 0;
}

int act_hasten_logger(struct master *master)
{
    act_end_metrics(master);
    if (auxiliary_logger_has_finished(&master->auxiliary))
        return 0;
    auxiliary_stop_logger(master, 0);
    lifecycle_set_deadline(master, LOGGER_GRACE_MS);
    return 0;
}

int act_kill_both(struct master *master)
{
    auxiliary_end_metrics(&master->auxiliary);
    logger_process_give_up(&master->auxiliary.logger);
    report_flushed(master);
    return 0;
}

/*
 * The logger has reported lost lines, too, unless it was killed; but the error log may be as full.
 */
int act_end(struct master *master)
{
    uint64_t lost = logger_process_unwritten(&master->auxiliary.logger);

    master->life.lost_lines = lost > 0;
    if (lost > 0)
        event_log(LEVEL_ERROR, "stopped without %" PRIu64 " %s of the access log", lost,
                  units_plural(lost, "line", "lines"));
    auxiliary_end_metrics(&master->auxiliary);
    event_base_loopbreak(master->base);
    return 0;
}
