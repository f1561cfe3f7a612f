/*
 * The commands of the control socket, one function each; common/commands.def lists them with their
 * arguments and help, and the table below is made from it.
 */
#include "daemon/control.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/nearest.h"
#include "common/units.h"
#include "daemon/capacity.h"
#include "daemon/events.h"
#include "daemon/stopping.h"
#include "daemon/supervisor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One command on its way. */
struct call {
    struct master *master;
    int count; /* of arguments */
    char *argument[CONTROL_WORDS_MAX];
    unsigned uid; /* who asks */
    int pid;
};

typedef struct command_result command(const struct call *call);

#define COMMAND(name, function, arguments, least, most, help) static command command_##function;
#include "common/commands.def"
#undef COMMAND

static command *const functions[COMMAND_COUNT] = {
#define COMMAND(name, function, arguments, least, most, help) command_##function,
#include "common/commands.def"
#undef COMMAND
};

json_t *command_refusal(const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return json_pack("{s:b, s:s}", "ok", 0, "error", text);
}

static struct command_result answer(json_t *json)
{
    return (struct command_result){.answer = json};
}

/* Every change is an event: who wanted what. */
static void log_change(const struct call *call, const char *what, const char *from, const char *to)
{
    event_log(LEVEL_INFO, "%s: %s instead of %s, by uid %u pid %d", what, to, from, call->uid,
              call->pid);
}

static void log_number_change(const struct call *call, const char *what, uint32_t from, uint32_t to)
{
    char from_text[16], to_text[16];

    snprintf(from_text, sizeof(from_text), "%u", from);
    snprintf(to_text, sizeof(to_text), "%u", to);
    log_change(call, what, from_text, to_text);
}

/* A number from 1 to MOST, or 0 with a refusal in *RESULT. */
static uint32_t number_argument(const struct call *call, const char *what, uint32_t most,
                                struct command_result *result)
{
    uint64_t number;

    if (units_parse_number(call->argument[0], &number) == 0 && number >= 1 && number <= most)
        return (uint32_t)number;
    *result = answer(command_refusal("'%.64s' is no number of %s: 1 to %u is allowed",
                                     call->argument[0], what, most));
    return 0;
}

/* ping, help, stop */

static struct command_result command_ping(const struct call *call)
{
    return answer(json_pack("{s:b, s:s, s:i, s:s}", "ok", 1, "name",
                            call->master->config->server_name, "pid", getpid(), "version",
                            WEBSERVERD_VERSION));
}

static const struct command_info *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(command_table[i].name, name) == 0)
            return &command_table[i];
    return NULL;
}

/* The refusal for a word that is no command. */
static struct command_result unknown(const char *name)
{
    const char *names[COMMAND_COUNT], *nearest;

    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = command_table[i].name;
    nearest = nearest_word(name, names, COMMAND_COUNT);
    return answer(command_refusal("unknown command '%.64s'%s%s%s; try: help", name,
                                  nearest != NULL ? ", did you mean '" : "",
                                  nearest != NULL ? nearest : "", nearest != NULL ? "'?" : ""));
}

static struct command_result command_help(const struct call *call)
{
    json_t *list = json_array();

    if (call->count > 0 && find_command(call->argument[0]) == NULL) {
        json_decref(list);
        return unknown(call->argument[0]);
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const struct command_info *info = &command_table[i];

        if (call->count == 0 || strcmp(info->name, call->argument[0]) == 0)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:s}", "name", info->name, "arguments",
                                            info->arguments, "help", info->help));
    }
    return answer(json_pack("{s:b, s:o}", "ok", 1, "commands", list));
}

static struct command_result command_stop(const struct call *call)
{
    event_log(LEVEL_INFO, "stop, by uid %u pid %d", call->uid, call->pid);
    stopping_begin(call->master->stopping);
    return answer(json_pack("{s:b, s:b}", "ok", 1, "stopping", 1));
}

/* threads, workers */

static json_t *report_threads(struct master *master)
{
    return json_pack("{s:b, s:i, s:i}", "ok", 1, "wanted", (int)master->threads_wanted, "actual",
                     (int)supervisor_threads(master->supervisor));
}

