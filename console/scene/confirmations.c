#include "console/scene/confirmations.h"

#include "common/macros.h"
#include "common/tables.h"
#include "common/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum when { ANY, FEWER, MORE, ALL, NOW, ROLLOVER, OFF, BLOCK };
enum by { RETURN, LETTER };

static const struct confirmation {
    const char *command;
    enum when when;
    enum by by;
    const char *question;
} confirmations[] = {
#define CONFIRM(command, when, by, question) {command, when, by, question},
#include "console/scene/confirmations.def"
#undef CONFIRM
};

enum { WORD_SHOWN = 60, VALUE_BYTES = 160 };

/* A command and the server that it is for. */
struct request {
    const struct watch *watch;
    const char *const *words;
    int count;
    enum tunable tunable; /* TUNABLE_COUNT: it sets another value, or none */
};

int confirmation_command(enum tunable tunable)
{
    static const int commands[TUNABLE_COUNT] = {
        [TUNABLE_THREADS] = COMMAND_threads,
        [TUNABLE_WORKERS] = COMMAND_workers,
        [TUNABLE_OFFLOAD_THREADS] = COMMAND_offload_threads,
    };

    return commands[tunable];
}

static const char *argument(const struct request *request)
{
    return request->count > 1 ? request->words[1] : "";
}

/* The number requested: the maximum of a range. False: none, or invalid. */
static bool number_requested(const struct request *request, uint64_t *number)
{
    const char *range = strchr(argument(request), '-');

    return units_parse_number(range != NULL ? range + 1 : argument(request), number) == 0;
}

static bool is_of_queue(const char *word)
{
    uint64_t places;

    return table_find(word, queue_order_names, QUEUE_ORDER_COUNT) >= 0 ||
           table_find(word, queue_full_names, QUEUE_FULL_COUNT) >= 0 ||
           units_parse_number(word, &places) == 0;
}

/* True if the daemon will reject an argument: then no question, so that its message appears. */
static bool is_invalid(const struct request *request)
{
    const char *command = request->words[0];
    bool of_worker = strcmp(command, "drain") == 0 || strcmp(command, "restart") == 0;
    uint64_t number;

    if (strcmp(command, "limit-client") == 0)
        return request->count < 3;
    if (strcmp(command, "model") == 0)
        return table_find(argument(request), worker_model_names, MODEL_COUNT) < 0;
    for (int i = 1; strcmp(command, "queue") == 0 && i < request->count; i++)
        if (!is_of_queue(request->words[i]))
            return true;
    if (strcmp(command, "acme") == 0)
        return request->count != (strcmp(argument(request), "rollover") == 0 ? 2 : 3);
    if (request->tunable == TUNABLE_COUNT && !of_worker)
        return false;
    if (request->count < 2 || strcmp(argument(request), "all") == 0)
        return false;
    return !number_requested(request, &number) || (number == 0 && !of_worker);
}

static bool confirmation_applies(const struct confirmation *confirmation,
                                 const struct request *request)
{
    uint64_t number = 0;
    uint32_t now = watch_wanted(request->watch, request->tunable);

    if (strcmp(request->words[0], confirmation->command) != 0)
        return false;
    switch (confirmation->when) {
    case ANY:
        return true;
    case FEWER:
        return number_requested(request, &number) && number < now;
    case MORE:
        return number_requested(request, &number) && number > now;
    case ALL:
        return strcmp(argument(request), "all") == 0;
    case NOW:
        return strcmp(argument(request), "now") == 0;
    case ROLLOVER:
        return strcmp(argument(request), "rollover") == 0;
    case OFF:
        return request->count > 2 && strcmp(request->words[2], "off") == 0;
    case BLOCK:
        return request->count > 2 && strcmp(request->words[2], "block") == 0;
    }
    return false;
}

/* Number of serving workers in slots from SLOT on. */
static uint32_t workers_from(const struct snapshot *now, uint32_t slot)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < now->worker_count; i++)
        count += now->workers[i].slot >= slot && now->workers[i].state == WORKER_SERVING;
    return count;
}

/*
 * True if the command ends or moves the connections of THREAD. Of several workers the highest go.
 */
static bool concerns_thread(const struct request *request, const struct snapshot *now,
                            const struct thread_sample *thread)
{
    uint64_t number;

    if (!number_requested(request, &number))
        return true;
    if (request->tunable == TUNABLE_THREADS)
        return thread->thread >= number;
    if (request->tunable == TUNABLE_WORKERS)
        return number + workers_from(now, thread->worker) <= workers_from(now, 0);
    return thread->worker == number;
}

