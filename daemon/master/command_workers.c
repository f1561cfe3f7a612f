/*
 * The commands about workers: threads, workers and offload-threads set numbers; balance is about
 * their connections; drain, restart and post-mortem are about single workers.
 */
#include "daemon/master/command.h"

#include "common/clock.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/config/load.h"
#include "daemon/config/value.h"

#include <stdio.h>
#include <string.h>

/* Number of open connections of each thread of WORKER. */
static json_t *list_thread_connections(const struct segment *segment,
                                       const struct worker_process *worker)
{
    uint32_t first = worker->slot * segment_threads_per_worker(segment);
    json_t *list = json_array();

    for (uint32_t i = MODEL_ACCEPTORS(worker->model); i < worker->threads_actual; i++) {
        uint64_t open =
            metric_get(segment_thread(segment, first + i)->metrics, METRIC_connections_open);

        json_array_append_new(list, json_integer((json_int_t)open));
    }
    return list;
}

/* The same for all workers that serve. */
static json_t *list_connections(const struct master *master)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < master->workers.count; i++) {
        const struct worker_process *worker = &master->workers.worker[i];

        if (worker->state == WORKER_SERVING)
            json_array_append_new(list,
                                  json_pack("{s:i, s:o}", "worker", (int)i, "threads",
                                            list_thread_connections(&master->segment, worker)));
    }
    return list;
}

/* threads, workers */

static json_t *list_numbers(const struct master *master, uint32_t wanted, uint32_t actual)
{
    return json_pack("{s:b, s:i, s:i, s:o}", "ok", 1, "wanted", (int)wanted, "actual", (int)actual,
                     "connections", list_connections(master));
}

static json_t *report_numbers(const struct master *master, uint32_t wanted, uint32_t actual)
{
    char why[256];

    if (workers_cannot_start(master, why, sizeof(why)))
        return control_error("%s", why);
    return list_numbers(master, wanted, actual);
}

static json_t *report_thread_number(void *owner, uint64_t token)
{
    struct master *master = owner;
    (void)token;
    return report_numbers(master, master->config->workers_threads,
                          workers_threads(&master->workers));
}

static json_t *report_workers(void *owner, uint64_t token)
{
    struct master *master = owner;
    (void)token;
    return report_numbers(master, master->config->workers_processes,
                          workers_alive(&master->workers));
}

static bool workers_settled(void *owner, uint64_t token)
{
    struct master *master = owner;
    char why[256];

    (void)token;
    return lifecycle_is_stopping(master) || workers_cannot_start(master, why, sizeof(why)) ||
           (workers_are_settled(master) && !rebalance_is_moving(&master->rebalance));
}

static bool threads_settled(void *owner, uint64_t token)
{
    struct master *master = owner;
    char why[256];

    (void)token;
    return lifecycle_is_stopping(master) || workers_cannot_start(master, why, sizeof(why)) ||
           workers_are_renewed(master);
}

struct control_reply command_threads(const struct call *call)
{
    struct master *master = call->master;
    uint32_t before = master->config->workers_threads, number;
    struct control_reply failed;
    char why[256];

    if (call->argument_count == 0)
        return command_reply(list_numbers(master, master->config->workers_threads,
                                          workers_threads(&master->workers)));
    number = command_number(call, "serving threads",
                            segment_threads_per_worker(&master->segment) -
                                MODEL_ACCEPTORS(master->config->workers_model),
                            &failed);
    if (number == 0)
        return failed;
    if (master_resize(master, master->config->workers_processes, number, why, sizeof(why)) != 0)
        return command_reply(control_error("%s", why));
    command_log_number(call, "serving threads per worker", before, number);
    master->config->threads_are_auto = false;
    command_changed_key(call, KEY_workers_threads);
    return command_reply_when(master, threads_settled, report_thread_number);
}

struct control_reply command_workers(const struct call *call)
{
    struct master *master = call->master;
    uint32_t before = master->config->workers_processes, number;
    struct control_reply failed;
    char why[256];

    if (call->argument_count == 0)
        return command_reply(list_numbers(master, master->config->workers_processes,
                                          workers_alive(&master->workers)));
    number = command_number(call, "workers", master->workers.count, &failed);
    if (number == 0)
        return failed;
    if (master_resize(master, number, master->config->workers_threads, why, sizeof(why)) != 0)
        return command_reply(control_error("%s", why));
    command_log_number(call, "workers", before, number);
    command_changed_key(call, KEY_workers_processes);
    return command_reply_when(master, workers_settled, report_workers);
}

/* balance */

static const char *const switches[] = {"off", "on"};

