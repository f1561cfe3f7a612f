/*
 * The alerts of a session: evaluates the rules after each sample. A change of an alert becomes a mark, an
 * event and a record; a beginning rings the bell; both run the program of the settings. Single thread.
 */
#ifndef CONSOLE_ALARM_H
#define CONSOLE_ALARM_H

#include "console/data/alerts.h"
#include "console/data/watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { ALARM_PROGRAMS = 8 };

struct alarm {
    struct alerts alerts;
    pid_t program[ALARM_PROGRAMS]; /* running; 0: none */
};

/*
 * Evaluates all rules for the last sample of WATCH. Runs COMMAND ("": none) with the facts in its
 * environment: WSCONSOLE_ALERT (the rule), WSCONSOLE_STATE (began, ended), WSCONSOLE_VALUE,
 * WSCONSOLE_INSTANCE. Returns true if an alert has begun.
 */
bool alarm_update(struct alarm *alarm, struct watch *watch, const char *command, uint64_t now_ns,
                  uint64_t wall_ns);

/* Writes the rules with their values, and the history, newest first, for a popup. */
void alarm_print(const struct alarm *alarm, const struct model *model, char *text, size_t size);

#endif
