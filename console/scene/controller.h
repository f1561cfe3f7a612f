/*
 * Where views and keys ask for what lies outside of them: to change the server, to put a question
 * to the user, to say something. Nothing here waits; answers come later, from the program's loop.
 * It is the one gate of --readonly: whatever would change something passes controller_allows_change(). The
 * console's only thread.
 */
#ifndef CONSOLE_CONTROLLER_H
#define CONSOLE_CONTROLLER_H

#include "common/macros.h"
#include "console/data/tunables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONTROLLER_TEXT = 256, CONTROLLER_LOG = 200 };

struct controller;

/* True when something may be changed; else says why not: read-only, a recording, no daemon. */
bool controller_allows_change(struct controller *controller);

/* Says TEXT at the bottom for some seconds. BAD marks what was not done. */
void controller_report(struct controller *controller, bool bad, const char *format, ...)
    PRINTF_LIKE(3, 4);

/*
 * Has the daemon do LINE, a command as wsctl takes it. It is checked first; what hurts is asked
 * back; the daemon's answer is said and goes into the log.
 */
void controller_command(struct controller *controller, const char *line);

/*
 * The same without asking back and without saying the answer: THEN gets it, from the loop, with the
 * one line of JSON, or with a sentence when OK is false and none came.
 */
typedef void controller_then(void *context, bool ok, const char *answer);
void controller_call(struct controller *controller, const char *line, controller_then *then,
                     void *context);

/* One more or fewer of something; quick turns are added up and sent as one. */
void controller_adjust(struct controller *controller, enum tunable number, int steps);

/* Asks QUESTION; YES is called when the user agrees. A dialogue replaces the one before it. */
void controller_confirm(struct controller *controller, const char *question,
                        void (*yes)(void *context), void *context);

/* Has a line of text edited, INITIAL at first; DONE is called with it unless the user gives up. */
void controller_prompt(struct controller *controller, const char *label, const char *initial,
                       void (*done)(void *context, const char *text), void *context);

/* What this console asked of the daemon, and how that ended. Number 0 is the newest. */
struct command_record {
    uint64_t wall_ns;
    bool answered, ok;
    char line[CONTROLLER_TEXT / 2];
    char answer[CONTROLLER_TEXT];
};
size_t controller_log_count(const struct controller *controller);
const struct command_record *controller_log_record(const struct controller *controller,
                                                   size_t back);

#endif
