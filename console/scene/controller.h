/*
 * The controller: views and keys use it for everything that involves the daemon or the user. It
 * checks and sends commands, asks for confirmation, and keeps the message line. Nothing here
 * blocks; answers arrive through controller_update(). Every change must pass
 * controller_allows_change(), so --readonly is enforced in one place. The console's only thread.
 */
#ifndef CONSOLE_CONTROLLER_H
#define CONSOLE_CONTROLLER_H

#include "common/macros.h"
#include "console/data/watch.h"
#include "console/ui/dialog.h"
#include "console/ui/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONTROLLER_TEXT = 256, CONTROLLER_LOG = 200 };

struct controller;

/* For views */

/*
 * True if the server may be changed; else reports why not: recording, read-only, locked, no daemon.
 */
bool controller_allows_change(struct controller *controller);

/* Shows a message in the last line for 5 s. BAD: it is an error. */
void controller_report(struct controller *controller, bool bad, const char *format, ...)
    PRINTF_LIKE(3, 4);

/*
 * Runs LINE, a command in the syntax of wsctl: checks it, asks for confirmation if it changes the
 * server (confirmations.def), sends it, shows the daemon's answer and logs it.
 */
void controller_command(struct controller *controller, const char *line);

/*
 * Sends LINE without a check or a confirmation (controller_ask() has both), and passes the answer
 * to THEN instead of showing it. ANSWER is the daemon's line of JSON if OK, else the reason why
 * there is none.
 */
typedef void controller_then(void *context, bool ok, const char *answer);
void controller_call(struct controller *controller, const char *line, controller_then *then,
                     void *context);

/*
 * For a view that sends the command LINE itself: calls YES after the same question that
 * controller_command() asks, or at once if there is none; not at all if changes are not allowed.
 */
void controller_ask(struct controller *controller, const char *line, void (*yes)(void *context),
                    void *context);

/*
 * Asks whether to change a tunable by one, for ACTION_THREADS_MORE and its like. While the question
 * is open the same keys change the number in it. Changes confirmed while a command has no answer
 * yet are sent as one command.
 */
void controller_adjust(struct controller *controller, enum action action);

/* Asks QUESTION; calls YES if the user agrees. Replaces an open dialog. */
void controller_confirm(struct controller *controller, const char *question,
                        void (*yes)(void *context), void *context);

/* Edits a line of text that starts as INITIAL; calls DONE with it unless the user cancels. */
void controller_prompt(struct controller *controller, const char *label, const char *initial,
                       void (*done)(void *context, const char *text), void *context);

/* A command that this console sent, and its answer. */
struct command_record {
    uint64_t wall_ns;
    bool answered, ok;
    char line[CONTROLLER_TEXT / 2];
    char answer[CONTROLLER_TEXT];
};
size_t controller_log_count(const struct controller *controller);

/* Record BACK, counted from the newest (0); valid until the next command. */
const struct command_record *controller_log_record(const struct controller *controller,
                                                   size_t back);

/* For the program's loop and its frame */

/* Borrowed: must outlive the controller. */
struct controller_options {
    const char *instance;
    const char *socket; /* control socket; NULL: the instance's own */
    bool readonly;
    const struct watch *watch;
};

/* NULL: out of memory. */
struct controller *controller_create(const struct controller_options *options);
void controller_destroy(struct controller *controller);

/* The dialog that controller_confirm() and controller_prompt() open. */
struct dialog *controller_dialog(struct controller *controller);

void controller_set_readonly(struct controller *controller, bool readonly);

/* Locks the session: changes are rejected until the user unlocks it; unlocking asks first. */
void controller_toggle_lock(struct controller *controller);

/* False if the server has no control socket, as another program may. */
bool controller_offers_commands(const struct controller *controller);

/* False if another program has not said that it offers the command that changes its threads. */
bool controller_offers_threads(const struct controller *controller);

/*
 * "read-only" (by the option, or because this user may not write to the control socket), "locked",
 * or NULL.
 */
const char *controller_restriction(const struct controller *controller);

/* A descriptor to poll, or -1. Call controller_update() when it is readable and at every tick. */
int controller_descriptor(const struct controller *controller);
void controller_update(struct controller *controller, uint64_t now_ns);

/* The message to show now, or NULL. *BAD: it is an error. */
const char *controller_message(const struct controller *controller, bool *bad);

/* An answer of several lines that the user has not closed yet, or NULL. */
const char *controller_page(const struct controller *controller);
/* Shows TEXT of several lines until the user closes it. */
void controller_show_page(struct controller *controller, const char *text);
void controller_close_page(struct controller *controller);

/* Writes "threads 5 requested, 2 in force" while an adjustment is under way; else returns false. */
bool controller_pending(const struct controller *controller, char *text, size_t size);

/* Number of commands without an answer. */
unsigned controller_calls_waiting(const struct controller *controller);

/* The keys that limit, block or release one client. The console's only thread. */

/* True if ACTION is one of these keys. */
bool client_keys_have(enum action action);

/*
 * Does what ACTION means for the client ADDRESS, as the log or the table of clients writes it: asks
 * for the limit, or sends the command, which asks first. An IPv6 address stands for its /64.
 */
void client_keys_act(struct controller *controller, const char *address, enum action action);

#endif
