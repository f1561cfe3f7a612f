/*
 * The scene: all data that views draw, at one time: live, frozen, past or replayed. Views read
 * nothing else, so every view works in all four cases. Owned by the program; valid during the call
 * that receives it. The console's only thread.
 */
#ifndef CONSOLE_SCENE_H
#define CONSOLE_SCENE_H

#include "console/data/snapshot.h"
#include "console/scene/controller.h"
#include "console/ui/canvas.h"
#include "console/ui/filter.h"
#include "console/ui/graph.h"
#include "console/ui/grid.h"
#include "console/ui/keys.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum moment {
    MOMENT_LIVE,
    MOMENT_FROZEN, /* all data of the time of freezing is available */
    MOMENT_PAST,   /* a second of the history: only what the history keeps is available */
    MOMENT_REPLAY, /* a recording: all data is available; changes are rejected */
};

struct scene {
    enum moment moment;
    bool ended;                    /* the server stopped or died: this is its last sample */
    uint64_t wall_ns;              /* the time shown; views must not show later data */
    const struct model *model;     /* model_now() is not NULL */
    const struct history *history; /* ends at the time shown */
    const struct tail *tail;       /* may hold later lines: see tail_younger() */
    const struct top *top;         /* counts all requests, or those for the hosts of the filter */
    const struct subject *subject; /* shown over the view; NULL: none */
    const struct outcomes *outcomes;
    const struct event_list *events;
    const struct alerts *alerts; /* of the last sample, even in MOMENT_PAST */
    struct marks *marks;         /* views may add some; later ones than wall_ns are not shown */
    const struct process_table *processes; /* empty if they were not kept */
    /* Of the last sample, even in MOMENT_PAST; current if the view wants WANT_CACHE. */
    const struct cache_list *cache;
    const struct client_list *clients; /* same; current if the view wants WANT_CLIENTS */
    bool has_hosts;                    /* the server has [host] sections */
    const struct host_list *hosts;     /* same as cache; current if the view wants WANT_HOSTS */
    const struct certificate_list *certificates; /* those in use */
    const char *config;                          /* configuration in force, as the text of a file */
    const char *origins;                         /* see watch_origins() */
    const struct filter *filter; /* applies to all lists; grids apply it themselves */
    struct grid *grid;           /* shows the list of the view; NULL: it has none */
    struct controller *controller;
    int span_s;             /* span of the graphs */
    bool logarithmic;       /* the scale of the graphs */
    enum graph_style style; /* how graphs are drawn */
    bool ascii;             /* draw ASCII characters only */
};

/*
 * Returns a scene of the data that WATCH sampled last. The caller sets the members after `origins`.
 */
struct scene scene_of(const struct watch *watch);

/*
 * The sum of METRIC over all threads, its rate of the last second, and a figure: NAN if unknown or
 * not published.
 */
static inline double scene_sum(const struct scene *scene, enum metric metric)
{
    return model_value(scene->model, metric);
}

static inline double scene_rate(const struct scene *scene, enum metric metric)
{
    return model_rate(scene->model, metric);
}

static inline double scene_figure(const struct scene *scene, enum figure figure)
{
    return model_figure(scene->model, figure);
}

/* True if the server publishes the section. */
static inline bool scene_has(const struct scene *scene, enum segment_kind section)
{
    return !model_now(scene->model)->server.lacks_section[section];
}

/* False of a server of another program (include/wsboard.h). */
static inline bool scene_is_webserverd(const struct scene *scene)
{
    return scene_has(scene, SEGMENT_CONFIG);
}

/* VALUE as JSON; null for NAN and infinity. */
json_t *scene_json_number(double value);

/* A number that an operator of webserverd wants; null for another program, where nobody does. */
json_t *scene_json_wanted(const struct scene *scene, uint32_t wanted);

/* False in a replay, read-only or locked: views then offer no keys that change anything. */
bool scene_allows_changes(const struct scene *scene);

/*
 * The marks within the last SPAN_S seconds, as indices of the values of history_span(); MARKS has
 * GRAPH_MARKS_MAX places. Returns their number.
 */
size_t scene_marks(const struct scene *scene, int span_s, struct graph_mark *marks);

/*
 * The contract of a view. A view is one file with its state, its functions and, at the end, a
 * constant `struct view`. It reads only the scene and draws only on its canvas; it does not access
 * terminal, segment or clock. The console's only thread.
 */

/* A number of a view; the help explains it with the text of its metric or its figure, or TEXT. */
struct view_number {
    const char *label; /* as on the screen; NULL ends a list */
    enum { NUMBER_METRIC, NUMBER_FIGURE, NUMBER_TEXT } kind;
    int number;       /* enum metric or enum figure */
    const char *text; /* for NUMBER_TEXT */
};

#define METRIC_NUMBER(shown, metric)                                                               \
    {                                                                                              \
        .label = (shown), .kind = NUMBER_METRIC, .number = METRIC_##metric                         \
    }
#define FIGURE_NUMBER(shown, figure)                                                               \
    {                                                                                              \
        .label = (shown), .kind = NUMBER_FIGURE, .number = FIGURE_##figure                         \
    }
#define TEXT_NUMBER(shown, words)                                                                  \
    {                                                                                              \
        .label = (shown), .kind = NUMBER_TEXT, .text = (words)                                     \
    }
