#include "daemon/master/auxiliary.h"

#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/tls/context.h"

#include <errno.h>
#include <string.h>

static void start_logger(struct auxiliary *auxiliary)
{
    struct server *server = auxiliary->server;
    struct logger_setup setup = {.config = server->logs.config,
                                 .segment = &server->segment,
                                 .doorbell = server->doorbell,
                                 .alive_fd = server->alive[0],
                                 .lock_fd = server->pid_file.lock_fd};

    logger_process_start(&auxiliary->logger, &setup, auxiliary->callbacks.after_fork,
                         auxiliary->callbacks.context);
}

/* While a worker lives that has no keys of its own, or one is to start. */
static bool wants_keys(const struct auxiliary *auxiliary, bool stopping)
{
    const struct workers *workers = auxiliary->workers;

    if (!stopping && tls_context_is_remote(auxiliary->server->tls))
        return true;
    for (uint32_t i = 0; i < workers->count; i++)
        if (tls_context_is_remote(workers->worker[i].tls))
            return true;
    return false;
}

static void reconcile_keys(struct auxiliary *auxiliary, bool stopping)
{
    struct server *server = auxiliary->server;
    struct keys_setup setup = {
        .config = server->config, .segment = &server->segment, .lock_fd = server->pid_file.lock_fd};

    if (!wants_keys(auxiliary, stopping))
        child_stop(&auxiliary->keys.child);
    else if (keys_process_start(&auxiliary->keys, &setup, auxiliary->callbacks.after_fork,
                                auxiliary->callbacks.context))
        for (uint32_t i = 0; i < auxiliary->workers->count; i++)
            auxiliary->workers->worker[i].keys_links = 0;
}

static void reconcile_metrics(struct auxiliary *auxiliary)
{
    const struct server *server = auxiliary->server;
    struct metrics_setup setup = {.config = server->config,
                                  .segment = &auxiliary->server->segment,
                                  .listen_fd = server->metrics.fd,
                                  .listen_count = server->metrics.count,
                                  .lock_fd = server->pid_file.lock_fd};

    if (auxiliary->metrics_wanted && server->metrics.count > 0)
        metrics_process_start(&auxiliary->metrics, &setup, auxiliary->callbacks.after_fork,
                              auxiliary->callbacks.context);
    else
        metrics_process_release(&auxiliary->metrics);
}

void auxiliary_reconcile(struct auxiliary *auxiliary, bool stopping)
{
    start_logger(auxiliary);
    reconcile_keys(auxiliary, stopping);
    reconcile_metrics(auxiliary);
}

void auxiliary_send_links(const struct auxiliary *auxiliary)
{
    for (uint32_t i = 0; i < auxiliary->workers->count; i++)
        if (auxiliary->workers->worker[i].state != WORKER_NONE &&
            worker_process_send_links(&auxiliary->workers->worker[i], &auxiliary->keys) != 0 &&
            errno != EPIPE)
            event_log(LEVEL_ERROR, "cannot link worker slot %u with the keys process: %s", i,
                      strerror(errno));
}

uint64_t auxiliary_retry_ns(const struct auxiliary *auxiliary, uint64_t now_ns)
{
    const struct child *children[] = {&auxiliary->logger.child, &auxiliary->keys.child,
                                      &auxiliary->metrics.child};
    uint64_t when = UINT64_MAX;

    for (size_t i = 0; i < ARRAY_LENGTH(children); i++) {
        uint64_t retry = child_retry_ns(children[i], now_ns);

        when = retry < when ? retry : when;
    }
    return when;
}

bool auxiliary_ended(struct auxiliary *auxiliary, pid_t pid, int status, const char *how)
{
    if (pid == auxiliary->logger.child.pid)
        logger_process_ended(&auxiliary->logger, how, status != 0);
    else if (pid == auxiliary->keys.child.pid)
        keys_process_ended(&auxiliary->keys, how);
    else
        return metrics_process_ended(&auxiliary->metrics, pid, how);
    return true;
}

