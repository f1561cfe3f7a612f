#include "console/scene/controller.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/tables.h"
#include "console/data/answers.h"
#include "console/data/caller.h"
#include "console/data/commands.h"
#include "console/data/target.h"
#include "console/scene/controller_program.h"
#include "console/scene/dangers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_FOR_NS (5 * NS_PER_S)

enum { PAGE_BYTES = 16384 };

struct turn {
    struct controller *controller;
    uint32_t wanted; /* 0: nothing is asked */
    uint32_t sent;
};

/* A command under way: which log entry its answer belongs to. */
struct errand {
    struct controller *controller;
    struct command_record *entry;
    controller_then *then; /* NULL: the answer is said */
    void *context;
    bool used;
};

struct controller {
    struct controller_options setting;
    struct caller *caller;
    struct dialog dialog;
    char pending[CONTROL_LINE_MAX]; /* the command that a question is about */
    struct turn turn[TUNABLE_COUNT];
    struct errand errand[CALLER_QUEUE + 1];
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

struct controller *controller_create(const struct controller_options *setting)
{
    struct controller *controller = calloc(1, sizeof(*controller));

    if (controller == NULL)
        return NULL;
    controller->setting = *setting;
    controller->caller = caller_create();
    if (controller->caller == NULL) {
        free(controller);
        return NULL;
    }
    for (int i = 0; i < TUNABLE_COUNT; i++)
        controller->turn[i].controller = controller;
    return controller;
}

void controller_destroy(struct controller *controller)
{
    if (controller == NULL)
        return;
    caller_destroy(controller->caller);
    free(controller);
}

struct dialog *controller_dialog(struct controller *controller)
{
    return &controller->dialog;
}

/* Saying */

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

/* Changing */

bool controller_allows_change(struct controller *controller)
{
    if (watch_replays(controller->setting.watch))
        controller_report(controller, true, "this is a recording: there is nothing to change");
    else if (controller->setting.readonly)
        controller_report(controller, true, "this console was started with --readonly");
    else if (watch_wanted(controller->setting.watch, TUNABLE_THREADS) == 0)
        controller_report(controller, true, "no webserverd runs");
    else
        return true;
    return false;
}

static struct command_record *log_line(struct controller *controller, const char *line)
{
    struct command_record *entry = &controller->log[controller->logged++ % CONTROLLER_LOG];

