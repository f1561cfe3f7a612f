/*
 * The scene: all data that views draw, for one moment, live, frozen, past or replayed. Views read
 * nothing else, so every view works for every kind of moment. Owned by the program; valid during
 * the call that receives it. The console's only thread.
 */
#ifndef CONSOLE_SCENE_H
#define CONSOLE_SCENE_H

#include "console/scene/controller.h"
#include "console/ui/filter.h"
#include "console/ui/graph.h"
#include "console/ui/grid.h"

#include <stdbool.h>
#include <stdint.h>

enum moment {
    MOMENT_LIVE,
    MOMENT_FROZEN, /* all data of the moment of freezing is known */
    MOMENT_PAST,   /* a second of the history: only sums, thread states and latency are known */
    MOMENT_REPLAY, /* of a recording: all data is known, nothing can be changed */
};

struct scene {
    enum moment moment;
    uint64_t wall_ns;              /* of the moment; later data must not be shown */
    const struct model *model;     /* model_now() is not NULL */
    const struct history *history; /* ends at the moment */
    const struct tail *tail;       /* may hold later lines: see tail_younger() */
    const struct top *top;
    const struct outcomes *outcomes;
    const struct event_list *events;
    const struct process_table *processes; /* of the last sample, even in MOMENT_PAST */
    const struct cache_list *cache;        /* same; current if the view wants WANT_CACHE */
    const struct client_list *clients;     /* same; current if the view wants WANT_CLIENTS */
    const char *config;                    /* configuration in force, as the text of a file */
    const char *origins;                   /* see watch_origins() */
    const struct filter *filter;           /* of all lists; grids apply it themselves */
    struct grid *grid;                     /* of the view's list; NULL: it has none */
    struct controller *controller;
    int span_s;             /* span of the graphs */
    enum graph_style style; /* of the graphs */
    bool ascii;             /* draw ASCII characters only */
};

/* The data that WATCH sampled last. The program sets the members after `origins`. */
struct scene scene_of(const struct watch *watch);

#endif