void auxiliary_check(struct auxiliary *auxiliary, uint64_t resumed_ns, uint64_t now_ns)
{
    uint64_t timeout_ms = auxiliary->server->config->workers_heartbeat_timeout;

    logger_process_check(&auxiliary->logger, timeout_ms, resumed_ns, now_ns);
    keys_process_check(&auxiliary->keys, timeout_ms, resumed_ns, now_ns);
    metrics_process_check(&auxiliary->metrics, timeout_ms, resumed_ns, now_ns);
}

/* The logger */

void auxiliary_stop_logger(struct auxiliary *auxiliary, uint32_t wait_ms)
{
    /* No delay any more, as lines may be left. */
    auxiliary->logger.child.backoff = (struct backoff){0};
    logger_process_stop(&auxiliary->logger, wait_ms);
    start_logger(auxiliary);
}

void auxiliary_give_up_logger(struct auxiliary *auxiliary)
{
    logger_process_give_up(&auxiliary->logger);
}

bool auxiliary_logger_has_finished(const struct auxiliary *auxiliary)
{
    return auxiliary->logger.finished && auxiliary->logger.child.pid == 0;
}

uint64_t auxiliary_unwritten_lines(const struct auxiliary *auxiliary)
{
    return logger_process_unwritten(&auxiliary->logger);
}

uint32_t auxiliary_reopen_logs(struct auxiliary *auxiliary, char *why, size_t size)
{
    struct segment_master *block = segment_master(&auxiliary->server->segment);
    uint32_t number = auxiliary->logger.number + 1;

    if (log_files_reopen(&auxiliary->server->logs, why, size) != 0)
        return 0;
    atomic_store_explicit(&block->logs_wanted, number, memory_order_relaxed);
    logger_process_send_files(&auxiliary->logger, number);
    return number;
}

void auxiliary_replace_logs(struct auxiliary *auxiliary, const struct log_files *logs)
{
    salvage_renumber(&auxiliary->server->salvage, &auxiliary->server->logs.targets, &logs->targets);
    log_files_close(&auxiliary->server->logs);
    auxiliary->server->logs = *logs;
    logger_process_restart(&auxiliary->logger);
}

/* The metrics process */

void auxiliary_start_metrics(struct auxiliary *auxiliary)
{
    auxiliary->metrics_wanted = true;
    reconcile_metrics(auxiliary);
}

void auxiliary_renew_metrics(struct auxiliary *auxiliary)
{
    metrics_process_release(&auxiliary->metrics);
    reconcile_metrics(auxiliary);
}

void auxiliary_release_metrics(struct auxiliary *auxiliary)
{
    auxiliary->metrics_wanted = false;
    metrics_process_release(&auxiliary->metrics);
    metrics_sockets_close(&auxiliary->server->metrics);
}

void auxiliary_end_metrics(struct auxiliary *auxiliary)
{
    auxiliary_release_metrics(auxiliary);
    metrics_process_kill(&auxiliary->metrics);
}

bool auxiliary_metrics_has_left(const struct auxiliary *auxiliary)
{
    return auxiliary->metrics.leaving == 0;
}

/* Set-up */

int auxiliary_init(struct auxiliary *auxiliary, struct server *server, struct workers *workers,
                   const struct auxiliary_callbacks *callbacks)
{
    struct segment *segment = &server->segment;

    *auxiliary = (struct auxiliary){
        .server = server,
        .workers = workers,
        .callbacks = *callbacks,
        .keys = {.child = {.name = "keys process", .shown_pid = &segment_master(segment)->keys_pid},
                 .base = server->base,
                 .segment = segment,
                 .fault = callbacks->keys_fault,
                 .context = callbacks->context},
        .metrics = {.child = {.name = "metrics process",
                              .shown_pid = &segment_master(segment)->metrics_pid},
                    .fd = -1,
                    .segment = segment}};
    return logger_process_init(&auxiliary->logger, server->base, segment, &server->logs,
                               &server->salvage);
}

void auxiliary_free(struct auxiliary *auxiliary)
{
    if (auxiliary->server == NULL)
        return;
    logger_process_free(&auxiliary->logger);
    child_free(&auxiliary->keys.child);
    metrics_process_free(&auxiliary->metrics);
}