/* The last sample, also while the screen shows an earlier second. */
static const struct snapshot *snapshot_of(const struct request *request)
{
    return &watch_info(request->watch)->snapshot;
}

static uint64_t connections_of(const struct request *request)
{
    const struct snapshot *now = snapshot_of(request);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < now->thread_count; i++)
        if (concerns_thread(request, now, &now->threads[i]))
            sum += now->threads[i].values[METRIC_connections_open];
    return sum;
}

/* The value in force that the command sets. */
static void write_now(const struct request *request, char *value, size_t size)
{
    const struct snapshot *now = snapshot_of(request);
    const char *config = watch_info(request->watch)->config;

    if (request->tunable < TUNABLE_COUNT)
        snprintf(value, size, "%" PRIu32, watch_wanted(request->watch, request->tunable));
    else if (strcmp(request->words[0], "log-level") == 0)
        snprintf(value, size, "%s",
                 now->log_level < LEVEL_COUNT ? level_names[now->log_level] : "unknown");
    else if (!config_text_value(config, "cache.size", value, size))
        snprintf(value, size, "unknown");
}

/* Writes the value of the placeholder NAME: the text between braces. */
static void write_placeholder(const struct request *request, const char *name, char *value,
                              size_t size)
{
    const uint64_t *sums = snapshot_of(request)->sums;
    uint64_t connections = connections_of(request), entries = sums[METRIC_cache_entries];
    const char *bar = strchr(name, '|');
    char bytes[UNITS_TEXT];
    size_t used = 0;

    value[0] = '\0';
    if (bar != NULL)
        snprintf(value, size, "%.*s", connections == 1 ? (int)(bar - name) : WORD_SHOWN,
                 connections == 1 ? name : bar + 1);
    else if (strcmp(name, "1") == 0)
        snprintf(value, size, "%.*s%s", WORD_SHOWN, argument(request),
                 strlen(argument(request)) > WORD_SHOWN ? "..." : "");
    else if (strcmp(name, "2") == 0)
        snprintf(value, size, "%.*s", WORD_SHOWN, request->count > 2 ? request->words[2] : "");
    else if (strcmp(name, "time") == 0)
        snprintf(value, size, "%.*s", WORD_SHOWN, request->count > 3 ? request->words[3] : "10m");
    else if (strcmp(name, "arguments") == 0)
        for (int i = 1; i < request->count && used < size; i++)
            used += (size_t)snprintf(value + used, size - used, "%s%.*s", i > 1 ? " " : "",
                                     WORD_SHOWN, request->words[i]);
    else if (strcmp(name, "now") == 0)
        write_now(request, value, size);
    else if (strcmp(name, "entries") == 0)
        snprintf(value, size, "%" PRIu64 " %s (%s)", entries,
                 units_plural(entries, "entry", "entries"),
                 units_format_bytes(bytes, sizeof(bytes), (double)sums[METRIC_cache_bytes]));
    else if (connections == 0)
        snprintf(value, size, "No open connections");
    else
        snprintf(value, size, "%" PRIu64 " open %s", connections,
                 units_plural(connections, "connection", "connections"));
}

static void write_question(const struct request *request, const char *question, char *buffer,
                           size_t size)
{
    char name[32], value[VALUE_BYTES];
    size_t used = 0;

    while (*question != '\0' && used + sizeof(value) < size)
        if (*question == '{') {
            size_t length = strcspn(question, "}");

            snprintf(name, sizeof(name), "%.*s", (int)length - 1, question + 1);
            write_placeholder(request, name, value, sizeof(value));
            used += (size_t)snprintf(buffer + used, size - used, "%s", value);
            question += length + 1;
        } else {
            buffer[used++] = *question++;
        }
    buffer[used] = '\0';
}

bool confirmation_question(const struct watch *watch, const char *const *words, int count,
                           char *question, size_t size, bool *by_return)
{
    struct request request = {.watch = watch, .words = words, .count = count};
    int tunable = 0;

    if (count == 0)
        return false;
    while (tunable < TUNABLE_COUNT &&
           strcmp(words[0], command_table[confirmation_command((enum tunable)tunable)].name) != 0)
        tunable++;
    request.tunable = (enum tunable)tunable;
    if (is_invalid(&request))
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(confirmations); i++)
        if (confirmation_applies(&confirmations[i], &request)) {
            write_question(&request, confirmations[i].question, question, size);
            *by_return = confirmations[i].by == RETURN;
            return true;
        }
    return false;
}
