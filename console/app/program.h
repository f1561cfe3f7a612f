/* The ways to run: the full-screen program, a single print, and a page. Single thread. */
#ifndef CONSOLE_PROGRAM_H
#define CONSOLE_PROGRAM_H

#include "console/app/options.h"

/* Runs sessions of servers and scenarios as the user chooses them. Returns the exit status. */
int program_run(struct options *options);

/*
 * For --once, --json and --csv: prints the views that OPTIONS select, from two samples 0.6 s apart
 * or from a recording; repeatedly with --batch. Returns the exit status: 0 done, 1 failed, 3 no
 * daemon.
 */
int once_run(const struct options *options);

/*
 * For --html: writes the recording as one HTML page that needs nothing else: the screens of all
 * views at every interval, and the marks. Returns the exit status.
 */
int page_run(struct options *options);

#endif
