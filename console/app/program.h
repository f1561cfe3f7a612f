/*
 * The full-screen program: samples when a sample is due, draws when there is something new, and
 * waits for a key, a signal or the daemon's answer until the next one.
 */
#ifndef CONSOLE_PROGRAM_H
#define CONSOLE_PROGRAM_H

#include "console/app/options.h"
#include "console/lab/player.h"

/* What the user wants to see instead, when the program has ended for that. */
struct program_next {
    bool wanted;
    char name[INSTANCE_NAME_MAX + 1]; /* of the instance; "": to be chosen from the list */
    const struct view *view;          /* that was shown */
    bool lab_wanted;                  /* a guided scenario instead of an instance: */
    const struct lab_scenario *lab;   /* this one; NULL: one chosen from their list */
    bool cut_off;                     /* a signal or the loss of the terminal was the end */
};

/*
 * Runs until the user, a signal or the loss of the terminal ends it, or the user wants to see
 * another instance: NEXT says so. What the user sets meanwhile is set in OPTIONS. LAB is the scenario
 * that is played (borrowed), or NULL. Returns the exit status.
 */
int program_run(struct options *options, struct lab *lab, struct program_next *next);

#endif
