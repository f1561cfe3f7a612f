/* The answer to limit-client as text. Any thread. */
#ifndef CONSOLE_ANSWER_LIMITS_H
#define CONSOLE_ANSWER_LIMITS_H

#include <jansson.h>
#include <stdio.h>

/* Prints a line for each limit of ANSWER, whose strings are safe for a terminal. */
void answer_print_limits(const char *command, const json_t *answer, FILE *out);

#endif
