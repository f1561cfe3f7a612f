/*
 * The commands about workers: threads, workers and offload-threads set numbers; drain, restart and
 * post-mortem are about single workers.
 */
#include "daemon/control/command.h"

#include "common/units.h"
#include "daemon/base/events.h"

#include <stdio.h>
#include <string.h>

/* threads, workers */

static json_t *report_threads(struct master *master, uint64_t token)
{
    (void)token;
    return json_pack("{s:b, s:i, s:i}", "ok", 1, "wanted",
                     (int)master->server.config->workers_threads, "actual",
                     (int)workers_threads(&master->workers));
}

static json_t *report_workers(struct master *master, uint64_t token)
{
    (void)token;
    return json_pack("{s:b, s:i, s:i}", "ok", 1, "wanted",
                     (int)master->server.config->workers_processes, "actual",
                     (int)workers_alive(&master->workers));
}

static bool workers_settled(struct master *master, uint64_t token)
{
    (void)token;
    return shutdown_has_begun(master->shutdown) || workers_are_settled(&master->workers);
}

static bool threads_settled(struct master *master, uint64_t token)
{
    (void)token;
    return shutdown_has_begun(master->shutdown) || workers_are_renewed(&master->workers);
}

struct command_result command_threads(const struct call *call)
{
    struct master *master = call->master;
    uint32_t before = master->server.config->workers_threads, number;
    struct command_result failed;
    char why[256];

    if (call->count == 0)
        return command_reply(report_threads(master, 0));
    number = command_number(call, "serving threads",
                            segment_count(&master->server.segment, SEGMENT_THREADS), &failed);
    if (number == 0)
        return failed;
    if (master_resize(master, master->server.config->workers_processes, number, why, sizeof(why)) !=
        0)
        return command_reply(command_error("%s", why));
    command_log_number(call, "serving threads in each worker", before, number);
    command_changed_key(call, KEY_workers_threads);
    return command_reply_when(master, threads_settled, report_threads);
}

struct command_result command_workers(const struct call *call)
{
    struct master *master = call->master;
    uint32_t before = master->server.config->workers_processes, number;
    struct command_result failed;
    char why[256];

    if (call->count == 0)
        return command_reply(report_workers(master, 0));
    number = command_number(call, "workers", master->workers.count, &failed);
    if (number == 0)
        return failed;
    if (master_resize(master, number, master->server.config->workers_threads, why, sizeof(why)) !=
        0)
        return command_reply(command_error("%s", why));
    command_log_number(call, "workers", before, number);
    command_changed_key(call, KEY_workers_processes);
    return command_reply_when(master, workers_settled, report_workers);
}

/* offload-threads */

static void format_range(char *text, size_t size, struct config_range range)
{
    if (range.min == range.max)
        snprintf(text, size, "%u", range.min);
    else
        snprintf(text, size, "%u-%u", range.min, range.max);
}

static uint32_t offload_of(const struct master *master, uint32_t slot)
{
    return atomic_load(&segment_worker(&master->server.segment, slot)->offload_actual);
}

static json_t *report_offload(struct master *master, uint64_t token)
{
    char wanted[32];
    uint32_t actual = 0;

    (void)token;
    format_range(wanted, sizeof(wanted), master->server.config->workers_offload_threads);
    for (uint32_t i = 0; i < master->workers.count; i++)
        if (master->workers.worker[i].state == WORKER_SERVING)
            actual += offload_of(master, i);
    return json_pack("{s:b, s:s, s:i}", "ok", 1, "wanted", wanted, "actual", (int)actual);
}

/* True if every worker's number of offload threads is within the bounds. */
static bool offload_in_force(struct master *master, uint64_t token)
{
    (void)token;
    for (uint32_t i = 0; i < master->workers.count; i++) {
        if (master->workers.worker[i].state != WORKER_SERVING)
            continue;
        if (offload_of(master, i) < master->server.config->workers_offload_threads.min ||
            offload_of(master, i) > master->server.config->workers_offload_threads.max)
            return false;
    }
    return true;
}

/* "N" or "MIN-MAX". */
static bool parse_range(const char *text, struct config_range *range)
{
    const char *dash = strchr(text, '-');
    uint64_t least, most;
    char first[CONTROL_LINE_MAX];

    snprintf(first, sizeof(first), "%.*s", (int)strcspn(text, "-"), text);
    if (units_parse_number(first, &least) != 0 ||
        units_parse_number(dash != NULL ? dash + 1 : first, &most) != 0)
        return false;
    if (least < 1 || most < least || most > SEGMENT_OFFLOAD_THREADS)
        return false;
    *range = (struct config_range){(uint32_t)least, (uint32_t)most};
    return true;
}