    *entry = (struct command_record){.wall_ns = clock_wall_ns()};
    snprintf(entry->line, sizeof(entry->line), "%s", line);
    return entry;
}

size_t controller_log_count(const struct controller *controller)
{
    return controller->logged < CONTROLLER_LOG ? (size_t)controller->logged : CONTROLLER_LOG;
}

const struct command_record *controller_log_record(const struct controller *controller, size_t back)
{
    return &controller->log[(controller->logged - 1 - back) % CONTROLLER_LOG];
}

const char *controller_page(const struct controller *controller)
{
    return controller->page[0] != '\0' ? controller->page : NULL;
}

void controller_close_page(struct controller *controller)
{
    controller->page[0] = '\0';
}

/* Keeps a good answer of several lines as a page; false for one that fits the foot. */
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

static void take_answer(void *context, bool ok, const char *answer)
{
    struct errand *errand = context;
    struct command_record *entry = errand->entry;
    char command[CONTROLLER_TEXT / 2];
    controller_then *then = errand->then;

    errand->used = false;
    snprintf(command, sizeof(command), "%.*s", (int)strcspn(entry->line, " "), entry->line);
    if (ok)
        entry->ok =
            answer_sentence(command, answer, entry->answer, sizeof(entry->answer)) == ANSWER_DONE;
    else
        snprintf(entry->answer, sizeof(entry->answer), "%s", answer);
    entry->answered = true;
    if (then != NULL)
        then(errand->context, ok, answer);
    else if (!ok || !make_page(errand->controller, command, answer))
        controller_report(errand->controller, !entry->ok, "%s", entry->answer);
}

/* Sends a command that was checked. */
static void send_line(struct controller *controller, const char *line, controller_then *then,
                      void *context)
{
    struct errand *errand = controller->errand;
    char path[INSTANCE_PATH_MAX], why[256];

    while (errand->used)
        errand++;
    if (errand == &controller->errand[CALLER_QUEUE]) {
        controller_report(controller, true,
                          "too many commands wait for the daemon's answer already");
        return;
    }
    *errand = (struct errand){.controller = controller,
                              .entry = log_line(controller, line),
                              .then = then,
                              .context = context,
                              .used = true};
    if (target_socket(controller->setting.name, controller->setting.socket, path, sizeof(path), why,
                      sizeof(why)) != 0)
        take_answer(errand, false, why);
    else
        caller_call(controller->caller, path, line, take_answer, errand);
    controller_update(controller, clock_monotonic_ns());
}

void controller_call(struct controller *controller, const char *line, controller_then *then,
                     void *context)
{
    send_line(controller, line, then, context);
}

static void send_pending(void *context)
{
    struct controller *controller = context;

    send_line(controller, controller->pending, NULL, NULL);
}

/* Splits LINE, in place. */
static int split(char *line, const char **words, int most)
{
    int count = 0;
    char *rest = NULL;

    for (char *word = strtok_r(line, " ", &rest); word != NULL && count < most;
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
    command = command_check(count, words, controller->pending, sizeof(controller->pending), why,
                            sizeof(why));
    if (command < 0)
        controller_report(controller, true, "%s", why);
    else if (count - 1 >= command_table[command].changes && !controller_allows_change(controller))
        return;
    else if (danger_question(words, count, controller->setting.watch, question, sizeof(question)))
        controller_confirm(controller, question, send_pending, controller);
    else
        send_pending(controller);
}

/* Knobs */

static void send_turn(struct turn *turn);

/* A refusal takes back all that was asked after it; else what was added meanwhile is sent now. */
static void take_turn_answer(void *context, bool ok, const char *answer)
{
    struct turn *turn = context;
    struct controller *controller = turn->controller;
    enum tunable number = (enum tunable)(turn - controller->turn);
    char sentence[CONTROLLER_TEXT];
    enum answer result = ANSWER_BROKEN;

    if (ok)
        result = answer_sentence(command_table[tunable_command[number]].name, answer, sentence,
                                 sizeof(sentence));
    controller_report(controller, result != ANSWER_DONE, "%s", ok ? sentence : answer);
    if (result == ANSWER_DONE && turn->wanted != turn->sent)
        send_turn(turn);
    else
        turn->wanted = 0;
}

/* The range of offload threads stays one: only the most is turned. 0: it is a plain number. */
static uint32_t least_of_range(const struct turn *turn, enum tunable number)
{
    const struct watch *watch = turn->controller->setting.watch;
    uint32_t least = watch_offload_least(watch);

    return number == TUNABLE_OFFLOAD_THREADS && least < watch_wanted(watch, number) &&
                   least < turn->wanted
               ? least
               : 0;
}

static void send_turn(struct turn *turn)
{
    enum tunable number = (enum tunable)(turn - turn->controller->turn);
    uint32_t least = least_of_range(turn, number);
    char line[64], range[16] = "";

    if (least > 0)
        snprintf(range, sizeof(range), "%" PRIu32 "-", least);
    snprintf(line, sizeof(line), "%s %s%" PRIu32, command_table[tunable_command[number]].name,
             range, turn->wanted);
    turn->sent = turn->wanted;
    send_line(turn->controller, line, take_turn_answer, turn);
}

void controller_adjust(struct controller *controller, enum tunable number, int steps)
{
    static const char *const least[TUNABLE_COUNT] = {
        [TUNABLE_THREADS] = "each worker keeps at least one serving thread",
        [TUNABLE_WORKERS] = "there is at least one worker",
        [TUNABLE_OFFLOAD_THREADS] = "each worker keeps at least one offload thread",
    };
    struct turn *turn = &controller->turn[number];
    bool out = turn->wanted != 0;
    int64_t wanted;

    if (!controller_allows_change(controller))
        return;
    wanted =
        (int64_t)(out ? turn->wanted : watch_wanted(controller->setting.watch, number)) + steps;
    if (wanted < 1) {
        controller_report(controller, true, "%s", least[number]);
        return;
    }
    turn->wanted = (uint32_t)wanted;
    if (!out)
        send_turn(turn);
}

bool controller_pending(const struct controller *controller, char *text, size_t size)
{
    for (int i = 0; i < TUNABLE_COUNT; i++)
        if (controller->turn[i].wanted != 0) {
            snprintf(text, size, "%s %" PRIu32 " asked, %" PRIu32 " in force",
                     command_table[tunable_command[i]].name, controller->turn[i].wanted,
                     watch_wanted(controller->setting.watch, (enum tunable)i));
            return true;
        }
    return false;
}

unsigned controller_calls_waiting(const struct controller *controller)
{
    return caller_waiting(controller->caller);
}

int controller_descriptor(const struct controller *controller)
{
    return caller_descriptor(controller->caller);
}

void controller_update(struct controller *controller, uint64_t now_ns)
{
    caller_update(controller->caller, now_ns);
}

/* Questions */

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
