#include "daemon/master/shutdown.h"

#include "daemon/base/events.h"
#include "daemon/base/service.h"

#include <signal.h>
#include <stdlib.h>

enum {
    LOGGER_GRACE_MS = 5000,
    KILL_GRACE_MS =
        2000, /* after drain_timeout, at which workers close the remaining connections themselves */
};

struct shutdown {
    struct server *server;
    struct workers *workers;
    struct supervisor *supervisor;
    struct dispatch *dispatch;
    struct event *deadline;
    bool begun;
    bool logger_stopped; /* the last step */
};

static void set_deadline(struct shutdown *shutdown, uint64_t ms)
{
    const struct timeval when = {.tv_sec = (time_t)(ms / 1000),
                                 .tv_usec = (suseconds_t)(ms % 1000) * 1000};

    event_add(shutdown->deadline, &when);
}

static void on_deadline(evutil_socket_t fd, short what, void *argument)
{
    const struct shutdown *shutdown = argument;
    pid_t logger = supervisor_logger_pid(shutdown->supervisor);

    (void)fd, (void)what;
    if (workers_alive(shutdown->workers) > 0) {
        event_log(LEVEL_WARN,
                  "some workers did not exit within workers.drain_timeout: killing them");
        workers_kill(shutdown->workers);
    } else if (logger > 0) {
        kill(logger, SIGKILL);
    }
}

void shutdown_advance(struct shutdown *shutdown)
{
    if (!shutdown->begun || workers_alive(shutdown->workers) > 0)
        return;
    if (!shutdown->logger_stopped) {
        shutdown->logger_stopped = true;
        event_log(LEVEL_INFO, "stopped");
        supervisor_stop_logger(shutdown->supervisor);
        set_deadline(shutdown, LOGGER_GRACE_MS);
    }
    if (supervisor_logger_pid(shutdown->supervisor) == 0)
        event_base_loopbreak(shutdown->server->base);
}

static void begin(struct shutdown *shutdown, bool gracefully)
{
    struct server *server = shutdown->server;

    shutdown->begun = true;
    atomic_store(&segment_master(&server->segment)->stopping, 1);
    event_log(LEVEL_INFO, "stopping: finishing open requests");
    dispatch_stop_accepting(shutdown->dispatch);
    if (!gracefully)
        listeners_unlink(server->listeners);
    /* The kernel then refuses new connections instead of queueing them. */
    listeners_close(server->listeners);
    server->listeners = NULL;
    supervisor_stop_workers(shutdown->supervisor, gracefully);
    set_deadline(shutdown, server->config->workers_drain_timeout + KILL_GRACE_MS);
    shutdown_advance(shutdown);
}

void shutdown_begin(struct shutdown *shutdown)
{
    if (!shutdown->begun) {
        notify_send("STOPPING=1\nSTATUS=finishing open requests");
        begin(shutdown, false);
        return;
    }
    event_log(LEVEL_WARN, "stopping now: killing the workers");
    workers_kill(shutdown->workers);
}

void shutdown_begin_graceful(struct shutdown *shutdown)
{
    if (!shutdown->begun)
        begin(shutdown, true);
}

bool shutdown_has_begun(const struct shutdown *shutdown)
{
    return shutdown->begun;
}

struct shutdown *shutdown_new(struct server *server, struct workers *workers,
                              struct supervisor *supervisor, struct dispatch *dispatch)
{
    struct shutdown *shutdown = calloc(1, sizeof(*shutdown));

    if (shutdown == NULL)
        return NULL;
    *shutdown = (struct shutdown){
        .server = server, .workers = workers, .supervisor = supervisor, .dispatch = dispatch};
    shutdown->deadline = event_new(server->base, -1, 0, on_deadline, shutdown);
    if (shutdown->deadline == NULL) {
        free(shutdown);
        return NULL;
    }
    return shutdown;
}

void shutdown_free(struct shutdown *shutdown)
{
    if (shutdown == NULL)
        return;
    event_free(shutdown->deadline);
    free(shutdown);
}
