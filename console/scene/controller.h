/*
 * Where views and keys ask for what lies outside of them: to change the server, to put a question
 * to the user, to say something. Nothing here waits; answers come later, from the program's loop.
 * It is the one gate of --readonly: whatever would change something passes desk_allows(). The
 * console's only thread.
 */
#ifndef CONSOLE_DESK_H
#define CONSOLE_DESK_H

#include "common/macros.h"
#include "console/data/knobs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DESK_TEXT = 256, DESK_LOG = 200 };

struct desk;

/* True when something may be changed; else says why not: read-only, a recording, no daemon. */
bool desk_allows(struct desk *desk);

/* Says TEXT at the bottom for some seconds. BAD marks what was not done. */
void desk_say(struct desk *desk, bool bad, const char *format, ...) PRINTF_LIKE(3, 4);

/*
 * Has the daemon do LINE, a command as wsctl takes it. It is checked first; what hurts is asked
 * back; the daemon's answer is said and goes into the log.
 */
void desk_command(struct desk *desk, const char *line);

/*
 * The same without asking back and without saying the answer: THEN gets it, from the loop, with the
 * one line of JSON, or with a sentence when OK is false and none came.
 */
typedef void desk_then(void *context, bool ok, const char *answer);
void desk_call(struct desk *desk, const char *line, desk_then *then, void *context);

/* One more or fewer of something; quick turns are added up and sent as one. */
void desk_turn(struct desk *desk, enum knob number, int steps);

/* Asks QUESTION; YES is called when the user agrees. A dialogue replaces the one before it. */
void desk_confirm(struct desk *desk, const char *question, void (*yes)(void *context),
                  void *context);

/* Has a line of text edited, INITIAL at first; DONE is called with it unless the user gives up. */
void desk_prompt(struct desk *desk, const char *label, const char *initial,
                 void (*done)(void *context, const char *text), void *context);

/* What this console asked of the daemon, and how that ended. Number 0 is the newest. */
struct desk_entry {
    uint64_t wall_ns;
    bool answered, ok;
    char line[DESK_TEXT / 2];
    char answer[DESK_TEXT];
};
size_t desk_log_count(const struct desk *desk);
const struct desk_entry *desk_log(const struct desk *desk, size_t back);

#endif
