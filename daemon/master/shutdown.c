#include "daemon/master/shutdown.h"

#include "daemon/base/events.h"
#include "daemon/base/notify.h"
#include "daemon/master/dispatch.h"
#include "daemon/master/supervisor.h"

#include <signal.h>
#include <stdlib.h>

enum {
    LOGGER_GRACE_MS = 5000,
    KILL_GRACE_MS =
        2000, /* behind drain_timeout, in which workers close what is left by themselves */
};

struct stopping {
    struct master *master;
    struct event *deadline;
    bool under_way;
    bool logger_told; /* to finish: the last step */
};

static void arm(struct event *timer, uint64_t ms)
{
    const struct timeval when = {.tv_sec = (time_t)(ms / 1000),
                                 .tv_usec = (suseconds_t)(ms % 1000) * 1000};

    event_add(timer, &when);
}

static void on_deadline(evutil_socket_t fd, short what, void *argument)
{
    struct supervisor *supervisor = ((struct stopping *)argument)->master->supervisor;

    (void)fd, (void)what;
    if (supervisor_alive(supervisor) > 0) {
        event_log(LEVEL_WARN, "some workers did not end within drain_timeout: killing them");
        supervisor_kill_all(supervisor);
    } else if (supervisor_logger(supervisor) > 0) {
        kill(supervisor_logger(supervisor), SIGKILL);
    }
}

void stopping_go_on(struct stopping *stopping)
{
    struct supervisor *supervisor = stopping->master->supervisor;

    if (!stopping->under_way || supervisor_alive(supervisor) > 0)
        return;
    if (!stopping->logger_told) {
        stopping->logger_told = true;
        event_log(LEVEL_INFO, "stopped");
        supervisor_stop_logger(supervisor);
        arm(stopping->deadline, LOGGER_GRACE_MS);
    }
    if (supervisor_logger(supervisor) == 0)
        event_base_loopbreak(stopping->master->base);
}

static void begin(struct stopping *stopping, bool gently)
{
    struct master *master = stopping->master;

    stopping->under_way = true;
    atomic_store(&segment_master(&master->segment)->stopping, 1);
    event_log(LEVEL_INFO, "stopping: finishing the requests under way");
    dispatch_stop_accepting(master->dispatch);
    if (!gently)
        listeners_remove_names(master->listeners);
    listeners_close(master->listeners); /* or new clients would wait for nobody */
    master->listeners = NULL;
    supervisor_stop_workers(master->supervisor, gently);
    arm(stopping->deadline, master->config->workers_drain_timeout + KILL_GRACE_MS);
    stopping_go_on(stopping);
}

void stopping_begin(struct stopping *stopping)
{
    if (!stopping->under_way) {
        notify_send("STOPPING=1\nSTATUS=finishing the requests under way");
        begin(stopping, false);
        return;
    }
    event_log(LEVEL_WARN, "stopping at once");
    supervisor_kill_all(stopping->master->supervisor);
}

void stopping_retire(struct stopping *stopping)
{
    if (!stopping->under_way)
        begin(stopping, true);
}

bool stopping_is_under_way(const struct stopping *stopping)
{
    return stopping->under_way;
}

struct stopping *stopping_new(struct master *master)
{
    struct stopping *stopping = calloc(1, sizeof(*stopping));

    if (stopping == NULL)
        return NULL;
    stopping->master = master;
    stopping->deadline = event_new(master->base, -1, 0, on_deadline, stopping);
    if (stopping->deadline == NULL) {
        free(stopping);
        return NULL;
    }
    return stopping;
}

void stopping_free(struct stopping *stopping)
{
    if (stopping == NULL)
        return;
    event_free(stopping->deadline);
    free(stopping);
}
