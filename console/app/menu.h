/* The full-screen menus: running instances and guided scenarios. Single thread. */
#ifndef CONSOLE_MENU_H
#define CONSOLE_MENU_H

#include "console/app/options.h"
#include "console/lab/scenario.h"

#include <stddef.h>

enum menu_result {
    MENU_CHOSEN,
    MENU_LEFT,        /* the user chose nothing */
    MENU_INTERRUPTED, /* by a signal or the loss of the terminal */
    MENU_FAILED,      /* WHY has the reason */
};

/* Sets the name in OPTIONS to the only running instance, or to the one chosen from the menu. If
 * the name was given, or no instance runs, it is unchanged and the result is MENU_CHOSEN. */
enum menu_result menu_choose_instance(struct options *options, char *why, size_t size);

/* Replaces the name in OPTIONS by one chosen from the menu. MENU_CHOSEN also when the user leaves:
 * the name then stays. */
enum menu_result menu_choose_other_instance(struct options *options, char *why, size_t size);

enum menu_result menu_choose_scenario(const struct options *options,
                                      const struct lab_scenario **scenario, char *why, size_t size);

#endif
