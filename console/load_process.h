/*
 * wsload as a process: started with its own pipes, read without ever waiting, told to change its
 * pace, stopped. It never outlives the console. The console's only thread.
 */
#ifndef CONSOLE_LOAD_PROCESS_H
#define CONSOLE_LOAD_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { LOAD_CONTROL_FD = 3, LOAD_LINE_BYTES = 4096, LOAD_REPORT_BYTES = 256 * 1024 };

struct load_process {
    pid_t pid;                  /* 0: none runs */
    int progress;               /* its standard error; -1 when closed */
    int output;                 /* its standard output */
    int control;                /* its descriptor LOAD_CONTROL_FD */
    char line[LOAD_LINE_BYTES]; /* a line that is not whole yet */
    size_t line_length;
    char *report; /* LOAD_REPORT_BYTES */
    size_t report_length;
};

/* All zero but the descriptors: nothing runs. */
void load_process_init(struct load_process *process);

/*
 * Starts wsload with ARGV: the one beside this program, else the one in PATH. Returns 0, or -1 with a
 * sentence in WHY.
 */
int load_process_start(struct load_process *process, const char *const *argv, char *why,
                       size_t size);

/* What to wait for; -1 when nothing runs. */
int load_process_descriptor(const struct load_process *process);

/*
 * Takes what has come. Each whole progress line is handed to TAKE. Returns true when the process has
 * ended and everything was read: *STATUS is then its exit status (128 + signal if it was killed),
 * and the report is there until the next start.
 */
bool load_process_update(struct load_process *process,
                         void (*take)(void *context, const char *line), void *context, int *status);

/* Sends a line ("rate 500") to its control descriptor. False when it can't be taken. */
bool load_process_tell(struct load_process *process, const char *line);

/* Asks it to end in order; it then reports what was done so far. */
void load_process_stop(struct load_process *process);

/* Ends it at once and frees everything. */
void load_process_release(struct load_process *process);

#endif
