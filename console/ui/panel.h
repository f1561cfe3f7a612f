/*
 * A panel: one number, a line about it, and its history as a graph with scale, span and peak. It
 * adapts to any size; a single line shows title, number and a small graph. The console's only thread.
 */
#ifndef CONSOLE_PANEL_H
#define CONSOLE_PANEL_H

#include "console/ui/canvas.h"
#include "console/ui/graph.h"

#include <stddef.h>

enum { PANEL_TEXT = 96, PANEL_FULL_HEIGHT = 6 };

struct panel {
    const char *title;
    enum graph_unit unit;
    enum graph_style style;
    double now;           /* NAN: none */
    const double *values; /* one per second, the newest last; NAN and gaps as in graph_draw() */
    size_t count;         /* seconds */
    const char *detail;   /* one line below the title */
};

void panel_draw(const struct panel *panel, const struct canvas *canvas);

#endif
