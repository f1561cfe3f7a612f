/*
 * Commands to the daemon: checked before they are sent, then sent to the control socket without
 * blocking.
 */
#ifndef CONSOLE_COMMANDS_H
#define CONSOLE_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Checks COUNT words, the first being the command, and joins them into LINE as the protocol wants
 * them. Returns the command's position in command_table, or -1 with a sentence in WHY that names
 * the nearest known command, or what the command takes.
 */
int command_check(int count, const char *const *words, char *line, size_t line_size, char *why,
                  size_t size);

enum { CALLER_QUEUE = 16 };

struct caller;

struct caller *caller_create(void);
void caller_destroy(struct caller *caller); /* calls that are out are not answered any more */

/* OK tells the daemon's line of JSON from a sentence on why none came. */
typedef void caller_then(void *context, bool ok, const char *answer);

/*
 * Sends LINE to the control socket at PATH, both copied. THEN is called from caller_update(), but
 * at once, with a sentence, when the queue is full.
 */
void caller_call(struct caller *caller, const char *path, const char *line, caller_then *then,
                 void *context);

/* Calls that are not answered yet. */
unsigned caller_waiting(const struct caller *caller);

/* A descriptor to wait for, or -1. */
int caller_descriptor(const struct caller *caller);

/* Fetches what has come. When the descriptor is readable, and now and then for the deadline. */
void caller_update(struct caller *caller, uint64_t now_ns);

#endif
