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
    struct desk *desk;
    uint32_t wanted; /* 0: nothing is asked */
    uint32_t sent;
};

/* A command under way: which log entry its answer belongs to. */
struct errand {
    struct desk *desk;
    struct desk_entry *entry;
    desk_then *then; /* NULL: the answer is said */
    void *context;
    bool used;
};

struct desk {
    struct desk_setting setting;
    struct caller *caller;
    struct dialog dialog;
    char pending[CONTROL_LINE_MAX]; /* the command that a question is about */
    struct turn turn[KNOB_COUNT];
    struct errand errand[CALLER_QUEUE + 1];
    struct desk_entry log[DESK_LOG];
    uint64_t logged;
    char message[DESK_TEXT];
    bool message_bad;
    uint64_t message_until_ns;
    char page[PAGE_BYTES]; /* "": none */
};

static const int knob_command[KNOB_COUNT] = {
    [KNOB_THREADS] = COMMAND_threads,
    [KNOB_WORKERS] = COMMAND_workers,
    [KNOB_OFFLOAD_THREADS] = COMMAND_offload_threads,
};

struct desk *desk_create(const struct desk_setting *setting)
{
    struct desk *desk = calloc(1, sizeof(*desk));

    if (desk == NULL)
        return NULL;
    desk->setting = *setting;
    desk->caller = caller_create();
    if (desk->caller == NULL) {
        free(desk);
        return NULL;
    }
    for (int i = 0; i < KNOB_COUNT; i++)
        desk->turn[i].desk = desk;
    return desk;
}

void desk_destroy(struct desk *desk)
{
    if (desk == NULL)
        return;
    caller_destroy(desk->caller);
    free(desk);
}

struct dialog *desk_dialog(struct desk *desk)
{
    return &desk->dialog;
}

/* Saying */

void desk_say(struct desk *desk, bool bad, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(desk->message, sizeof(desk->message), format, arguments);
    va_end(arguments);
    desk->message_bad = bad;
    desk->message_until_ns = clock_monotonic_ns() + MESSAGE_FOR_NS;
}

const char *desk_message(const struct desk *desk, bool *bad)
{
    *bad = desk->message_bad;
    return clock_monotonic_ns() < desk->message_until_ns ? desk->message : NULL;
}

/* Changing */

bool desk_allows(struct desk *desk)
{
    if (watch_replays(desk->setting.watch))
        desk_say(desk, true, "this is a recording: there is nothing to change");
    else if (desk->setting.readonly)
        desk_say(desk, true, "this console was started with --readonly");
    else if (watch_wanted(desk->setting.watch, KNOB_THREADS) == 0)
        desk_say(desk, true, "no webserverd runs");
    else
        return true;
    return false;
}

static struct desk_entry *log_line(struct desk *desk, const char *line)
{
    struct desk_entry *entry = &desk->log[desk->logged++ % DESK_LOG];

    *entry = (struct desk_entry){.wall_ns = clock_wall_ns()};
    snprintf(entry->line, sizeof(entry->line), "%s", line);
    return entry;
}

size_t desk_log_count(const struct desk *desk)
{
    return desk->logged < DESK_LOG ? (size_t)desk->logged : DESK_LOG;
}

const struct desk_entry *desk_log(const struct desk *desk, size_t back)
{
    return &desk->log[(desk->logged - 1 - back) % DESK_LOG];
}

const char *desk_page(const struct desk *desk)
{
    return desk->page[0] != '\0' ? desk->page : NULL;
}

void desk_close_page(struct desk *desk)
{
    desk->page[0] = '\0';
}

/* Keeps a good answer of several lines as a page; false for one that fits the foot. */
static bool make_page(struct desk *desk, const char *command, const char *answer)
{
    FILE *out = fmemopen(desk->page, sizeof(desk->page) - 1, "w");
    const char *first_end;
    enum answer result;

    if (out == NULL)
        return false;
    result = answer_print(command, answer, out);
    fclose(out);
    desk->page[sizeof(desk->page) - 1] = '\0';
    first_end = strchr(desk->page, '\n');
    if (result == ANSWER_DONE && first_end != NULL && first_end[1] != '\0')
        return true;
    desk->page[0] = '\0';
    return false;
}

static void take_answer(void *context, bool ok, const char *answer)
{
    struct errand *errand = context;
    struct desk_entry *entry = errand->entry;
    char command[DESK_TEXT / 2];
    desk_then *then = errand->then;

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
    else if (!ok || !make_page(errand->desk, command, answer))
        desk_say(errand->desk, !entry->ok, "%s", entry->answer);
}

/* Sends a command that was checked. */
static void send_line(struct desk *desk, const char *line, desk_then *then, void *context)
{
    struct errand *errand = desk->errand;
    char path[INSTANCE_PATH_MAX], why[256];

    while (errand->used)
        errand++;
    if (errand == &desk->errand[CALLER_QUEUE]) {
        desk_say(desk, true, "too many commands wait for the daemon's answer already");
        return;
    }
    *errand = (struct errand){.desk = desk,
                              .entry = log_line(desk, line),
                              .then = then,
                              .context = context,
                              .used = true};
    if (target_socket(desk->setting.name, desk->setting.socket, path, sizeof(path), why,
                      sizeof(why)) != 0)
        take_answer(errand, false, why);
    else
        caller_call(desk->caller, path, line, take_answer, errand);
    desk_update(desk, clock_monotonic_ns());
}

