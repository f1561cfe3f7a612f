/* The life cycle of the master: the table of lifecycle.def and its dispatcher. */
#include "daemon/master/internal.h"

#include "common/escape.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void handle_event(struct master *master, enum life_event event)
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
        handle_event(master, (enum life_event)first);
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

void lifecycle_report_processes(struct master *master)
{
    const struct workers *workers = &master->workers;
    enum life_state *state = &master->life.state;

    if (workers_are_renewed(master))
        lifecycle_report(master, EVENT_new_serve);
    lifecycle_report(master,
                     workers_are_replacing(workers) ? EVENT_old_workers : EVENT_no_old_workers);
    if (!master->life.failed && workers_are_settled(master))
        lifecycle_report(master, EVENT_all_serve);
    if (workers_alive(workers) == 0 && !upgrade_must_end(master))
        lifecycle_report(master, EVENT_all_gone);
    if (shutdown_is_flushed(master))
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

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

/* Prints on the terminal where the server listens, and how to watch and stop it. */
static void announce(const struct master *master)
{
    const struct config *config = master->config;
    bool usual = strcmp(config->server_name, INSTANCE_DEFAULT_NAME) == 0;
    char *root = realpath(config->server_root, NULL);
    char which[INSTANCE_NAME_MAX + 8];

    snprintf(which, sizeof(which), "%s%s", usual ? "" : " -n ", usual ? "" : config->server_name);
    printf("webserverd %s serves ", WEBSERVERD_VERSION);
    escape_print(stdout, root != NULL ? root : config->server_root);
    printf(" on %s: %u worker%s, %u serving thread%s in each\n"
           "  watch it: wsconsole%s    stop it: %swsctl%s stop\n",
           master->segment.header.listening, config->workers_processes,
           plural(config->workers_processes), config->workers_threads,
           plural(config->workers_threads), which, master->options->detach ? "" : "Ctrl-C, or ",
           which);
    fflush(stdout);
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
