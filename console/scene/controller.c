#include "console/scene/controller.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/tables.h"
#include "common/units.h"
#include "console/data/answers.h"
#include "console/data/commands.h"
#include "console/data/instances.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_FOR_NS (5 * NS_PER_S)

enum { PAGE_BYTES = 16384 };

struct adjustment {
    struct controller *controller;
    uint32_t wanted; /* 0: no adjustment is under way */
    uint32_t sent;
};

/* A command without an answer yet. */
struct call {
    struct controller *controller;
    struct command_record *record;
    controller_then *then; /* NULL: the answer is shown */
    void *context;
    bool used;
};

struct controller {
    struct controller_options options;
    struct command_queue *queue;
    struct dialog dialog;
    char unconfirmed[CONTROL_LINE_MAX]; /* the command that waits for confirmation */
    struct adjustment adjustment[TUNABLE_COUNT];
    struct call call[COMMAND_QUEUE_MAX + 1];
    struct command_record log[CONTROLLER_LOG];
    uint64_t logged;
    char message[CONTROLLER_TEXT];
    bool message_bad;
    uint64_t message_until_ns;
    char page[PAGE_BYTES]; /* "": none */
};

static const int tunable_command[TUNABLE_COUNT] = {
    [TUNABLE_THREADS] = COMMAND_threads,
    [TUNABLE_WORKERS] = COMMAND_workers,
    [TUNABLE_OFFLOAD_THREADS] = COMMAND_offload_threads,
};

struct controller *controller_create(const struct controller_options *options)
{
    struct controller *controller = calloc(1, sizeof(*controller));

    if (controller == NULL)
        return NULL;
    controller->options = *options;
    controller->queue = command_queue_create();
    if (controller->queue == NULL) {
        free(controller);
        return NULL;
    }
    for (int i = 0; i < TUNABLE_COUNT; i++)
        controller->adjustment[i].controller = controller;
    return controller;
}

void controller_destroy(struct controller *controller)
{
    if (controller == NULL)
        return;
    command_queue_destroy(controller->queue);
    free(controller);
}

struct dialog *controller_dialog(struct controller *controller)
{
    return &controller->dialog;
}

int controller_descriptor(const struct controller *controller)
{
    return command_queue_descriptor(controller->queue);
}

void controller_update(struct controller *controller, uint64_t now_ns)
{
    command_queue_update(controller->queue, now_ns);
}

unsigned controller_calls_waiting(const struct controller *controller)
{
    return command_queue_length(controller->queue);
}

/* Messages, pages and the log */

void controller_report(struct controller *controller, bool bad, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(controller->message, sizeof(controller->message), format, arguments);
    va_end(arguments);
    controller->message_bad = bad;
    controller->message_until_ns = clock_monotonic_ns() + MESSAGE_FOR_NS;
}

const char *controller_message(const struct controller *controller, bool *bad)
{
    *bad = controller->message_bad;
    return clock_monotonic_ns() < controller->message_until_ns ? controller->message : NULL;
}

const char *controller_page(const struct controller *controller)
{
    return controller->page[0] != '\0' ? controller->page : NULL;
}

void controller_close_page(struct controller *controller)
{
    controller->page[0] = '\0';
}

/*
 * Stores a successful answer of several lines as a page; returns false if it fits the message line.
 */
static bool make_page(struct controller *controller, const char *command, const char *answer)
{
    FILE *out = fmemopen(controller->page, sizeof(controller->page) - 1, "w");
    const char *first_end;
    enum answer result;

    if (out == NULL)
        return false;
    result = answer_print(command, answer, out);
    fclose(out);
    controller->page[sizeof(controller->page) - 1] = '\0';
    first_end = strchr(controller->page, '\n');
    if (result == ANSWER_DONE && first_end != NULL && first_end[1] != '\0')
        return true;
    controller->page[0] = '\0';
    return false;
}

size_t controller_log_count(const struct controller *controller)
{
    return controller->logged < CONTROLLER_LOG ? (size_t)controller->logged : CONTROLLER_LOG;
}

const struct command_record *controller_log_record(const struct controller *controller, size_t back)
{
    return &controller->log[(controller->logged - 1 - back) % CONTROLLER_LOG];
}

/* Sending */

bool controller_allows_change(struct controller *controller)
{
    if (watch_replays(controller->options.watch))
        controller_report(controller, true, "a recording cannot be changed");
    else if (controller->options.readonly)
        controller_report(controller, true, "this console is read-only (--readonly)");
    else if (watch_wanted(controller->options.watch, TUNABLE_THREADS) == 0)
        controller_report(controller, true, "no webserverd is running");
    else
        return true;
    return false;
}

