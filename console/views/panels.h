/* Metric panels, shared by several views. */
#ifndef CONSOLE_PANELS_H
#define CONSOLE_PANELS_H

#include "console/scene/scene.h"

struct metric_panel {
    const char *title;
    enum series series;
    enum graph_unit unit;
    bool bad;                                   /* drawn in the tone of errors */
    double (*value)(const struct scene *scene); /* now; NAN: none */
    void (*detail)(const struct scene *scene, char *buffer, size_t size); /* one line */
};

extern const struct metric_panel panel_requests, panel_latency, panel_sent, panel_connections,
    panel_queue, panel_queue_wait, panel_errors, panel_cache;

/* SELECTED: the user has selected it. */
void metric_panel_draw(const struct metric_panel *panel, const struct scene *scene,
                       const struct canvas *canvas, bool selected);

#endif
