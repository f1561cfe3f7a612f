/*
 * All that there is to see at one moment: live, frozen, gone by, or replayed. Views draw from
 * nothing else, so whatever shows the present shows the past as well. Owned by the program; valid
 * during the call that it is handed to. The console's only thread.
 */
#ifndef CONSOLE_SCENE_H
#define CONSOLE_SCENE_H

#include "console/data/cache_list.h"
#include "console/data/client_list.h"
#include "console/data/event_list.h"
#include "console/data/history.h"
#include "console/data/model.h"
#include "console/data/outcomes.h"
#include "console/data/processes.h"
#include "console/data/tail.h"
#include "console/data/top.h"
#include "console/scene/controller.h"
#include "console/ui/filter.h"
#include "console/ui/graph.h"
#include "console/ui/grid.h"

#include <stdbool.h>
#include <stdint.h>

enum moment {
    MOMENT_LIVE,
    MOMENT_FROZEN, /* as it was when it was frozen: everything is known */
    MOMENT_PAST,   /* a second of the history: sums, letters and latency are known, no more */
    MOMENT_REPLAY, /* of a recording: everything is known, nothing can be changed */
};

struct scene {
    enum moment moment;
    uint64_t wall_ns;              /* of the moment: what is younger is not to be shown */
    const struct model *model;     /* model_now() is not NULL */
    const struct history *history; /* ends at the moment */
    const struct tail *tail;       /* see tail_younger() */
    const struct top *top;
    const struct outcomes *outcomes;
    const struct event_list *events;
    const struct process_table *processes; /* of the last sample, not of a second gone by */
    const struct cache_list *cache;        /* the same; read when WANT_CACHE */
    const struct client_list *clients;     /* the same; read when WANT_CLIENTS */
    const char *config;                    /* in force, as a file */
    const char *origins;                   /* see watch_origins() */
    const struct filter *filter;           /* of all lists; grids obey it by themselves */
    struct grid *grid;                     /* of the view's list, if it has one */
    struct controller *controller;         /* to change something, to ask, to say */
    int span_s;                            /* seconds that a graph reaches back */
    enum graph_style style;                /* of graphs */
    bool ascii;                            /* nothing but ASCII may be drawn */
};

struct watch;

/* The scene of what WATCH has taken last; the program adds what is not of the server. */
struct scene scene_of(const struct watch *watch);

#endif
