/*
 * What the files of the full-screen program share: its state, and the steps from a key to a change.
 * program.c starts, waits and ends; act.c acts on keys; pointer.c on the mouse; order.c on typed
 * commands; detail.c shows a row. The console's only thread.
 */
#ifndef CONSOLE_PROGRAM_PARTS_H
#define CONSOLE_PROGRAM_PARTS_H

#include "console/app/options.h"
#include "console/app/program.h"
#include "console/data/watch.h"
#include "console/scene/controller.h"
#include "console/ui/edit.h"
#include "console/ui/screen.h"
#include "console/ui/scroll.h"
#include "console/views/views.h"

#include <stdbool.h>
#include <stdint.h>

struct program {
    struct options *options;
    struct program_next *next;
    struct lab *lab; /* the scenario that is played, or NULL */
    bool lab_whole;  /* its panel takes the whole place */
    struct scroll lab_scroll;
    struct watch *watch;
    struct controller *controller;
    struct screen screen;
    int signals; /* signalfd */
    size_t view; /* which of view_table is shown */
    void *view_state[VIEW_COUNT];
    struct grid grid[VIEW_COUNT];
    struct filter filter, filter_before; /* the one in force; the one before it was edited */
    struct edit_history filters, commands;
    bool help;
    struct scroll help_scroll;
    bool detail; /* the selected row is shown whole */
    struct scroll detail_scroll, page_scroll;
    bool frozen;                             /* no sample is taken */
    size_t back;                             /* seconds before the frozen moment that are shown */
    double replay_at_ns;                     /* the moment of a recording that is shown */
    uint64_t replay_ns;                      /* when it was shown; monotonic clock */
    uint64_t next_sample_ns, next_glance_ns; /* UINT64_MAX: no glance is wanted */
    uint64_t started_ns;
    bool dirty, ending;
    int status;          /* of the process, if there is a failure */
    const char *failure; /* what ends the program, said when the terminal is given back; or NULL */
};

/* What the views are shown now. */
struct scene program_scene(struct program *program);

/* The grid of the view that is shown; its list is NULL where the view has none. */
struct grid *program_grid(struct program *program);

/* Ends the program in favour of the instance NAME; "": of one that is chosen then. Says why not. */
void program_turn_to(struct program *program, const char *name);

/* Ends the program in favour of SCENARIO; NULL: of one that is chosen then. Says why not. */
void program_turn_to_lab(struct program *program, const struct lab_scenario *scenario);

void program_show_view(struct program *program, size_t view);

/* A key by its curses code; the mouse; a line that was typed after ':'. */
void act_on_key(struct program *program, int code);
void pointer_act(struct program *program);
void order_open(struct program *program);

#endif
