/* The full-screen program: one session after another. Single thread. */
#ifndef CONSOLE_PROGRAM_H
#define CONSOLE_PROGRAM_H

#include "console/app/options.h"

/* Runs sessions of servers and scenarios as the user chooses them. Returns the exit status. */
int program_run(struct options *options);

#endif