static json_t *report_workers(struct master *master)
{
    return json_pack("{s:b, s:i, s:i}", "ok", 1, "wanted", (int)master->workers_wanted, "actual",
                     (int)supervisor_alive(master->supervisor));
}

static bool settled(struct master *master)
{
    return stopping_is_under_way(master->stopping) || supervisor_settled(master->supervisor);
}

/* Makes WORKERS and THREADS the wanted numbers; answered when they are in force. */
static struct command_result resize(const struct call *call, uint32_t workers, uint32_t threads,
                                    json_t *(*report)(struct master *master))
{
    struct master *master = call->master;
    char why[256];

    if (stopping_is_under_way(master->stopping))
        return answer(command_refusal("the server is stopping"));
    if (capacity_prepare(master, workers, threads, why, sizeof(why)) != 0)
        return answer(command_refusal("%s", why));
    master->workers_wanted = workers;
    master->threads_wanted = threads;
    atomic_store(&segment_master(&master->segment)->workers_wanted, workers);
    atomic_store(&segment_master(&master->segment)->threads_wanted, threads);
    supervisor_reconcile(master->supervisor);
    if (settled(master))
        return answer(report(master));
    return (struct command_result){.in_force = settled, .report = report};
}

static struct command_result command_threads(const struct call *call)
{
    struct master *master = call->master;
    struct command_result refused;
    uint32_t number;

    if (call->count == 0)
        return answer(report_threads(master));
    number = number_argument(call, "serving threads",
                             segment_count(&master->segment, SEGMENT_THREADS), &refused);
    if (number == 0)
        return refused;
    log_number_change(call, "serving threads in each worker", master->threads_wanted, number);
    return resize(call, master->workers_wanted, number, report_threads);
}

static struct command_result command_workers(const struct call *call)
{
    struct master *master = call->master;
    struct command_result refused;
    uint32_t number;