static json_t *report_balance(const struct master *master)
{
    const char *state = switches[master->config->workers_balance_connections];

    return json_pack("{s:b, s:s, s:s, s:o, s:o}", "ok", 1, "wanted", state, "actual", state,
                     "connections", list_connections(master), "notes",
                     command_notes(master, KEY_workers_balance_connections));
}

struct control_reply command_balance(const struct call *call)
{
    struct config *config = call->master->config;
    int on;

    if (call->argument_count == 0)
        return command_reply(report_balance(call->master));
    on = table_find(call->argument[0], switches, ARRAY_LENGTH(switches));
    if (on < 0)
        return command_reply(
            control_error("invalid word '%.64s' (valid: on, off)", call->argument[0]));
    if (on == 1 && config->workers_model != MODEL_EVENTS)
        return command_reply(control_error("model %s moves no connections: set model = events",
                                           worker_model_names[config->workers_model]));
    command_log_change(call, "balancing of connections",
                       switches[config->workers_balance_connections], switches[on]);
    config->workers_balance_connections = on;
    command_changed_key(call, KEY_workers_balance_connections);
    workers_send_balance(call->master);
    rebalance_switched(call->master);
    return command_reply(report_balance(call->master));
}

/* model */

static void add_note(void *notes, const char *note)
{
    json_array_append_new(notes, json_string(note));
}

json_t *command_notes(const struct master *master, size_t subject)
{
    json_t *notes = json_array();

    config_notes(master->config, subject, listeners_are_activated(master->listeners), add_note,
                 notes);
    return notes;
}

static json_t *report_model(void *owner, uint64_t model)
{
    const struct master *master = owner;
    const struct config *config = master->config;

    if (config->workers_model != model)
        return control_error("the model stays %s: %s", worker_model_names[config->workers_model],
                             master->reload.last_failure != NULL ? master->reload.last_failure
                                                                 : "the new workers did not serve");
    return json_pack("{s:b, s:s, s:i, s:i, s:o}", "ok", 1, "model",
                     worker_model_names[config->workers_model], "wanted",
                     (int)config->workers_threads, "actual", (int)workers_threads(&master->workers),
                     "notes", command_notes(master, KEY_workers_model));
}

static json_t *report_new_model(void *owner, uint64_t model)
{
    const struct master *master = owner;
    json_t *report = report_model(owner, model), *notes = json_object_get(report, "notes");

    if (notes != NULL && master->config->cache_size > 0)
        add_note(notes, "the caches of the new workers are empty");
    return report;
}

/* The next change of the model may come now. */
static bool model_settled(void *owner, uint64_t token)
{
    const struct master *master = owner;

    return lifecycle_is_stopping(master) ||
           (threads_settled(owner, token) && master->life.state == LIFE_serving);
}

/*
 * Without a reload of the configuration: new workers have the model when they serve, and the old
 * ones leave.
 */
struct control_reply command_model(const struct call *call)
{
    struct master *master = call->master;
    struct config *config = master->config;
    uint32_t before = config->workers_model;
    const char *conflict;
    int model;

    if (call->argument_count == 0)
        return command_reply(report_model(master, before));
    model = table_find(call->argument[0], worker_model_names, ARRAY_LENGTH(worker_model_names));
    if (model < 0)
        return command_reply(control_error("invalid model '%.64s' (valid: events, pool, thread)",
                                           call->argument[0]));
    conflict = config_model_conflict(config, (uint32_t)model);
    if (conflict != NULL)
        return command_reply(control_error("model %s: %s", worker_model_names[model], conflict));
    if ((uint32_t)model == before)
        return command_reply(report_model(master, before));
    master->reload.model_before = before;
    master->reload.threads_before = config->workers_threads;
    config->workers_threads = config_threads_of_model(config, (uint32_t)model);
    config->workers_model = (uint32_t)model;
    if (!reload_renew(master, RENEWAL_MODEL) || master->reload.previous == NULL) {
        reload_restore_model(master);
        return command_reply(control_error("the model stays %s: %s", worker_model_names[before],
                                           master->reload.waiting || master->reload.refusal == NULL
                                               ? "a reload is under way"
                                               : master->reload.refusal));
    }
    command_log_change(call, "model", worker_model_names[before], worker_model_names[model]);
    command_changed_key(call, KEY_workers_model);
    return (struct control_reply){
        .in_force = model_settled, .report = report_new_model, .token = (uint64_t)model};
}

/* queue */

static json_t *report_queue(const struct master *master)
{
    const struct config *config = master->config;
    bool queues = config->workers_model != MODEL_EVENTS;
    json_t *notes = queues ? json_array() : command_notes(master, KEY_workers_model);

    return json_pack("{s:b, s:s, s:s, s:s, s:i, s:o}", "ok", 1, "model",
                     worker_model_names[config->workers_model], "order",
                     queue_order_names[config->workers_queue_order], "full",
                     queue_full_names[config->workers_queue_full], "places",
                     (int)config->workers_connection_queue, "notes", notes);
}

