/*
 * A guided scenario while it is played: its stage, the step that it is at, and what was measured. It
 * looks at the same scene as the views do, and never presses a key for the user. The console's only
 * thread.
 *
 *     ASKED --done--> MEASURED --window full--> EXPLAINED --L--> the next step's ASKED
 */
#ifndef CONSOLE_LAB_H
#define CONSOLE_LAB_H

#include "console/lab/scenario.h"
#include "console/scene/scene.h"

#include <stdbool.h>
#include <stddef.h>

struct lab;
struct view;

enum lab_phase { LAB_PENDING, LAB_MEASURING, LAB_EXPLAINED };

/* Sets the stage; takes a moment. Returns NULL with a sentence in WHY. */
struct lab *lab_open(const struct lab_scenario *scenario, char *why, size_t size);

/* Puts everything back. NULL is allowed. */
void lab_close(struct lab *lab);

/* The instance to watch, and its control socket; valid until lab_close(). */
const char *lab_instance(const struct lab *lab);
const char *lab_socket(const struct lab *lab);

/* Looks whether the step is done, and measures; after each sample. ENDED: the instance has gone. */
void lab_update(struct lab *lab, const struct scene *scene, const struct view *view, bool ended);

/* The key L: does what the step waits for, or goes on. False at the end of the last step, and when
 * the instance has gone: there is nothing more to see. */
bool lab_continue(struct lab *lab);

/* What the panel shows. */
struct lab_state {
    const struct lab_scenario *scenario;
    const struct lab_step *step;
    int number, count; /* of the step, from 1; of steps */
    enum lab_phase phase;
    double left_s;        /* MEASURED: until EXPLAINED, about */
    const double *before; /* by enum lab_measure, when the step was asked; NAN: not known */
    const double *now;    /* the same of the last seconds */
    const char *trouble;  /* what goes wrong on the stage, or NULL */
    bool ended;
};
struct lab_state lab_state(const struct lab *lab);

#endif
