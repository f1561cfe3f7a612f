/* The command status: processes and counters. */
#include "daemon/control/command.h"

#include "common/clock.h"
#include "daemon/master/supervisor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static json_t *worker_status(struct master *master, uint32_t slot)
{
    static const char *const states[] = {"none", "starting", "serving", "leaving"};
    const struct worker_process *worker = supervisor_worker(master->supervisor, slot);
    const struct segment_worker *block = segment_worker(&master->segment, slot);
    uint64_t up = (clock_wall_ns() - atomic_load(&block->started_ns)) / NS_PER_S;

    return json_pack("{s:i, s:i, s:s, s:{s:i, s:i}, s:i, s:I, s:i, s:i}", "slot", (int)slot, "pid",
                     (int)worker->pid, "state", states[worker->state], "threads", "wanted",
                     (int)atomic_load(&block->threads_wanted), "actual",
                     (int)atomic_load(&block->threads_actual), "offload_threads",
                     (int)atomic_load(&block->offload_actual), "uptime_s", (json_int_t)up, "starts",
                     (int)atomic_load(&block->starts), "generation", (int)worker->generation);
}

static json_t *list_workers(struct master *master)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < supervisor_slots(master->supervisor); i++)
        if (supervisor_worker(master->supervisor, i)->state != WORKER_NONE)
            json_array_append_new(list, worker_status(master, i));
    return list;
}

static json_t *list_addresses(const struct master *master)
{
    json_t *list = json_array();
    char text[sizeof(master->segment.header->listening)];
    char *rest = text, *one;

    snprintf(text, sizeof(text), "%s", master->segment.header->listening);
    while ((one = strsep(&rest, " ")) != NULL)
        json_array_append_new(list, json_string(one));
    return list;
}

static json_t *list_metrics(const struct master *master)
{
    json_t *metrics = json_object();

    for (int i = 0; i < METRIC_COUNT; i++)
        json_object_set_new(
            metrics, metric_table[i].name,
            json_integer((json_int_t)segment_sum(&master->segment, (enum metric)i)));
    return metrics;
}

struct command_result command_status(const struct call *call)
{
    struct master *master = call->master;
    const struct config *config = master->config;
    uint64_t up = (clock_wall_ns() - master->segment.header->started_ns) / NS_PER_S;

    return command_answer(json_pack(
        "{s:b, s:s, s:s, s:i, s:I, s:i, s:o, s:s, s:{s:i}, s:{s:i, s:i, s:o}, s:{s:i, s:i}, s:o}",
        "ok", 1, "name", config->server_name, "version", WEBSERVERD_VERSION, "pid", getpid(),
        "uptime_s", (json_int_t)up, "generation", (int)supervisor_generation(master->supervisor),
        "listening", list_addresses(master), "dispatch",
        config->workers_dispatch == DISPATCH_MASTER ? "master" : "kernel", "logger", "pid",
        (int)supervisor_logger(master->supervisor), "workers", "wanted",
        (int)master->config->workers_processes, "actual", (int)supervisor_alive(master->supervisor),
        "list", list_workers(master), "threads", "wanted", (int)master->config->workers_threads,
        "actual", (int)supervisor_threads(master->supervisor), "metrics", list_metrics(master)));
}
