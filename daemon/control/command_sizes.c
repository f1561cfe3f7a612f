/* The commands that set how many there are: threads, workers, offload-threads. */
#include "daemon/control/command.h"

#include "common/units.h"
#include "daemon/master/capacity.h"
#include "daemon/master/shutdown.h"
#include "daemon/master/supervisor.h"

#include <stdio.h>
#include <string.h>

/* threads, workers */

static json_t *report_threads(struct master *master, uint64_t token)
{
    (void)token;
    return json_pack("{s:b, s:i, s:i}", "ok", 1, "wanted", (int)master->config->workers_threads,
                     "actual", (int)supervisor_threads(master->supervisor));
}

static json_t *report_workers(struct master *master, uint64_t token)
{
    (void)token;
    return json_pack("{s:b, s:i, s:i}", "ok", 1, "wanted", (int)master->config->workers_processes,
                     "actual", (int)supervisor_alive(master->supervisor));
}

static bool settled(struct master *master, uint64_t token)
{
    (void)token;
    return stopping_is_under_way(master->stopping) || supervisor_settled(master->supervisor);
}

static bool threads_settled(struct master *master, uint64_t token)
{
    (void)token;
    return stopping_is_under_way(master->stopping) || supervisor_is_renewed(master->supervisor);
}

/* Makes WORKERS and THREADS the wanted numbers; answered when they are in force. */
static int resize(const struct call *call, uint32_t workers, uint32_t threads,
                  struct command_result *refused)
{
    struct master *master = call->master;
    char why[256] = "the server is stopping";

    if (stopping_is_under_way(master->stopping) ||
        capacity_prepare(master, workers, threads, why, sizeof(why)) != 0) {
        *refused = command_answer(command_refusal("%s", why));
        return -1;
    }
    master->config->workers_processes = workers;
    master->config->workers_threads = threads;
    supervisor_reconcile(master->supervisor);
    return 0;
}

/* Answers now if it is in force already. */
static struct command_result when(struct master *master,
                                  bool (*in_force)(struct master *, uint64_t),
                                  json_t *(*report)(struct master *, uint64_t))
{
    if (in_force(master, 0))
        return command_answer(report(master, 0));
    return (struct command_result){.in_force = in_force, .report = report};
}

struct command_result command_threads(const struct call *call)
{
    struct master *master = call->master;
    uint32_t before = master->config->workers_threads, number;
    struct command_result refused;

    if (call->count == 0)
        return command_answer(report_threads(master, 0));
    number = command_number(call, "serving threads",
                            segment_count(&master->segment, SEGMENT_THREADS), &refused);
    if (number == 0 || resize(call, master->config->workers_processes, number, &refused) != 0)
        return refused;
    command_log_number(call, "serving threads in each worker", before, number);
    command_changed_key(call, KEY_workers_threads);
    return when(master, threads_settled, report_threads);
}

struct command_result command_workers(const struct call *call)
{
    struct master *master = call->master;
    uint32_t before = master->config->workers_processes, number;
    struct command_result refused;

    if (call->count == 0)
        return command_answer(report_workers(master, 0));
    number = command_number(call, "workers", supervisor_slots(master->supervisor), &refused);
    if (number == 0 || resize(call, number, master->config->workers_threads, &refused) != 0)
        return refused;
    command_log_number(call, "workers", before, number);
    command_changed_key(call, KEY_workers_processes);
    return when(master, settled, report_workers);
}

/* offload-threads */

static void format_range(char *text, size_t size, struct config_range range)
{
    if (range.least == range.most)
        snprintf(text, size, "%u", range.least);
    else
        snprintf(text, size, "%u-%u", range.least, range.most);
}

static uint32_t offload_of(const struct master *master, uint32_t slot)
{
    return atomic_load(&segment_worker(&master->segment, slot)->offload_actual);
}

static json_t *report_offload(struct master *master, uint64_t token)
{
    char wanted[32];
    uint32_t actual = 0;

    (void)token;
    format_range(wanted, sizeof(wanted), master->config->workers_offload_threads);
    for (uint32_t i = 0; i < supervisor_slots(master->supervisor); i++)
        if (supervisor_worker(master->supervisor, i)->state == WORKER_SERVING)
            actual += offload_of(master, i);
    return json_pack("{s:b, s:s, s:i}", "ok", 1, "wanted", wanted, "actual", (int)actual);
}

/* All workers have a number of offload threads within the bounds. */
static bool offload_in_force(struct master *master, uint64_t token)
{
    (void)token;
    for (uint32_t i = 0; i < supervisor_slots(master->supervisor); i++) {
        if (supervisor_worker(master->supervisor, i)->state != WORKER_SERVING)
            continue;
        if (offload_of(master, i) < master->config->workers_offload_threads.least ||
            offload_of(master, i) > master->config->workers_offload_threads.most)
            return false;
    }
    return true;
}

/* "N" or "MIN-MAX", changed in place. */
static bool parse_range(char *text, struct config_range *range)
{
    char *dash = strchr(text, '-');
    uint64_t least, most;

    if (dash != NULL)
        *dash++ = '\0';
    if (units_parse_number(text, &least) != 0 ||
        units_parse_number(dash != NULL ? dash : text, &most) != 0)
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
        return command_answer(report_offload(master, 0));
    if (!parse_range(call->argument[0], &wanted))
        return command_answer(
            command_refusal("that is no number of offload threads: N or MIN-MAX, from 1 to %d",
                            SEGMENT_OFFLOAD_THREADS));
    format_range(before, sizeof(before), master->config->workers_offload_threads);
    format_range(after, sizeof(after), wanted);
    command_log_change(call, "offload threads in each worker", before, after);
    master->config->workers_offload_threads = wanted;
    command_changed_key(call, KEY_workers_offload_threads);
    supervisor_tell_offload(master->supervisor);
    return (struct command_result){.in_force = offload_in_force, .report = report_offload};
}
