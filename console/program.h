/*
 * The full-screen program: samples when a sample is due, draws when there is something new, and
 * waits for a key, a signal or the daemon's answer until the next one.
 */
#ifndef CONSOLE_PROGRAM_H
#define CONSOLE_PROGRAM_H

#include "console/options.h"

/* Runs until the user, a signal or the loss of the terminal ends it. Returns the exit status. */
int program_run(const struct options *options);

#endif
