/*
 * The contract of a view. A view is one file: its state, its functions, and last a constant `struct
 * view`. It reads the scene and draws on its canvas; it knows neither terminal, segment nor clock.
 * The console's only thread.
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
    const char *name;        /* on its tab, and the argument of --once, --json and --csv */
    enum action action;      /* of the key that shows it */
    const char *empty;       /* shown while there is no data */
    const char *const *help; /* sentences for the help screen, NULL at the end */
    unsigned wants;          /* bits of enum wants (console/data/server_info.h) */
    unsigned rate_hz;        /* frames per second unless the user sets a rate; 0: the default */
    size_t state_size;       /* of the view's state, bytes; zeroed before use; 0: none */
    const struct list *list; /* or NULL */

    /* True if there is data to draw. NULL: always. */
    bool (*ready)(const struct scene *scene);
    /* Draws the whole canvas, of any size; a list with grid_draw(scene->grid, ...). May correct the
     * state, such as a scroll position out of range. */
    void (*draw)(void *state, const struct scene *scene, const struct canvas *canvas);
    /* Handles a key before the list and the frame do; returns false if it means nothing here. NULL:
     * no key does. */
    bool (*key)(void *state, const struct scene *scene, enum action action);
    /* Handles a click at Y, X of the screen before the list does; returns false if the view has
     * nothing there. NULL: it never has. */
    bool (*click)(void *state, const struct scene *scene, int y, int x);
    /* The content as text, or as a JSON object (the caller owns the reference). NULL: the rows of the
     * list; a view without a list has both. */
    void (*once)(void *state, const struct scene *scene, FILE *out);
    json_t *(*json)(void *state, const struct scene *scene);

    /* A descriptor to poll, or -1. NULL: none. */
    int (*descriptor)(void *state);
    /* Called after each sample and when the descriptor is readable, even if the view is hidden. NULL:
     * not needed. */
    void (*update)(void *state, const struct scene *scene);
    /* Frees what the state owns and ends the processes it started. NULL: nothing. */
    void (*release)(void *state);
};

#endif