/* The key for which WORD is a value, with this *VALUE; KEY_COUNT: none. */
static size_t key_of_queue(const char *word, uint32_t *value)
{
    int order = table_find(word, queue_order_names, ARRAY_LENGTH(queue_order_names));
    int full = table_find(word, queue_full_names, ARRAY_LENGTH(queue_full_names));
    uint64_t places;

    if (order >= 0) {
        *value = (uint32_t)order;
        return KEY_workers_queue_order;
    }
    if (full >= 0) {
        *value = (uint32_t)full;
        return KEY_workers_queue_full;
    }
    if (units_parse_number(word, &places) != 0 || places < 1 ||
        places > config_value_max(&config_keys[KEY_workers_connection_queue]))
        return KEY_COUNT;
    *value = (uint32_t)places;
    return KEY_workers_connection_queue;
}

static void describe_queue(const struct config *config, char *text, size_t size)
{
    snprintf(text, size, "%s, %s, %u places", queue_order_names[config->workers_queue_order],
             queue_full_names[config->workers_queue_full], config->workers_connection_queue);
}

struct control_reply command_queue(const struct call *call)
{
    struct config *config = call->master->config, changed = *config;
    bool given[KEY_COUNT] = {false};
    char from[64], to[64];

    for (int i = 0; i < call->argument_count; i++) {
        uint32_t value;
        size_t key = key_of_queue(call->argument[i], &value);

        if (key == KEY_COUNT)
            return command_reply(control_error(
                "invalid word '%.64s' (valid: fifo, lifo, sff; block, drop-tail, drop-head, "
                "drop-random; a number of places, 1-65536)",
                call->argument[i]));
        if (given[key])
            return command_reply(control_error("'%.64s' is a second value of %s", call->argument[i],
                                               config_keys[key].name));
        *(uint32_t *)((char *)&changed + config_keys[key].offset) = value;
        given[key] = true;
    }
    if (call->argument_count == 0)
        return command_reply(report_queue(call->master));
    describe_queue(config, from, sizeof(from));
    describe_queue(&changed, to, sizeof(to));
    command_log_change(call, "connection queue", from, to);
    config->workers_queue_order = changed.workers_queue_order;
    config->workers_queue_full = changed.workers_queue_full;
    config->workers_connection_queue = changed.workers_connection_queue;
    for (size_t key = 0; key < KEY_COUNT; key++)
        if (given[key])
            command_changed_key(call, (enum config_key_number)key);
    workers_send_queue(call->master);
    return command_reply(report_queue(call->master));
}

/* offload-threads */

/* A worker starts its offload threads as soon as it reads the message. */
static const uint64_t OFFLOAD_START_NS = 2 * NS_PER_S;

static void format_range(char *text, size_t size, struct config_range range)
{
    if (range.min == range.max)
        snprintf(text, size, "%u", range.min);
    else
        snprintf(text, size, "%u-%u", range.min, range.max);
}

static uint32_t offload_of(const struct master *master, uint32_t slot)
{
    return atomic_load(&segment_worker(&master->segment, slot)->offload_actual);
}

static json_t *report_offload(void *owner, uint64_t token)
{
    struct master *master = owner;
    char wanted[32];
    uint32_t actual = 0;

    (void)token;
    format_range(wanted, sizeof(wanted), master->config->workers_offload_threads);
    for (uint32_t i = 0; i < master->workers.count; i++)
        if (master->workers.worker[i].state == WORKER_SERVING)
            actual += offload_of(master, i);
    return json_pack("{s:b, s:s, s:i, s:o}", "ok", 1, "wanted", wanted, "actual", (int)actual,
                     "notes", command_notes(master, KEY_workers_offload_threads));
}

/*
 * True if every worker's number of offload threads is within the bounds. Threads that cannot be
 * started are not awaited longer than until UNTIL_NS: the reply has the actual number.
 */