    if (call->count == 0)
        return answer(report_workers(master));
    number = number_argument(call, "workers", supervisor_slots(master->supervisor), &refused);
    if (number == 0)
        return refused;
    log_number_change(call, "workers", master->workers_wanted, number);
    return resize(call, number, master->threads_wanted, report_workers);
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

static json_t *report_offload(struct master *master)
{
    char wanted[32];
    uint32_t actual = 0;

    format_range(wanted, sizeof(wanted), master->offload_wanted);
    for (uint32_t i = 0; i < supervisor_slots(master->supervisor); i++)
        if (supervisor_worker(master->supervisor, i)->state == WORKER_SERVING)
            actual += offload_of(master, i);
    return json_pack("{s:b, s:s, s:i}", "ok", 1, "wanted", wanted, "actual", (int)actual);
}

/* All workers have a number of offload threads within the bounds. */
static bool offload_in_force(struct master *master)
{
    for (uint32_t i = 0; i < supervisor_slots(master->supervisor); i++) {
        if (supervisor_worker(master->supervisor, i)->state != WORKER_SERVING)
            continue;
        if (offload_of(master, i) < master->offload_wanted.least ||
            offload_of(master, i) > master->offload_wanted.most)
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

static struct command_result command_offload_threads(const struct call *call)
{
    struct master *master = call->master;
    struct config_range wanted;
    char before[32], after[32];

    if (call->count == 0)
        return answer(report_offload(master));
    if (!parse_range(call->argument[0], &wanted))
        return answer(
            command_refusal("that is no number of offload threads: N or MIN-MAX, from 1 to %d",
                            SEGMENT_OFFLOAD_THREADS));
    format_range(before, sizeof(before), master->offload_wanted);
    format_range(after, sizeof(after), wanted);
    log_change(call, "offload threads in each worker", before, after);
    master->offload_wanted = wanted;
    atomic_store(&segment_master(&master->segment)->offload_least_wanted, wanted.least);
    atomic_store(&segment_master(&master->segment)->offload_most_wanted, wanted.most);
    supervisor_tell_offload(master->supervisor);
    return (struct command_result){.in_force = offload_in_force, .report = report_offload};
}

/* log-level */

static json_t *report_level(struct master *master)
{
    uint32_t level = atomic_load(&segment_master(&master->segment)->log_level);

    return json_pack("{s:b, s:s}", "ok", 1, "level", level_names[level]);
}

static struct command_result command_log_level(const struct call *call)
{
    struct segment_master *block = segment_master(&call->master->segment);
    const char *before = level_names[atomic_load(&block->log_level)];
    int level;

    if (call->count == 0)
        return answer(report_level(call->master));
    level = table_find(call->argument[0], level_names, LEVEL_COUNT);
    if (level < 0)
        return answer(
            command_refusal("'%.64s' is no level: debug, info, warn or error", call->argument[0]));
    log_change(call, "log level", before, level_names[level]);
    atomic_store(&block->log_level, (uint32_t)level);
    return answer(report_level(call->master));
}

/* status */

static json_t *worker_status(struct master *master, uint32_t slot)
{
    static const char *const states[] = {"none", "starting", "serving", "leaving"};
    const struct worker_process *worker = supervisor_worker(master->supervisor, slot);
    const struct segment_worker *block = segment_worker(&master->segment, slot);
    uint64_t up = (clock_wall_ns() - atomic_load(&block->started_ns)) / NS_PER_S;

    return json_pack("{s:i, s:i, s:s, s:{s:i, s:i}, s:i, s:I, s:i}", "slot", (int)slot, "pid",
                     (int)worker->pid, "state", states[worker->state], "threads", "wanted",
                     (int)atomic_load(&block->threads_wanted), "actual",
                     (int)atomic_load(&block->threads_actual), "offload_threads",
                     (int)offload_of(master, slot), "uptime_s", (json_int_t)up, "starts",
                     (int)atomic_load(&block->starts));
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
    char text[sizeof(master->segment.directory->listening)];
    char *rest = text, *one;

    snprintf(text, sizeof(text), "%s", master->segment.directory->listening);
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

static struct command_result command_status(const struct call *call)
{
    struct master *master = call->master;
    const struct config *config = master->config;
    uint64_t up = (clock_wall_ns() - master->segment.directory->started_ns) / NS_PER_S;

    return answer(json_pack(
        "{s:b, s:s, s:s, s:i, s:I, s:o, s:s, s:{s:i}, s:{s:i, s:i, s:o}, s:{s:i, s:i}, s:o}", "ok",
        1, "name", config->server_name, "version", WEBSERVERD_VERSION, "pid", getpid(), "uptime_s",
        (json_int_t)up, "listening", list_addresses(master), "dispatch",
        config->workers_dispatch == DISPATCH_MASTER ? "master" : "kernel", "logger", "pid",
        (int)supervisor_logger(master->supervisor), "workers", "wanted",
        (int)master->workers_wanted, "actual", (int)supervisor_alive(master->supervisor), "list",
        list_workers(master), "threads", "wanted", (int)master->threads_wanted, "actual",
        (int)supervisor_threads(master->supervisor), "metrics", list_metrics(master)));
}

/* Words in, one function out */

static int split(char *line, char **words, int most)
{
    int count = 0;
    char *word;

    while ((word = strsep(&line, " \t")) != NULL) {
        if (*word == '\0')
            continue;
        if (count == most)
            return most + 1;
        words[count++] = word;
    }
    return count;
}

static struct command_result wrong_count(const struct command_info *info)
{
    return answer(command_refusal("wrong number of arguments; usage: %s%s%s", info->name,
                                  info->arguments[0] != '\0' ? " " : "", info->arguments));
}

struct command_result command_run(struct master *master, char *line, unsigned uid, int pid)
{
    char *words[CONTROL_WORDS_MAX];
    int count = split(line, words, CONTROL_WORDS_MAX);
    const struct command_info *info;
    struct call call = {.master = master, .count = count - 1, .uid = uid, .pid = pid};

    if (count == 0)
        return answer(command_refusal("an empty line is no command; try: help"));
    info = find_command(words[0]);
    if (info == NULL)
        return unknown(words[0]);
    if (call.count < info->least || call.count > info->most)
        return wrong_count(info);
    for (int i = 0; i < call.count; i++)
        call.argument[i] = words[i + 1];
    metric_add(segment_master(&master->segment)->metrics, METRIC_control_commands, 1);
    return functions[info - command_table](&call);
}
