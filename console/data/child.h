/*
 * A child process (wsload, webserverd -t) with pipes for its output, its progress and commands to
 * it. Nothing blocks. The child never outlives the console. The console's only thread.
 */
#ifndef CONSOLE_CHILD_H
#define CONSOLE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CHILD_CONTROL_FD = 3, CHILD_LINE_BYTES = 4096, CHILD_OUTPUT_BYTES = 256 * 1024 };

struct child {
    pid_t pid;                   /* 0: not running */
    int progress;                /* its standard error; -1: closed */
    int output;                  /* its standard output */
    int control;                 /* its descriptor CHILD_CONTROL_FD */
    char line[CHILD_LINE_BYTES]; /* incomplete line of progress */
    size_t line_length;
    char *text; /* standard output so far; CHILD_OUTPUT_BYTES */
    size_t output_length;
};

/* Initialises *CHILD: not running, no descriptors. */
void child_init(struct child *child);

/*
 * Starts ARGV[0], searched for in the directory of this program, then in PATH. Returns 0, or -1
 * with a message in WHY.
 */
int child_start(struct child *child, const char *const *argv, char *why, size_t size);

/* A descriptor to poll; -1: not running. */
int child_descriptor(const struct child *child);

/*
 * Reads what is available; calls TAKE for each complete line of standard error. Returns true once
 * the process has ended and all output is read: *STATUS is its exit status (128 + signal if it was
 * killed), and its standard output stays in `text` until the next start.
 */
bool child_update(struct child *child, void (*take)(void *context, const char *line), void *context,
                  int *status);

/* Sends a command line such as "rate 500". False if it cannot be sent. */
bool child_send(struct child *child, const char *line);

/* Sends SIGINT: the child ends in order. */
void child_stop(struct child *child);

/* Kills it and frees everything. */
void child_release(struct child *child);

#endif