static void take_answer(void *context, bool ok, const char *answer)
{
    struct call *call = context;
    struct command_record *record = call->record;
    char command[CONTROLLER_TEXT / 2];
    controller_then *then = call->then;

    call->used = false;
    snprintf(command, sizeof(command), "%.*s", (int)strcspn(record->line, " "), record->line);
    if (ok)
        record->ok =
            answer_sentence(command, answer, record->answer, sizeof(record->answer)) == ANSWER_DONE;
    else
        snprintf(record->answer, sizeof(record->answer), "%s", answer);
    record->answered = true;
    if (then != NULL)
        then(call->context, ok, answer);
    else if (!ok || !make_page(call->controller, command, answer))
        controller_report(call->controller, !record->ok, "%s", record->answer);
}

void controller_call(struct controller *controller, const char *line, controller_then *then,
                     void *context)
{
    struct call *call = controller->call;
    struct command_record *record;
    char path[INSTANCE_PATH_MAX], why[256];

    while (call->used)
        call++;
    if (call == &controller->call[COMMAND_QUEUE_MAX]) {
        controller_report(controller, true, "too many commands are waiting for an answer");
        return;
    }
    record = &controller->log[controller->logged++ % CONTROLLER_LOG];
    *record = (struct command_record){.wall_ns = clock_wall_ns()};
    snprintf(record->line, sizeof(record->line), "%s", line);
    *call = (struct call){
        .controller = controller, .record = record, .then = then, .context = context, .used = true};
    if (instance_control_socket(controller->options.name, controller->options.socket, path,
                                sizeof(path), why, sizeof(why)) != 0)
        take_answer(call, false, why);
    else
        command_queue_add(controller->queue, path, line, take_answer, call);
    controller_update(controller, clock_monotonic_ns());
}

/* Commands */

enum when { ALWAYS, FEWER };

static const struct {
    const char *command;
    enum when when;
    const char *question;
} confirmations[] = {
#define CONFIRM(command, when, question) {command, when, question},
#include "console/scene/confirmations.def"
#undef CONFIRM
};

static bool is_fewer(const struct watch *watch, const char *const *words, int count)
{
    enum tunable tunable = strcmp(words[0], "workers") == 0 ? TUNABLE_WORKERS : TUNABLE_THREADS;
    uint64_t number;

    return count > 1 && units_parse_number(words[1], &number) == 0 &&
           number + 1 < watch_wanted(watch, tunable);
}

/*
 * True if the daemon will reject the argument: then no confirmation, so that its message appears.
 */
static bool is_invalid(const char *const *words, int count)
{
    bool of_workers = strcmp(words[0], "drain") == 0 || strcmp(words[0], "restart") == 0;
    uint64_t number;

    if (count < 2 || strcmp(words[1], "all") == 0)
        return false;
    return units_parse_number(words[1], &number) != 0 || (number == 0 && !of_workers);
}

/* Writes the question to ask before WORDS are sent; returns false if none is needed. */
static bool confirmation_question(const struct watch *watch, const char *const *words, int count,
                                  char *buffer, size_t size)
{
    for (size_t i = 0; i < ARRAY_LENGTH(confirmations); i++) {
        const char *question = confirmations[i].question, *where = strstr(question, "%s");

        if (strcmp(words[0], confirmations[i].command) != 0 ||
            (confirmations[i].when == FEWER && !is_fewer(watch, words, count)) ||
            is_invalid(words, count))
            continue;
        if (where == NULL)
            snprintf(buffer, size, "%s", question);
        else
            snprintf(buffer, size, "%.*s%s%s", (int)(where - question), question,
                     count > 1 ? words[1] : "(all)", where + 2);
        return true;
    }
    return false;
}

static void send_confirmed(void *context)
{
    struct controller *controller = context;

    controller_call(controller, controller->unconfirmed, NULL, NULL);
}