#define NUMBERS_END                                                                                \
    {                                                                                              \
        .label = NULL                                                                              \
    }

/* What a key does in a view, in a word or two, for the last line and the menu. */
struct view_hint {
    enum action action;
    const char *brief;
    bool changes; /* the server */
    enum {
        HINT_ALWAYS,
        HINT_ROWS,    /* it works only if the list has rows */
        HINT_SELECTED /* it works only while a row is selected */
    } works;
};

struct view {
    const char *name;       /* shown on its tab; the argument of --once, --json and --csv */
    const char *short_name; /* shown where the tab has no room for the name; NULL: the name */
    enum action action;     /* the action that shows the view */
    const char *empty;      /* shown while there is no data */
    const struct view_hint *hints; /* ended by an empty `brief`; NULL: none */
    /* The hints at present, instead of `hints`. NULL: they are always the same. */
    const struct view_hint *(*hints_now)(const void *state, const struct scene *scene);
    const struct view_number *numbers; /* NULL: none */
    const char *const *help;           /* sentences for the help screen, NULL at the end */
    unsigned wants;                    /* bits of enum wants (console/data/server_info.h) */
    bool server_keys;         /* the last line has the keys that change the sizes of the server */
    bool has_span;            /* it shows the time range that the user chooses */
    unsigned rate_hz;         /* frames per second unless the user sets a rate; 0: the default */
    size_t state_size;        /* bytes of state that the view keeps, zeroed before use */
    const struct list *list;  /* the first one shown; or NULL */
    const struct list *lists; /* all of them, if there are several */
    size_t list_count;

    /* A number to show on its tab; 0: none. NULL: never. */
    size_t (*badge)(const struct scene *scene);
    enum segment_kind section; /* shows its data; no tab without it. 0: the view needs none */
    /* True if the view has no tab, because it does not concern the server. NULL: never. */
    bool (*hidden)(const struct scene *scene);
    /* True if there is data to draw. NULL: always. */
    bool (*ready)(const struct scene *scene);
    /* Draws the whole canvas, of any size; a list with grid_draw(scene->grid, ...). May correct the
     * state, such as a scroll position out of range. */
    void (*draw)(void *state, const struct scene *scene, const struct canvas *canvas);
    /*
     * Handles a key before the list and the program do; returns false if the view does not use it.
     * NULL: the view uses no keys.
     */
    bool (*key)(void *state, const struct scene *scene, enum action action);
    /*
     * Handles a click at Y, X of the screen before the list does; returns false if the view does
     * not use it. NULL: the view uses no clicks.
     */
    bool (*click)(void *state, const struct scene *scene, int y, int x);
    /*
     * The content as text, or as a JSON object (the caller owns the reference). NULL: the rows of
     * the list; a view without a list has both.
     */
    void (*once)(void *state, const struct scene *scene, FILE *out);
    json_t *(*json)(void *state, const struct scene *scene);

    /* A descriptor to poll, or -1. NULL: none. */
    int (*descriptor)(void *state);
    /*
     * Called after each sample and when the descriptor is readable, even if the view is hidden.
     * NULL: not needed.
     */
    void (*update)(void *state, const struct scene *scene);
    /* The question to ask before the console ends something that this view has started; NULL: none.
     * NULL as the function: never. */
    const char *(*unfinished)(void *state);
    /* Frees what the state owns and ends the processes it started. NULL: nothing. */
    void (*release)(void *state);
};

/*
 * A server in a few lines: its identity and sizes (summary_*), and the strip: one state letter per
 * serving thread, by worker, with a legend (strip_*). Single thread.
 */

/*
 * Appends an item to LINE (SIZE bytes), separated by two spaces, if the line then has at most WIDTH
 * characters. Earlier items thus have priority.
 */
void summary_append(char *line, size_t size, int width, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Appends the item "threads 3/4", or "threads 3" of a server that wants no number of them. */
void summary_append_threads(char *line, size_t size, int width, uint32_t actual, uint32_t wanted);

/*
 * The same, but once an item does not fit, the line ends with the number of items left out: "+3".
 */
void summary_add(char *line, size_t size, int width, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "threads 4 of 4 (2 in each)", "workers 2 of 2" and so on, up to WIDTH. */
void summary_processes(const struct snapshot *now, char *line, size_t size, int width);

/* "up 3h 12m", "pid 1234", "on 127.0.0.1:8080", "version 0.2.0", up to WIDTH. */
void summary_identity(const struct snapshot *now, char *line, size_t size, int width);

/*
 * Sorts the existing threads by worker and number: *SORTED becomes an array of pointers into NOW,
 * valid until the next call. Returns their number.
 */
uint32_t strip_sorted(const struct snapshot *now, const struct thread_sample *const **sorted);

/* The tone of a thread state: work is good, waiting for others warn or bad, idle dim. */
enum tone strip_tone(uint32_t state);

/* Draws the letters from line Y on, in at most LINES lines; returns the number used. */
int strip_draw(const struct canvas *canvas, int y, int lines, const struct snapshot *now);

/* Draws the legend from line Y on, in at most LINES lines; returns the number used. */
int strip_draw_legend(const struct canvas *canvas, int y, int lines, const struct snapshot *now);

/* Prints both as text. */
void strip_print(FILE *out, const struct snapshot *now);

#endif
