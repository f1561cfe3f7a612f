/* The event loop of a session. Single thread. */
#ifndef CONSOLE_LOOP_H
#define CONSOLE_LOOP_H

#include "console/app/session.h"

/*
 * Runs a session until the user, a signal or the loss of the terminal ends it. LAB is the scenario
 * to play (borrowed), or NULL. Settings that the user changes are written to OPTIONS. NEXT receives
 * the session that the user chose to follow. Returns the exit status; errors are printed.
 */
int loop_run(struct options *options, struct lab *lab, struct session_next *next);

#endif
