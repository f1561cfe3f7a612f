#include "console/scene/controller.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "common/control_client.h"
#include "common/tables.h"
#include "console/data/answers.h"
#include "console/data/commands.h"
#include "console/data/instances.h"
#include "console/scene/confirmations.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_FOR_NS (5 * NS_PER_S)

enum { PAGE_BYTES = 16384 };

struct adjustment {
    struct controller *controller;
    uint32_t wanted; /* 0: no adjustment is under way */
    uint32_t sent;
    uint32_t unconfirmed; /* while the question is open */
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
    bool denied; /* this user may watch the server, but not write to the control socket */
    bool locked;
    int32_t asked; /* pid of another program that was asked what it offers; 0: none */
    bool asking;
    char offered[CONTROLLER_TEXT]; /* its answer */
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

static bool is_of_other_program(const struct controller *controller)
{
    const struct server *server = &watch_info(controller->options.watch)->snapshot.server;

    return server->name[0] != '\0' && server->lacks_section[SEGMENT_CONFIG];
}

static void take_offered(void *context, bool ok, const char *answer)
{
    struct controller *controller = context;

    controller->asking = false;
    snprintf(controller->offered, sizeof(controller->offered), "%s", ok ? answer : "");
}

/* Another program names its commands in the answer to one that it does not know. */
static void ask_what_is_offered(struct controller *controller, const char *path)
{
    int32_t pid = watch_info(controller->options.watch)->snapshot.server.pid;

    if (pid == controller->asked || controller->asking || !is_of_other_program(controller) ||
        watch_replays(controller->options.watch) || path[0] == '\0' || controller->denied)
        return;
    controller->asked = pid;
    controller->asking = true;
    controller->offered[0] = '\0';
    command_queue_add(controller->queue, path, "?", take_offered, controller);
}

bool controller_offers_threads(const struct controller *controller)
{
    const char *threads = strstr(controller->offered, " threads");

    return !is_of_other_program(controller) ||
           (threads != NULL && strchr(" \"", threads[strlen(" threads")]) != NULL);
}

void controller_update(struct controller *controller, uint64_t now_ns)
{
    const char *path = controller->options.socket;

    if (path == NULL)
        path = watch_info(controller->options.watch)->snapshot.server.socket_path;
    controller->denied =
        path[0] != '\0' && access(path, W_OK) != 0 && (errno == EACCES || errno == EPERM);
    ask_what_is_offered(controller, path);
    command_queue_update(controller->queue, now_ns);
}

unsigned controller_calls_waiting(const struct controller *controller)
{
    return command_queue_length(controller->queue) - controller->asking;
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

void controller_show_page(struct controller *controller, const char *text)
{
    snprintf(controller->page, sizeof(controller->page), "%s", text);
}

void controller_close_page(struct controller *controller)
{
    controller->page[0] = '\0';
}

/*
 * Stores a successful answer of several lines as a page; returns false if it fits the message line.
 */
static bool make_answer_page(struct controller *controller, const char *command, const char *answer)
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

void controller_set_readonly(struct controller *controller, bool readonly)
{
    controller->options.readonly = readonly;
}

const char *controller_restriction(const struct controller *controller)
{
    return controller->options.readonly || controller->denied ? "read-only"
           : controller->locked                               ? "locked"
                                                              : NULL;
}

static void unlock(void *context)
{
    ((struct controller *)context)->locked = false;
}

void controller_toggle_lock(struct controller *controller)
{
    if (controller->locked) {
        controller_confirm(controller,
                           "Unlock this session? Its keys then change the server again.", unlock,
                           controller);
        return;
    }
    controller->locked = true;
    controller_report(controller, false, "locked: nothing here changes the server; K unlocks");
}

bool controller_offers_commands(const struct controller *controller)
{
    const struct server *server = &watch_info(controller->options.watch)->snapshot.server;

    return controller->options.socket != NULL || server->name[0] == '\0' ||
           server->socket_path[0] != '\0';
}

bool controller_allows_change(struct controller *controller)
{
    if (watch_replays(controller->options.watch))
        controller_report(controller, true, "a recording cannot be changed");
    else if (controller->options.readonly)
        controller_report(controller, true, "this console is read-only (--readonly)");
    else if (controller->denied)
        controller_report(controller, true,
                          "this console is read-only: no permission for the control socket");
    else if (controller->locked)
        controller_report(controller, true, "this session is locked; K unlocks it");
    else if (!controller_offers_commands(controller))
        controller_report(controller, true, "%s offers no commands",
                          watch_info(controller->options.watch)->snapshot.server.name);
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
    else if (!ok || !make_answer_page(call->controller, command, answer))
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
    if (instance_control_socket(controller->options.instance, controller->options.socket, path,
                                sizeof(path), why, sizeof(why)) != 0)
        take_answer(call, false, why);
    else
        command_queue_add(controller->queue, path, line, take_answer, call);
    controller_update(controller, clock_monotonic_ns());
}

/* Commands */

static void send_confirmed(void *context)
{
    struct controller *controller = context;

    controller_call(controller, controller->unconfirmed, NULL, NULL);
}

/* Splits LINE in place; returns the number of words, at most MAX. */
static int split_words(char *line, const char **words, int max)
{
    int count = 0;
    char *rest = NULL;

    for (char *word = strtok_r(line, " ", &rest); word != NULL && count < max;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return count;
}

/* Asks the question of LINE, if it has one, and calls YES. */
static void confirm_line(struct controller *controller, const char *line,
                         void (*yes)(void *context), void *context)
{
    const char *words[CONTROL_WORDS_MAX + 1];
    char copy[CONTROL_LINE_MAX], question[DIALOG_TEXT];
    bool by_return;

    snprintf(copy, sizeof(copy), "%s", line);
    if (!confirmation_question(controller->options.watch, words,
                               split_words(copy, words, CONTROL_WORDS_MAX + 1), question,
                               sizeof(question), &by_return)) {
        yes(context);
        return;
    }
    controller_confirm(controller, question, yes, context);
    controller->dialog.by_return = by_return;
}

void controller_ask(struct controller *controller, const char *line, void (*yes)(void *context),
                    void *context)
{
    if (controller_allows_change(controller))
        confirm_line(controller, line, yes, context);
}

void controller_command(struct controller *controller, const char *line)
{
    const char *words[CONTROL_WORDS_MAX + 1];
    char copy[CONTROL_LINE_MAX], why[CONTROLLER_TEXT];
    int count, command;

    snprintf(copy, sizeof(copy), "%s", line);
    count = split_words(copy, words, CONTROL_WORDS_MAX + 1);
    if (count > 0 && is_of_other_program(controller)) {
        if (command_join(count, words, controller->unconfirmed, sizeof(controller->unconfirmed),
                         why, sizeof(why)) != 0)
            controller_report(controller, true, "%s", why);
        else if (controller_allows_change(controller))
            send_confirmed(controller);
        return;
    }
    command = command_check(count, words, controller->unconfirmed, sizeof(controller->unconfirmed),
                            why, sizeof(why));
    if (command < 0)
        controller_report(controller, true, "%s", why);
    else if (count - 1 < command_table[command].changes)
        send_confirmed(controller);
    else if (controller_allows_change(controller))
        confirm_line(controller, controller->unconfirmed, send_confirmed, controller);
}

/* Adjustments */

static void send_adjustment(struct adjustment *adjustment);

static enum tunable adjusted_tunable(const struct adjustment *adjustment)
{
    return (enum tunable)(adjustment - adjustment->controller->adjustment);
}

/* Steps made while the command was under way: cancelled after a rejection, else sent now. */
static void take_adjustment_answer(void *context, bool ok, const char *answer)
{
    struct adjustment *adjustment = context;
    struct controller *controller = adjustment->controller;
    enum tunable tunable = adjusted_tunable(adjustment);
    char sentence[CONTROLLER_TEXT];
    enum answer result = ANSWER_BROKEN;

    if (ok)
        result = answer_sentence(command_table[confirmation_command(tunable)].name, answer,
                                 sentence, sizeof(sentence));
    controller_report(controller, result != ANSWER_DONE, "%s", ok ? sentence : answer);
    if (result == ANSWER_DONE && adjustment->wanted != adjustment->sent)
        send_adjustment(adjustment);
    else
        adjustment->wanted = 0;
}

/*
 * Writes the command that sets the tunable to NUMBER. Offload threads are a range MIN-MAX: only MAX
 * is adjusted, so MIN is sent along.
 */
static void write_adjustment(const struct adjustment *adjustment, uint32_t number, char *line,
                             size_t size)
{
    const struct controller *controller = adjustment->controller;
    const struct watch *watch = controller->options.watch;
    enum tunable tunable = adjusted_tunable(adjustment);
    uint32_t min = tunable == TUNABLE_OFFLOAD_THREADS ? watch_offload_min(watch) : 0;
    char range[16] = "";

    if (min > 0 && min < watch_wanted(watch, tunable) && min < number)
        snprintf(range, sizeof(range), "%" PRIu32 "-", min);
    snprintf(line, size, "%s %s%" PRIu32, command_table[confirmation_command(tunable)].name, range,
             number);
}

static void send_adjustment(struct adjustment *adjustment)
{
    char line[64];

    write_adjustment(adjustment, adjustment->wanted, line, sizeof(line));
    adjustment->sent = adjustment->wanted;
    controller_call(adjustment->controller, line, take_adjustment_answer, adjustment);
}

static void adjust_confirmed(void *context)
{
    struct adjustment *adjustment = context;
    bool under_way = adjustment->wanted != 0;

    adjustment->wanted = adjustment->unconfirmed;
    if (!under_way)
        send_adjustment(adjustment);
}

/* The keys that change a tunable by one. */
static const struct {
    enum action action;
    enum tunable tunable;
    int step;
} adjusting_keys[] = {
    {ACTION_THREADS_MORE, TUNABLE_THREADS, 1},
    {ACTION_THREADS_FEWER, TUNABLE_THREADS, -1},
    {ACTION_WORKERS_MORE, TUNABLE_WORKERS, 1},
    {ACTION_WORKERS_FEWER, TUNABLE_WORKERS, -1},
    {ACTION_OFFLOAD_MORE, TUNABLE_OFFLOAD_THREADS, 1},
    {ACTION_OFFLOAD_FEWER, TUNABLE_OFFLOAD_THREADS, -1},
};

static const char *const keys_shown[TUNABLE_COUNT] = {
    [TUNABLE_THREADS] = "+ -",
    [TUNABLE_WORKERS] = "w W",
    [TUNABLE_OFFLOAD_THREADS] = "o O",
};

/* The number from which an adjustment starts: the one already requested, else the one in force. */
static uint32_t number_before(const struct adjustment *adjustment)
{
    return adjustment->wanted != 0
               ? adjustment->wanted
               : watch_wanted(adjustment->controller->options.watch, adjusted_tunable(adjustment));
}

static bool adjust_by_key(void *context, int code);

/* Opens the question for NUMBER; closes it if that is the number before. */
static void ask_for(struct adjustment *adjustment, uint32_t number)
{
    struct controller *controller = adjustment->controller;
    const struct dialog before = controller->dialog;
    char line[64];

    controller->dialog.kind = DIALOG_NONE;
    if (number == number_before(adjustment))
        return;
    adjustment->unconfirmed = number;
    write_adjustment(adjustment, number, line, sizeof(line));
    confirm_line(controller, line, adjust_confirmed, adjustment);
    if (before.kind == DIALOG_CONFIRM && before.key == adjust_by_key) {
        controller->dialog.asked_ns = before.asked_ns; /* the same question about another number */
        controller->dialog.answerable = before.answerable;
    }
    controller->dialog.key = adjust_by_key;
    controller->dialog.adjusting_keys = keys_shown[adjusted_tunable(adjustment)];
}

static void adjust_tunable(struct adjustment *adjustment, uint32_t from, int step)
{
    static const char *const minimum[TUNABLE_COUNT] = {
        [TUNABLE_THREADS] = "the minimum is one serving thread per worker",
        [TUNABLE_WORKERS] = "the minimum is one worker",
        [TUNABLE_OFFLOAD_THREADS] = "the minimum is one offload thread per worker",
    };

    if (step < 0 && from <= 1)
        controller_report(adjustment->controller, true, "%s",
                          minimum[adjusted_tunable(adjustment)]);
    else
        ask_for(adjustment, from + (uint32_t)step);
}

/* Receives the keys while the question is open. */
static bool adjust_by_key(void *context, int code)
{
    struct adjustment *adjustment = context;

    for (size_t i = 0; i < ARRAY_LENGTH(adjusting_keys); i++)
        if (adjusting_keys[i].action == key_action(code) &&
            adjusting_keys[i].tunable == adjusted_tunable(adjustment)) {
            adjust_tunable(adjustment, adjustment->unconfirmed, adjusting_keys[i].step);
            return true;
        }
    return false;
}

void controller_adjust(struct controller *controller, enum action action)
{
    if (!controller_allows_change(controller))
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(adjusting_keys); i++)
        if (adjusting_keys[i].action == action) {
            struct adjustment *adjustment = &controller->adjustment[adjusting_keys[i].tunable];

            if (is_of_other_program(controller) && adjusting_keys[i].tunable != TUNABLE_THREADS) {
                controller_report(controller, true, "only threads can be changed here by a key");
                return;
            }
            adjust_tunable(adjustment, number_before(adjustment), adjusting_keys[i].step);
        }
}

bool controller_pending(const struct controller *controller, char *text, size_t size)
{
    for (int i = 0; i < TUNABLE_COUNT; i++)
        if (controller->adjustment[i].wanted != 0) {
            snprintf(text, size, "%s %" PRIu32 " requested, %" PRIu32 " in force",
                     command_table[confirmation_command((enum tunable)i)].name,
                     controller->adjustment[i].wanted,
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

/* Keys of one client */

/* The client that the open prompt is about: there is one at a time. */
static char prompted[CLIENT_KEY_TEXT];

bool client_keys_have(enum action action)
{
    return action == ACTION_EDIT || action == ACTION_STOP || action == ACTION_REMOVE;
}

static void set_limit(void *context, const char *text)
{
    char line[CONTROLLER_TEXT];

    snprintf(line, sizeof(line), "limit-client %s %.100s", prompted, text);
    controller_command(context, line);
}

void client_keys_act(struct controller *controller, const char *address, enum action action)
{
    char line[CONTROLLER_TEXT], client[CLIENT_KEY_TEXT];
    uint64_t key = client_key_parse(address);

    if (strcmp(address, "unix:") == 0) {
        controller_report(controller, true, "clients of a UNIX socket have no address to limit");
        return;
    }
    if (key != 0)
        client_key_text(key, client);
    else
        snprintf(client, sizeof(client), "%s", address); /* a network */
    if (action == ACTION_EDIT && controller_allows_change(controller)) {
        snprintf(prompted, sizeof(prompted), "%s", client);
        snprintf(line, sizeof(line), "requests per second of %s, and for how long: ", client);
        controller_prompt(controller, line, "10 10m", set_limit, controller);
    } else if (action != ACTION_EDIT) {
        snprintf(line, sizeof(line), "limit-client %s %s", client,
                 action == ACTION_STOP ? "block 10m" : "off");
        controller_command(controller, line);
    }
}
