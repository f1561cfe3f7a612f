/*
 * A view is one file: its state, a few small functions, and last a constant of operations. Views
 * are told everything by a scene, draw on the canvas that they are given, and know neither
 * terminal, segment nor clock. The console's only thread.
 */
#ifndef CONSOLE_VIEW_H
#define CONSOLE_VIEW_H

#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/grid.h"
#include "console/ui/keys.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct view {
    const char *name;        /* on the tab, and after --once, --json and --csv */
    enum action action;      /* the key that shows it */
    const char *empty;       /* what is said when there is nothing to show yet */
    const char *const *help; /* sentences about the view for the help; NULL ends them */
    unsigned wants;          /* bits of enum wants in console/data/server_info.h */
    unsigned rate_hz;        /* pictures a second it wants where none are asked for; 0: the usual */
    size_t state_size;       /* bytes of state; zeroed at first; 0: none */
    const struct list *list; /* the view's list, or NULL: see console/ui/list.h */

    /* True when there is something to draw; NULL: always. */
    bool (*ready)(const struct scene *scene);
    /* Draws all of it, whatever the canvas's size; the list by grid_draw(scene->grid, ...). May set
     * its state right (a scroll too far). */
    void (*draw)(void *state, const struct scene *scene, const struct canvas *canvas);
    /* Acts on a key, before list and frame; returns false when the key means nothing here. NULL: no
     * key does. */
    bool (*key)(void *state, const struct scene *scene, enum action action);
    /* Acts on a click at a place of the screen, before the list; returns false when nothing of the
     * view's own is there. NULL: nothing is. */
    bool (*click)(void *state, const struct scene *scene, int y, int x);
    /* What is drawn as text, or as an object of JSON (the caller owns the reference). NULL: the rows of
     * the list; a view without a list has both. */
    void (*once)(void *state, const struct scene *scene, FILE *out);
    json_t *(*json)(void *state, const struct scene *scene);

    /* A descriptor to wait for, or -1; NULL: none. */
    int (*descriptor)(void *state);
    /* Called after each sample and when the descriptor is readable, shown or not. NULL: need not. */
    void (*update)(void *state, const struct scene *scene);
    /* Gives back what the state holds; what it started ends. NULL: nothing. */
    void (*release)(void *state);
};

#endif
