/*
 * The questions that the console asks before it changes the server (confirmations.def). They name
 * the change and what is lost. Any thread.
 */
#ifndef CONSOLE_CONFIRMATIONS_H
#define CONSOLE_CONFIRMATIONS_H

#include "console/data/watch.h"

#include <stdbool.h>
#include <stddef.h>

/* The index in command_table of the command that sets TUNABLE. */
int confirmation_command(enum tunable tunable);

/*
 * Writes the question for the command in WORDS, COUNT of them with its name. Returns false if the
 * table has none: the command changes nothing, or the daemon will reject its argument. *BY_RETURN:
 * Enter agrees as well as y.
 */
bool confirmation_question(const struct watch *watch, const char *const *words, int count,
                           char *question, size_t size, bool *by_return);

#endif
