/*
 * The whole picture: the line of views, the line about the server, the view (or help, or why there
 * is nothing), and the line at the bottom. The console's only thread.
 */
#ifndef CONSOLE_PICTURE_H
#define CONSOLE_PICTURE_H

#include "console/screen.h"
#include "console/scroll.h"
#include "console/source.h"
#include "console/view.h"

#include <stdbool.h>
#include <stdint.h>

/* What the picture is made from; filled by the program. */
struct picture {
    const struct source *source;
    const struct scene *scene;
    const struct view *view;
    void *view_state;
    struct scroll *help; /* NULL: help is not shown */
    bool readonly;
    uint64_t frozen_at_ns;  /* wall clock; 0: not frozen */
    uint32_t threads_asked; /* in each worker, not answered yet; 0: nothing is */
    const char *message;    /* NULL: none to show */
    bool message_bad;
};

void picture_draw(const struct picture *picture, const struct screen *screen);

#endif
