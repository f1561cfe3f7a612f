/* The list of guided scenarios, to choose one from. The console's only thread. */
#ifndef CONSOLE_LAB_MENU_H
#define CONSOLE_LAB_MENU_H

#include "console/app/options.h"
#include "console/lab/scenario.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Shows the list until one is chosen. Returns it; or NULL when the user leaves, with WHY "" and
 * CUT_OFF set when a signal or the loss of the terminal made them; or NULL with WHY when it can't.
 */
const struct lab_scenario *lab_menu_run(const struct options *options, bool *cut_off, char *why,
                                        size_t size);

#endif
