/*
 * Plays a guided scenario: manages its test bed, the current step, and the measures. It reads the
 * same scene as the views and never presses keys for the user. Single thread.
 *
 *     PENDING --condition holds--> MEASURING --window full--> EXPLAINED --G--> PENDING (next step)
 */
#ifndef CONSOLE_LAB_PLAYER_H
#define CONSOLE_LAB_PLAYER_H

#include "console/lab/scenario.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/keys.h"

#include <stdbool.h>
#include <stddef.h>

struct lab;

enum lab_phase { LAB_PENDING, LAB_MEASURING, LAB_EXPLAINED };

/*
 * Starts the test bed, which takes about a second. Each step measures for STEP_MS. Returns NULL
 * with an error message in WHY.
 */
struct lab *lab_open(const struct lab_scenario *scenario, uint64_t step_ms, char *why, size_t size);

/* Stops and removes the test bed. NULL is allowed. */
void lab_close(struct lab *lab);

/* Valid until lab_close(). SOCKET is NULL if the segment has it. */
const char *lab_instance(const struct lab *lab, const char **socket);

/*
 * Call after each sample: checks the condition of the step, and measures. ENDED: the server exited.
 */
void lab_update(struct lab *lab, const struct scene *scene, const struct view *view, bool ended);

/*
 * Handles key L: completes a step that waits for it, or goes to the next step. Returns false after
 * the last step, and if the server exited.
 */
bool lab_continue(struct lab *lab);

/* State of a scenario, for the panel. */
struct lab_state {
    const struct lab_scenario *scenario;
    const struct lab_step *step;
    int number, count; /* step, from 1; number of steps */
    enum lab_phase phase;
    double left_s;        /* MEASURING: approximate seconds until EXPLAINED */
    const double *before; /* indexed by enum lab_measure: at the start of the step; NAN: unknown */
    const double *now;    /* indexed by enum lab_measure */
    const char *error;    /* an error of the test bed; NULL: none */
    bool ended;
};
struct lab_state lab_state(const struct lab *lab);

/*
 * The panel of a scenario: instruction, what to watch, measures, and explanation. It is beside the
 * view on a wide screen, else below it or in its place. Single thread.
 */

/* Divides BODY between view and panel. VIEW gets height 0 if WHOLE, or if both do not fit. */
void lab_panel_layout(const struct canvas *body, bool whole, struct canvas *view,
                      struct canvas *panel);

/* SCROLL NULL: lines that do not fit are omitted, with a hint. */
void lab_panel_draw(const struct lab_state *state, const struct canvas *panel,
                    struct scroll *scroll, bool ascii);

#endif
