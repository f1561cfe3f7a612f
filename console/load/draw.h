/*
 * Draws a load run (the numbers of client and server, and both as plots on one time axis with marks
 * for changes), the comparison of two runs, and the form for a new one. Single thread.
 */
#ifndef CONSOLE_LOAD_DRAW_H
#define CONSOLE_LOAD_DRAW_H

#include "console/load/run.h"
#include "console/scene/scene.h"

enum { LOAD_TOTALS = 5 }; /* lines that most runs need */

/* Lines that load_draw_totals() needs at this WIDTH, with the note wrapped. */
int load_draw_totals_lines(const struct load_run *run, int width);

/* Progress, client, server, the check of both counts, and the note. */
void load_draw_totals(const struct load_run *run, const struct scene *scene,
                      const struct canvas *canvas);

/* Rate and p99 over time, stacked or side by side, and the legend of the marks. */
void load_draw_plots(const struct load_run *run, const struct scene *scene,
                     const struct canvas *canvas);

/* Needs LOAD_DIFFERENCES + 2 lines. */
void load_draw_comparison(const struct load_entry *before, const struct load_entry *after,
                          const struct canvas *canvas);

/* The set of keys that the line above the form lists. */
enum load_hints {
    LOAD_HINTS_NO_CHANGES,
    LOAD_HINTS_FORM,
    LOAD_HINTS_RUNNING,
    LOAD_HINTS_RUNS,
    LOAD_HINTS
};

/* The place of the form in the last frame; all zero: not drawn. */
struct load_form {
    struct canvas fields, hints;
    int first; /* field on the first line */
    enum load_hints offered;
};

void load_form_draw(struct load_form *form, const struct load_settings *settings, int field,
                    const struct scene *scene, const struct canvas *canvas);
void load_form_draw_hints(struct load_form *form, enum load_hints offered,
                          const struct canvas *canvas);

/* The field at line Y, column X of the screen, or -1. */
int load_form_field_at(const struct load_form *form, int y, int x);

/* The action of the hint at line Y, column X of the screen, or ACTION_NONE. */
enum action load_form_action_at(const struct load_form *form, int y, int x);

#endif
