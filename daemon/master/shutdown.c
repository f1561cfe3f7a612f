#include "daemon/master/shutdown.h"

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

static void report_stopping(const struct shutdown *shutdown)
{
    atomic_store(&segment_master(&shutdown->server->segment)->stopping, 1);
    event_log(LEVEL_INFO, "stopping: finishing open requests");
}

/* The kernel then refuses new connections, unless another process has the sockets, too. */
static void close_listeners(const struct shutdown *shutdown)
{
    dispatch_stop_accepting(shutdown->dispatch);
    listeners_close(shutdown->server->listeners);
    shutdown->server->listeners = NULL;
}

static void wait_for_workers(const struct shutdown *shutdown)
{
    lifecycle_set_deadline(shutdown->life,
                           shutdown->server->config->workers_drain_timeout + KILL_GRACE_MS);
}

int shutdown_begin(struct shutdown *shutdown)
{
    shutdown->retired = false;
    notify_send("STOPPING=1\nSTATUS=finishing open requests");
    report_stopping(shutdown);
    rebalance_stop(shutdown->rebalance);
    supervisor_stop_workers(shutdown->supervisor);
    lifecycle_set_deadline(shutdown->life, shutdown->server->config->workers_stop_grace);
    return 0;
}

static void finish(void *context)
{
    const struct shutdown *shutdown = context;

    dispatch_take_all(shutdown->dispatch);
    close_listeners(shutdown);
    supervisor_finish_workers(shutdown->supervisor);
    wait_for_workers(shutdown);
}

int shutdown_finish(struct shutdown *shutdown)
{
    rebalance_await(shutdown->rebalance, MOVES_MS, finish, shutdown);
    return 0;
}

static void retire(void *context)
{
    const struct shutdown *shutdown = context;

    dispatch_flush(shutdown->dispatch);
    close_listeners(shutdown);
    supervisor_retire_workers(shutdown->supervisor);
    wait_for_workers(shutdown);
}

int shutdown_retire(struct shutdown *shutdown)
{
    uint64_t drain_ms = shutdown->server->config->workers_drain_timeout;

    shutdown->retired = true;
    report_stopping(shutdown);
    /* Nobody waits for the end of this master. */
    rebalance_await(shutdown->rebalance, drain_ms > MOVES_MS ? drain_ms : MOVES_MS, retire,
                    shutdown);
    return 0;
}

int shutdown_force(struct shutdown *shutdown)
{
    shutdown->forced = true;
    shutdown->retired = false;
    event_log(LEVEL_WARN, "stopping now: killing the workers");
    rebalance_stop(shutdown->rebalance);
    close_listeners(shutdown);
    supervisor_finish_workers(shutdown->supervisor);
    workers_kill(shutdown->workers);
    return 0;
}

int shutdown_kill_workers(const struct shutdown *shutdown)
{
    event_log(LEVEL_WARN, "some workers did not exit within workers.drain_timeout: killing them");
    workers_kill(shutdown->workers);
    return 0;
}

int shutdown_flush(const struct shutdown *shutdown)
{
    uint32_t wait_ms = shutdown->forced ? 0 : shutdown->server->config->workers_drain_timeout;

    /* The workers may have died before they were told to finish. */
    rebalance_stop(shutdown->rebalance);
    close_listeners(shutdown);
    event_log(LEVEL_INFO, "stopped");
    auxiliary_release_metrics(shutdown->auxiliary);
    auxiliary_stop_logger(shutdown->auxiliary, wait_ms);
    lifecycle_set_deadline(shutdown->life, (uint64_t)wait_ms + LOGGER_GRACE_MS);
    return 0;
}

static void report_flushed(const struct shutdown *shutdown)
{
    if (shutdown_is_flushed(shutdown))
        lifecycle_report(shutdown->life, EVENT_flushed);
}

int shutdown_end_metrics(const struct shutdown *shutdown)
{
    auxiliary_end_metrics(shutdown->auxiliary);
    report_flushed(shutdown);
    return 0;
}

int shutdown_hasten_logger(const struct shutdown *shutdown)
{
    shutdown_end_metrics(shutdown);
    if (auxiliary_logger_has_finished(shutdown->auxiliary))
        return 0;
    auxiliary_stop_logger(shutdown->auxiliary, 0);
    lifecycle_set_deadline(shutdown->life, LOGGER_GRACE_MS);
    return 0;
}

int shutdown_kill_both(const struct shutdown *shutdown)
{
    auxiliary_end_metrics(shutdown->auxiliary);
    auxiliary_give_up_logger(shutdown->auxiliary);
    report_flushed(shutdown);
    return 0;
}

bool shutdown_is_flushed(const struct shutdown *shutdown)
{
    return auxiliary_logger_has_finished(shutdown->auxiliary) &&
           (!shutdown->retired || auxiliary_metrics_has_left(shutdown->auxiliary));
}

/* The logger has reported it, too, unless it was killed; but the error log may be as full. */
int shutdown_end(struct shutdown *shutdown)
{
    uint64_t lost = auxiliary_unwritten_lines(shutdown->auxiliary);

    shutdown->lost_lines = lost > 0;
    if (lost > 0)
        event_log(LEVEL_ERROR, "stopped without %" PRIu64 " %s of the access log", lost,
                  units_plural(lost, "line", "lines"));
    auxiliary_end_metrics(shutdown->auxiliary);
    event_base_loopbreak(shutdown->server->base);
    return 0;
}