/* Splits LINE in place; returns the number of words, at most MAX. */
static int split(char *line, const char **words, int max)
{
    int count = 0;
    char *rest = NULL;

    for (char *word = strtok_r(line, " ", &rest); word != NULL && count < max;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return count;
}

void controller_command(struct controller *controller, const char *line)
{
    const char *words[CONTROL_WORDS_MAX + 1];
    char copy[CONTROL_LINE_MAX], question[DIALOG_TEXT], why[CONTROLLER_TEXT];
    int count, command;

    snprintf(copy, sizeof(copy), "%s", line);
    count = split(copy, words, CONTROL_WORDS_MAX + 1);
    command = command_check(count, words, controller->unconfirmed, sizeof(controller->unconfirmed),
                            why, sizeof(why));
    if (command < 0)
        controller_report(controller, true, "%s", why);
    else if (count - 1 >= command_table[command].changes && !controller_allows_change(controller))
        return;
    else if (confirmation_question(controller->options.watch, words, count, question,
                                   sizeof(question)))
        controller_confirm(controller, question, send_confirmed, controller);
    else
        send_confirmed(controller);
}

/* Adjustments */

static void send_adjustment(struct adjustment *adjustment);

/* Steps made while the command was under way: cancelled after a rejection, else sent now. */
static void take_adjustment_answer(void *context, bool ok, const char *answer)
{
    struct adjustment *adjustment = context;
    struct controller *controller = adjustment->controller;
    enum tunable tunable = (enum tunable)(adjustment - controller->adjustment);
    char sentence[CONTROLLER_TEXT];
    enum answer result = ANSWER_BROKEN;

    if (ok)
        result = answer_sentence(command_table[tunable_command[tunable]].name, answer, sentence,
                                 sizeof(sentence));
    controller_report(controller, result != ANSWER_DONE, "%s", ok ? sentence : answer);
    if (result == ANSWER_DONE && adjustment->wanted != adjustment->sent)
        send_adjustment(adjustment);
    else
        adjustment->wanted = 0;
}

/* Offload threads are a range MIN-MAX: only MAX is adjusted, so MIN is sent along. */
static void send_adjustment(struct adjustment *adjustment)
{
    struct controller *controller = adjustment->controller;
    const struct watch *watch = controller->options.watch;
    enum tunable tunable = (enum tunable)(adjustment - controller->adjustment);
    uint32_t min = tunable == TUNABLE_OFFLOAD_THREADS ? watch_offload_min(watch) : 0;
    char line[64], range[16] = "";

    if (min > 0 && min < watch_wanted(watch, tunable) && min < adjustment->wanted)
        snprintf(range, sizeof(range), "%" PRIu32 "-", min);
    snprintf(line, sizeof(line), "%s %s%" PRIu32, command_table[tunable_command[tunable]].name,
             range, adjustment->wanted);
    adjustment->sent = adjustment->wanted;
    controller_call(controller, line, take_adjustment_answer, adjustment);
}

void controller_adjust(struct controller *controller, enum tunable tunable, int steps)
{
    static const char *const minimum[TUNABLE_COUNT] = {
        [TUNABLE_THREADS] = "the minimum is one serving thread per worker",
        [TUNABLE_WORKERS] = "the minimum is one worker",
        [TUNABLE_OFFLOAD_THREADS] = "the minimum is one offload thread per worker",
    };
    struct adjustment *adjustment = &controller->adjustment[tunable];
    bool under_way = adjustment->wanted != 0;
    int64_t wanted;

    if (!controller_allows_change(controller))
        return;
    wanted = (int64_t)(under_way ? adjustment->wanted
                                 : watch_wanted(controller->options.watch, tunable)) +
             steps;
    if (wanted < 1) {
        controller_report(controller, true, "%s", minimum[tunable]);
        return;
    }
    adjustment->wanted = (uint32_t)wanted;
    if (!under_way)
        send_adjustment(adjustment);
}

bool controller_pending(const struct controller *controller, char *text, size_t size)
{
    for (int i = 0; i < TUNABLE_COUNT; i++)
        if (controller->adjustment[i].wanted != 0) {
            snprintf(text, size, "%s %" PRIu32 " requested, %" PRIu32 " in force",
                     command_table[tunable_command[i]].name, controller->adjustment[i].wanted,
                     watch_wanted(controller->options.watch, (enum tunable)i));
            return true;
        }
    return false;
}

/* Dialogs */

void controller_confirm(struct controller *controller, const char *question,
                        void (*yes)(void *context), void *context)
{
    controller->dialog = (struct dialog){.kind = DIALOG_CONFIRM, .yes = yes, .context = context};
    snprintf(controller->dialog.label, sizeof(controller->dialog.label), "%s", question);
}

void controller_prompt(struct controller *controller, const char *label, const char *initial,
                       void (*done)(void *context, const char *text), void *context)
{
    controller->dialog = (struct dialog){.kind = DIALOG_PROMPT, .done = done, .context = context};
    snprintf(controller->dialog.label, sizeof(controller->dialog.label), "%s", label);
    edit_set(&controller->dialog.edit, initial);
}