static bool offload_in_force(void *owner, uint64_t until_ns)
{
    struct master *master = owner;
    bool late = clock_monotonic_ns() > until_ns;

    for (uint32_t i = 0; i < master->workers.count; i++) {
        if (master->workers.worker[i].state != WORKER_SERVING)
            continue;
        if ((offload_of(master, i) < master->config->workers_offload_threads.min && !late) ||
            offload_of(master, i) > master->config->workers_offload_threads.max)
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

struct control_reply command_offload_threads(const struct call *call)
{
    struct master *master = call->master;
    struct config_range wanted;
    char before[32], after[32];

    if (call->argument_count == 0)
        return command_reply(report_offload(master, 0));
    if (!parse_range(call->argument[0], &wanted))
        return command_reply(
            control_error("invalid number of offload threads '%.64s' (valid: N or MIN-MAX, 1-%d)",
                          call->argument[0], SEGMENT_OFFLOAD_THREADS));
    if (master->config->workers_model != MODEL_EVENTS)
        return command_reply(
            control_error("model %s has no offload threads: its threads do this work themselves",
                          worker_model_names[master->config->workers_model]));
    format_range(before, sizeof(before), master->config->workers_offload_threads);
    format_range(after, sizeof(after), wanted);
    command_log_change(call, "offload threads per worker", before, after);
    master->config->workers_offload_threads = wanted;
    command_changed_key(call, KEY_workers_offload_threads);
    workers_send_offload(&master->workers);
    return (struct control_reply){.in_force = offload_in_force,
                                  .report = report_offload,
                                  .token = clock_monotonic_ns() + OFFLOAD_START_NS};
}

/* The serving worker that the argument names, or NULL with an error in *FAILED. */
static struct worker_process *find_worker(const struct call *call, struct control_reply *failed)
{
    const struct workers *workers = &call->master->workers;
    json_t *error;
    uint64_t slot;

    if (units_parse_number(call->argument[0], &slot) != 0)
        error = control_error("invalid worker number '%.64s'", call->argument[0]);
    else if (slot >= workers->count || workers->worker[slot].state != WORKER_SERVING)
        error = control_error("worker %.64s does not serve; see: status", call->argument[0]);
    else
        return &workers->worker[slot];
    *failed = command_reply(error);
    return NULL;
}

static void log_worker(const struct call *call, const char *what)
{
    event_log(LEVEL_INFO, "%s of worker %s, by uid %u pid %d", what, call->argument[0], call->uid,
              call->pid);
}

/* drain: the token is the slot */

static bool has_left(void *owner, uint64_t slot)
{
    struct master *master = owner;
    return !worker_is_about_to_exit(master, &master->workers.worker[slot]);
}

static json_t *report_drained(void *owner, uint64_t slot)
{
    struct master *master = owner;
    return json_pack("{s:b, s:I, s:i, s:i}", "ok", 1, "worker", (json_int_t)slot, "wanted",
                     (int)master->config->workers_processes, "actual",
                     (int)workers_alive(&master->workers));
}

struct control_reply command_drain(const struct call *call)
{
    struct master *master = call->master;
    struct config *config = master->config;
    struct control_reply failed;
    const struct worker_process *worker = find_worker(call, &failed);

    if (worker == NULL)
        return failed;
    if (workers_count(&master->workers, worker_is_serving) < 2 || config->workers_processes < 2)
        return command_reply(control_error(
            "it is the only worker: no other could take its connections; see: restart"));
    log_worker(call, "drain");
    config->workers_processes--;
    command_changed_key(call, KEY_workers_processes);
    supervisor_drain(master, worker->slot);
    return (struct control_reply){
        .in_force = has_left, .report = report_drained, .token = worker->slot};
}

/* restart: the token is the number of workers to replace */

static json_t *report_restarted(void *owner, uint64_t count)
{
    struct master *master = owner;
    char why[256];

    if (workers_cannot_start(master, why, sizeof(why)))
        return control_error("%s", why);
    return json_pack("{s:b, s:I, s:i, s:i}", "ok", 1, "restarted", (json_int_t)count, "wanted",
                     (int)master->config->workers_processes, "actual",
                     (int)workers_alive(&master->workers));
}

struct control_reply command_restart(const struct call *call)
{
    struct master *master = call->master;
    uint32_t count = 1;

    if (strcmp(call->argument[0], "all") == 0) {
        count = master->config->workers_processes;
        command_log_action(call, "restart of all workers");
        supervisor_replace_all(master);
    } else {
        struct control_reply failed;
        const struct worker_process *worker = find_worker(call, &failed);

        if (worker == NULL)
            return failed;
        log_worker(call, "restart");
        supervisor_replace(master, worker->slot);
    }
    return (struct control_reply){
        .in_force = workers_settled, .report = report_restarted, .token = count};
}

/* post-mortem */

struct control_reply command_post_mortem(const struct call *call)
{
    struct control_reply failed;
    uint32_t count = 1;

    if (call->argument_count > 0)
        count = command_number(call, "deaths", POST_MORTEM_DEATHS, &failed);
    if (count == 0)
        return failed;
    return command_reply(json_pack("{s:b, s:o}", "ok", 1, "deaths",
                                   post_mortem_list(call->master->monitor.worker_deaths, count)));
}