void desk_call(struct desk *desk, const char *line, desk_then *then, void *context)
{
    send_line(desk, line, then, context);
}

static void send_pending(void *context)
{
    struct desk *desk = context;

    send_line(desk, desk->pending, NULL, NULL);
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

void desk_command(struct desk *desk, const char *line)
{
    const char *words[CONTROL_WORDS_MAX + 1];
    char copy[CONTROL_LINE_MAX], question[DIALOG_TEXT], why[DESK_TEXT];
    int count, command;

    snprintf(copy, sizeof(copy), "%s", line);
    count = split(copy, words, CONTROL_WORDS_MAX + 1);
    command = command_check(count, words, desk->pending, sizeof(desk->pending), why, sizeof(why));
    if (command < 0)
        desk_say(desk, true, "%s", why);
    else if (count - 1 >= command_table[command].changes && !desk_allows(desk))
        return;
    else if (danger_question(words, count, desk->setting.watch, question, sizeof(question)))
        desk_confirm(desk, question, send_pending, desk);
    else
        send_pending(desk);
}

/* Knobs */

static void send_turn(struct turn *turn);

/* A refusal takes back all that was asked after it; else what was added meanwhile is sent now. */
static void take_turn_answer(void *context, bool ok, const char *answer)
{
    struct turn *turn = context;
    struct desk *desk = turn->desk;
    enum knob number = (enum knob)(turn - desk->turn);
    char sentence[DESK_TEXT];
    enum answer result = ANSWER_BROKEN;

    if (ok)
        result = answer_sentence(command_table[knob_command[number]].name, answer, sentence,
                                 sizeof(sentence));
    desk_say(desk, result != ANSWER_DONE, "%s", ok ? sentence : answer);
    if (result == ANSWER_DONE && turn->wanted != turn->sent)
        send_turn(turn);
    else
        turn->wanted = 0;
}

/* The range of offload threads stays one: only the most is turned. 0: it is a plain number. */
static uint32_t least_of_range(const struct turn *turn, enum knob number)
{
    const struct watch *watch = turn->desk->setting.watch;
    uint32_t least = watch_offload_least(watch);

    return number == KNOB_OFFLOAD_THREADS && least < watch_wanted(watch, number) &&
                   least < turn->wanted
               ? least
               : 0;
}

static void send_turn(struct turn *turn)
{
    enum knob number = (enum knob)(turn - turn->desk->turn);
    uint32_t least = least_of_range(turn, number);
    char line[64], range[16] = "";

    if (least > 0)
        snprintf(range, sizeof(range), "%" PRIu32 "-", least);
    snprintf(line, sizeof(line), "%s %s%" PRIu32, command_table[knob_command[number]].name, range,
             turn->wanted);
    turn->sent = turn->wanted;
    send_line(turn->desk, line, take_turn_answer, turn);
}

void desk_turn(struct desk *desk, enum knob number, int steps)
{
    static const char *const least[KNOB_COUNT] = {
        [KNOB_THREADS] = "each worker keeps at least one serving thread",
        [KNOB_WORKERS] = "there is at least one worker",
        [KNOB_OFFLOAD_THREADS] = "each worker keeps at least one offload thread",
    };
    struct turn *turn = &desk->turn[number];
    bool out = turn->wanted != 0;
    int64_t wanted;

    if (!desk_allows(desk))
        return;
    wanted = (int64_t)(out ? turn->wanted : watch_wanted(desk->setting.watch, number)) + steps;
    if (wanted < 1) {
        desk_say(desk, true, "%s", least[number]);
        return;
    }
    turn->wanted = (uint32_t)wanted;
    if (!out)
        send_turn(turn);
}

bool desk_asked(const struct desk *desk, char *text, size_t size)
{
    for (int i = 0; i < KNOB_COUNT; i++)
        if (desk->turn[i].wanted != 0) {
            snprintf(text, size, "%s %" PRIu32 " asked, %" PRIu32 " in force",
                     command_table[knob_command[i]].name, desk->turn[i].wanted,
                     watch_wanted(desk->setting.watch, (enum knob)i));
            return true;
        }
    return false;
}

unsigned desk_waiting(const struct desk *desk)
{
    return caller_waiting(desk->caller);
}

int desk_descriptor(const struct desk *desk)
{
    return caller_descriptor(desk->caller);
}

void desk_update(struct desk *desk, uint64_t now_ns)
{
    caller_update(desk->caller, now_ns);
}

/* Questions */

void desk_confirm(struct desk *desk, const char *question, void (*yes)(void *context),
                  void *context)
{
    desk->dialog = (struct dialog){.kind = DIALOG_CONFIRM, .yes = yes, .context = context};
    snprintf(desk->dialog.label, sizeof(desk->dialog.label), "%s", question);
}

void desk_prompt(struct desk *desk, const char *label, const char *initial,
                 void (*done)(void *context, const char *text), void *context)
{
    desk->dialog = (struct dialog){.kind = DIALOG_PROMPT, .done = done, .context = context};
    snprintf(desk->dialog.label, sizeof(desk->dialog.label), "%s", label);
    edit_set(&desk->dialog.edit, initial);
}
