/*
 * A view is one file: its state, a few small functions, and last a constant of operations. Views
 * are told everything by a scene, draw on the canvas that they are given, and know neither
 * terminal, segment nor clock. The console's only thread.
 */
#ifndef CONSOLE_VIEW_H
#define CONSOLE_VIEW_H

#include "console/canvas.h"
#include "console/graph.h"
#include "console/history.h"
#include "console/keys.h"
#include "console/model.h"
#include "console/tail.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* All that there is to see at one moment. Owned by the program; valid during the call. */
struct scene {
    const struct model *model; /* model_now() is not NULL */
    const struct history *history;
    const struct tail *tail;
    int span_s;             /* seconds that a graph reaches back */
    enum graph_style style; /* of graphs */
    bool ascii;             /* nothing but ASCII may be drawn */
};

struct view {
    const char *name;     /* on the tab, and after --once and --json */
    enum request request; /* the key that shows it */
    const char *empty;    /* what is said when there is nothing to show yet */
    size_t state_size;    /* bytes of state; zeroed at first; 0: none */

    /* True when there is something to draw; NULL: always. */
    bool (*ready)(const struct scene *scene);
    /* Draws all of it, whatever the canvas's size. May set its state right (a scroll too far). */
    void (*draw)(void *state, const struct scene *scene, const struct canvas *canvas);
    /* Acts on a key; returns false when the key means nothing here. NULL: no key does. */
    bool (*key)(void *state, const struct scene *scene, enum request request);
    /* The same rows as text, or as an object of JSON (the caller owns the reference). */
    void (*once)(const struct scene *scene, FILE *out);
    json_t *(*json)(const struct scene *scene);
};

#define VIEW(name) extern const struct view view_##name;
#include "console/views.def"
#undef VIEW

enum {
#define VIEW(name) VIEW_NUMBER_##name,
#include "console/views.def"
#undef VIEW
    VIEW_COUNT
};

/* All views in the order of their tabs. */
extern const struct view *const view_table[VIEW_COUNT];

/* The view called NAME, or NULL. */
const struct view *view_named(const char *name);

#endif
