/*
 * A panel: one number, a line about it, and its past as a graph with scale, span and peak. A panel
 * is data; drawing is the same for all. It makes the best of any size: one line becomes name,
 * number and a small graph.
 */
#ifndef CONSOLE_PANEL_H
#define CONSOLE_PANEL_H

#include "console/scene/view.h"

enum { PANEL_TEXT = 96, PANEL_FULL_HEIGHT = 6 };

struct panel {
    const char *title;
    enum series series;
    enum graph_unit unit;
    double (*value)(const struct scene *scene);                           /* now; NAN: none */
    void (*detail)(const struct scene *scene, char *buffer, size_t size); /* one line */
};

void panel_draw(const struct panel *panel, const struct scene *scene, const struct canvas *canvas);

/* A number of the panel's unit as text. */
char *panel_number(const struct panel *panel, double value, char *buffer);

#endif
