/* Commands as typed, checked against common/commands.def before anything is sent. Pure. */
#ifndef CONSOLE_COMMANDS_H
#define CONSOLE_COMMANDS_H

#include <stddef.h>

/*
 * Checks COUNT words, the first being the command, and joins them into LINE as the protocol wants
 * them. Returns the command's position in command_table, or -1 with a sentence in WHY that names
 * the nearest known command, or what the command takes.
 */
int command_check(int count, const char *const *words, char *line, size_t line_size, char *why,
                  size_t size);

#endif
