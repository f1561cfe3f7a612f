/*
 * Another program of ours as a process (wsload, webserverd -t): started with pipes of its own, read
 * without ever waiting, told things, stopped. It never outlives the console. The console's only
 * thread.
 */
#ifndef CONSOLE_CHILD_H
#define CONSOLE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CHILD_CONTROL_FD = 3, CHILD_LINE_BYTES = 4096, CHILD_OUTPUT_BYTES = 256 * 1024 };

struct child {
    pid_t pid;                   /* 0: none runs */
    int progress;                /* its standard error; -1 when closed */
    int output;                  /* its standard output */
    int control;                 /* its descriptor CHILD_CONTROL_FD */
    char line[CHILD_LINE_BYTES]; /* a line that is not whole yet */
    size_t line_length;
    char *text; /* of its standard output, CHILD_OUTPUT_BYTES */
    size_t output_length;
};

/* All zero but the descriptors: nothing runs. */
void child_init(struct child *child);

/*
 * Starts ARGV[0] with ARGV: the one beside this program, else the one in PATH. Returns 0, or -1 with a
 * sentence in WHY.
 */
int child_start(struct child *child, const char *const *argv, char *why, size_t size);

/* What to wait for; -1 when nothing runs. */
int child_descriptor(const struct child *child);

/*
 * Takes what has come. Each whole line of its standard error is handed to TAKE. Returns true when the process has
 * ended and everything was read: *STATUS is then its exit status (128 + signal if it was killed),
 * and what it wrote to its standard output is there until the next start.
 */
bool child_update(struct child *child, void (*take)(void *context, const char *line), void *context,
                  int *status);

/* Sends a line ("rate 500") to its control descriptor. False when it can't be taken. */
bool child_tell(struct child *child, const char *line);

/* Asks it to end in order: SIGINT. */
void child_stop(struct child *child);

/* Ends it at once and frees everything. */
void child_release(struct child *child);

#endif
