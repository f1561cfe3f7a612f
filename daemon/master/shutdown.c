/*
 * The actions that end a master, in order: the workers answer what is on its way, then finish their
 * requests; the logger writes the remaining lines; the loop ends.
 */
#include "daemon/master/internal.h"

#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/service.h"

#include <inttypes.h>

enum {
    LOGGER_GRACE_MS = 5000, /* after the time that the logger may wait for a log */
    KILL_GRACE_MS =
        2000, /* after drain_timeout, at which workers close the remaining connections themselves */
    MOVES_MS = 5000, /* for connections between workers */
};

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

/* Stopping */

/* The listen sockets stay open, if this master still has any: see listeners_withdraw(). */
int act_hasten(struct master *master)
{
    master->life.retired = false;
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
    inheritance_report_stop(inheritance);
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
    wait_for_workers(master);
}

int act_retire(struct master *master)
{
    uint64_t drain_ms = master->config->workers_drain_timeout;

    if (master->reload.waiting)
        upgrade_pass_reload(master);
    auxiliary_release_metrics(&master->auxiliary);
    certificates_stop(master);
    master->life.retired = true;
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

/* Flushing */

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

bool shutdown_is_flushed(const struct master *master)
{
    return auxiliary_logger_has_finished(&master->auxiliary) &&
           (!master->life.retired || master->auxiliary.metrics.leaving == 0);
}

static void report_flushed(struct master *master)
{
    if (shutdown_is_flushed(master))
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

/* The logger has reported lost lines, too, unless it was killed; but the error log may be as full. */
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
