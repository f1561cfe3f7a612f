/*
 * The whole picture: the line of views, the line about the server, the view (or help, or why there
 * is nothing), and the line at the bottom. The console's only thread.
 */
#ifndef CONSOLE_PICTURE_H
#define CONSOLE_PICTURE_H

#include "console/data/instances.h"
#include "console/data/replay.h"
#include "console/lab/player.h"
#include "console/ui/dialog.h"
#include "console/ui/screen.h"
#include "console/ui/scroll.h"
#include "console/views/views.h"

#include <stdbool.h>
#include <stdint.h>

/* What the picture is made from; filled by the program. */
struct picture {
    const struct source *source;
    const struct scene *scene;
    const struct view *view;
    void *view_state;
    struct scroll *help;   /* NULL: help is not shown */
    struct scroll *detail; /* of the selected row; NULL: not shown */
    const char *page;      /* of an answer; NULL: none */
    struct scroll *page_scroll;
    const struct dialog *dialog;
    const struct lab_state *lab; /* the scenario's; NULL: none is played */
    struct scroll *lab_whole;    /* its panel takes the view's place; NULL: it does not */
    bool readonly;
    size_t back; /* seconds before the frozen moment */
    bool frozen;
    const struct replay *replay; /* NULL: no recording is watched */
    double speed;                /* of the replay */
    uint64_t recorded;           /* bytes of the recording that is made; 0: none is */
    const char *asked;           /* of the daemon and not answered yet; NULL: nothing */
    unsigned waiting;            /* calls without an answer */
    const char *message;         /* NULL: none to show */
    bool message_bad;
};

void picture_draw(const struct picture *picture, const struct screen *screen);

/* The number of the view whose tab is at the screen's line Y and column X while VIEW is shown; or
 * -1. */
int picture_view_at(const struct screen *screen, const struct view *view, int y, int x);

#endif
