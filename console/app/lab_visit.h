/* From one scenario to the next, until the user has had enough. The console's only thread. */
#ifndef CONSOLE_LAB_VISIT_H
#define CONSOLE_LAB_VISIT_H

#include "console/app/program.h"

/*
 * Plays SCENARIO; NULL: one that is chosen from the list. OPTIONS are as for the server before, and
 * stay as they are. Returns the exit status; NEXT says what the user wants then.
 */
int lab_visit(const struct options *options, const struct lab_scenario *scenario,
              struct program_next *next);

#endif
