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
 * Checks COUNT words, the first of them the command, and joins them into LINE in the syntax of the
 * protocol. Returns the command's index in command_table, or -1 with a message in WHY that has the
 * most similar command or the usage. Pure.
 */
int command_check(int count, const char *const *words, char *line, size_t line_size, char *why,
                  size_t size);

/*
 * The same for a server of another program, whose commands only it knows. COUNT is at least 1.
 * Returns 0 or -1.
 */
int command_join(int count, const char *const *words, char *line, size_t line_size, char *why,
                 size_t size);

enum { COMMAND_QUEUE_MAX = 16 };

/* Commands waiting for their answer; one at a time is sent. The console's only thread. */
struct command_queue;

struct command_queue *command_queue_create(void);
void command_queue_destroy(struct command_queue *queue); /* without calling the pending callbacks */

/* ANSWER is the daemon's line of JSON if OK, else the reason why there is none. */
typedef void command_then(void *context, bool ok, const char *answer);

/*
 * Queues LINE for the control socket at PATH; both are copied. THEN is called from
 * command_queue_update(), or immediately if the queue is full.
 */
void command_queue_add(struct command_queue *queue, const char *path, const char *line,
                       command_then *then, void *context);

/* Number of commands without an answer. */
unsigned command_queue_length(const struct command_queue *queue);

/* A descriptor to poll, or -1. */
int command_queue_descriptor(const struct command_queue *queue);

/*
 * Sends the next command and receives answers. Call it when the descriptor is readable, and at
 * every tick for the timeout.
 */
void command_queue_update(struct command_queue *queue, uint64_t now_ns);

#endif
