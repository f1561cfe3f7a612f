/* The commands about single workers: drain, restart, post-mortem. */
#include "daemon/control/command.h"

#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/master/shutdown.h"
#include "daemon/master/supervisor.h"

#include <stdio.h>
#include <string.h>

/* The serving worker that the argument names, or NULL with a refusal. */
static struct worker_process *named_worker(const struct call *call, struct command_result *refused)
{
    struct supervisor *supervisor = call->master->supervisor;
    json_t *refusal;
    uint64_t slot;

    if (stopping_is_under_way(call->master->stopping))
        refusal = command_refusal("the server is stopping");
    else if (units_parse_number(call->argument[0], &slot) != 0)
        refusal = command_refusal("'%.64s' is no number of a worker", call->argument[0]);
    else if (slot >= supervisor_slots(supervisor) ||
             supervisor_worker(supervisor, (uint32_t)slot)->state != WORKER_SERVING)
        refusal = command_refusal("no worker serves in slot %.64s; see: status", call->argument[0]);
    else
        return supervisor_worker(supervisor, (uint32_t)slot);
    *refused = command_answer(refusal);
    return NULL;
}

static void log_worker(const struct call *call, const char *what)
{
    event_log(LEVEL_INFO, "%s of worker slot %s, by uid %u pid %d", what, call->argument[0],
              call->uid, call->pid);
}

/* drain */

static bool has_left(struct master *master, uint64_t slot)
{
    return supervisor_worker(master->supervisor, (uint32_t)slot)->state != WORKER_LEAVING;
}

static json_t *report_drained(struct master *master, uint64_t slot)
{
    return json_pack("{s:b, s:I, s:i, s:i}", "ok", 1, "worker", (json_int_t)slot, "wanted",
                     (int)master->config->workers_processes, "actual",
                     (int)supervisor_alive(master->supervisor));
}

struct command_result command_drain(const struct call *call)
{
    struct master *master = call->master;
    struct command_result refused;
    struct worker_process *worker = named_worker(call, &refused);

    if (worker == NULL)
        return refused;
    if (supervisor_serving(master->supervisor) < 2 || master->config->workers_processes < 2)
        return command_answer(command_refusal(
            "it is the only worker: nobody could take its connections; see: restart"));
    log_worker(call, "drain");
    master->config->workers_processes--;
    command_changed_key(call, KEY_workers_processes);
    supervisor_send_away(master->supervisor, worker->slot);
    supervisor_reconcile(master->supervisor);
    return (struct command_result){
        .in_force = has_left, .report = report_drained, .token = worker->slot};
}

/* restart: the token is how many are replaced */

static bool is_renewed(struct master *master, uint64_t count)
{
    (void)count;
    return stopping_is_under_way(master->stopping) || supervisor_settled(master->supervisor);
}

static json_t *report_restarted(struct master *master, uint64_t count)
{
    return json_pack("{s:b, s:I, s:i, s:i}", "ok", 1, "restarted", (json_int_t)count, "wanted",
                     (int)master->config->workers_processes, "actual",
                     (int)supervisor_alive(master->supervisor));
}

struct command_result command_restart(const struct call *call)
{
    struct supervisor *supervisor = call->master->supervisor;
    bool all = strcmp(call->argument[0], "all") == 0;
    struct command_result refused;
    struct worker_process *worker = all ? NULL : named_worker(call, &refused);
    uint32_t count = all ? call->master->config->workers_processes : 1;

    if (!all && worker == NULL)
        return refused;
    if (all)
        command_log_act(call, "restart of all workers");
    else
        log_worker(call, "restart");
    if (all)
        supervisor_replace_all(supervisor);
    else
        supervisor_replace(supervisor, worker->slot);
    supervisor_reconcile(supervisor);
    return (struct command_result){
        .in_force = is_renewed, .report = report_restarted, .token = count};
}

/* post-mortem */

struct command_result command_post_mortem(const struct call *call)
{
    struct command_result refused;
    uint32_t count = 1;

    if (call->count > 0)
        count = command_number(call, "deaths", POST_MORTEM_DEATHS, &refused);
    if (count == 0)
        return refused;
    return command_answer(json_pack("{s:b, s:o}", "ok", 1, "deaths",
                                    post_mortem_list(&call->master->post_mortem, count)));
}
