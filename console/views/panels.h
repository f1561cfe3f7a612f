/* The panels that there are; views choose among them. */
#ifndef CONSOLE_PANELS_H
#define CONSOLE_PANELS_H

#include "console/ui/panel.h"

extern const struct panel panel_requests, panel_latency, panel_sent, panel_connections,
    panel_errors, panel_cache;

#endif
