/* --once, --json and --csv: prints views and exits. Single thread. */
#ifndef CONSOLE_ONCE_H
#define CONSOLE_ONCE_H

#include "console/app/options.h"

/*
 * Prints the views that OPTIONS select, from two samples 0.6 s apart or from a recording;
 * repeatedly with --batch. Returns the exit status: 0 done, 1 failed, 3 no daemon.
 */
int once_run(const struct options *options);

#endif