struct command_result command_offload_threads(const struct call *call)
{
    struct master *master = call->master;
    struct config_range wanted;
    char before[32], after[32];

    if (call->count == 0)
        return command_reply(report_offload(master, 0));
    if (!parse_range(call->argument[0], &wanted))
        return command_reply(
            command_error("invalid number of offload threads '%.64s' (valid: N or MIN-MAX, 1-%d)",
                          call->argument[0], SEGMENT_OFFLOAD_THREADS));
    format_range(before, sizeof(before), master->server.config->workers_offload_threads);
    format_range(after, sizeof(after), wanted);
    command_log_change(call, "offload threads in each worker", before, after);
    master->server.config->workers_offload_threads = wanted;
    command_changed_key(call, KEY_workers_offload_threads);
    supervisor_send_offload(master->supervisor);
    return (struct command_result){.in_force = offload_in_force, .report = report_offload};
}

/* The serving worker that the argument names, or NULL with an error in *FAILED. */
static struct worker_process *find_worker(const struct call *call, struct command_result *failed)
{
    const struct workers *workers = &call->master->workers;
    json_t *error;
    uint64_t slot;

    if (units_parse_number(call->argument[0], &slot) != 0)
        error = command_error("invalid worker number '%.64s'", call->argument[0]);
    else if (slot >= workers->count || workers->worker[slot].state != WORKER_SERVING)
        error = command_error("no worker serves in slot %.64s; see: status", call->argument[0]);
    else
        return &workers->worker[slot];
    *failed = command_reply(error);
    return NULL;
}

static void log_worker(const struct call *call, const char *what)
{
    event_log(LEVEL_INFO, "%s of worker slot %s, by uid %u pid %d", what, call->argument[0],
              call->uid, call->pid);
}

/* drain: the token is the slot */

static bool has_left(struct master *master, uint64_t slot)
{
    return master->workers.worker[slot].state != WORKER_LEAVING;
}

static json_t *report_drained(struct master *master, uint64_t slot)
{
    return json_pack("{s:b, s:I, s:i, s:i}", "ok", 1, "worker", (json_int_t)slot, "wanted",
                     (int)master->server.config->workers_processes, "actual",
                     (int)workers_alive(&master->workers));
}

struct command_result command_drain(const struct call *call)
{
    struct master *master = call->master;
    struct config *config = master->server.config;
    struct command_result failed;
    const struct worker_process *worker = find_worker(call, &failed);

    if (worker == NULL)
        return failed;
    if (workers_count(&master->workers, worker_is_serving) < 2 || config->workers_processes < 2)
        return command_reply(command_error(
            "it is the only worker: no other could take its connections; see: restart"));
    log_worker(call, "drain");
    config->workers_processes--;
    command_changed_key(call, KEY_workers_processes);
    supervisor_drain(master->supervisor, worker->slot);
    return (struct command_result){
        .in_force = has_left, .report = report_drained, .token = worker->slot};
}

/* restart: the token is the number of workers to replace */

static json_t *report_restarted(struct master *master, uint64_t count)
{
    return json_pack("{s:b, s:I, s:i, s:i}", "ok", 1, "restarted", (json_int_t)count, "wanted",
                     (int)master->server.config->workers_processes, "actual",
                     (int)workers_alive(&master->workers));
}

struct command_result command_restart(const struct call *call)
{
    struct master *master = call->master;
    uint32_t count = 1;

    if (strcmp(call->argument[0], "all") == 0) {
        count = master->server.config->workers_processes;
        command_log_action(call, "restart of all workers");
        supervisor_replace_all(master->supervisor);
    } else {
        struct command_result failed;
        const struct worker_process *worker = find_worker(call, &failed);

        if (worker == NULL)
            return failed;
        log_worker(call, "restart");
        supervisor_replace(master->supervisor, worker->slot);
    }
    return (struct command_result){
        .in_force = workers_settled, .report = report_restarted, .token = count};
}

/* post-mortem */

struct command_result command_post_mortem(const struct call *call)
{
    struct command_result failed;
    uint32_t count = 1;

    if (call->count > 0)
        count = command_number(call, "deaths", POST_MORTEM_DEATHS, &failed);
    if (count == 0)
        return failed;
    return command_reply(json_pack("{s:b, s:o}", "ok", 1, "deaths",
                                   post_mortem_list(&call->master->post_mortem, count)));
}
