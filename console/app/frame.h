/*
 * One frame of the screen: the bar with the tabs, the line about the server, the view with its
 * overlays and popups, and the line at the bottom. Single thread.
 */
#ifndef CONSOLE_FRAME_H
#define CONSOLE_FRAME_H

#include "console/app/timeline.h"
#include "console/data/alerts.h"
#include "console/data/instances.h"
#include "console/lab/player.h"
#include "console/scene/scene.h"
#include "console/ui/dialog.h"
#include "console/ui/keys.h"
#include "console/ui/screen.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is open over the view. A page is open while the controller has one. */
struct overlays {
    bool help;
    bool detail; /* of the selected row */
    bool subject;
    bool lab; /* the panel of the scenario takes the place of the view */
    struct scroll subject_scroll, help_scroll, page_scroll, detail_scroll, lab_scroll;
};

struct frame {
    const struct source *source;
    const struct scene *scene;
    size_t view; /* index of view_table */
    void *view_state;
    struct overlays *overlays; /* drawing clamps their scroll positions */
    const struct timeline *timeline;
    const struct filter *subject; /* what overlays->subject shows the requests of */
    const char *page;             /* an answer of the daemon in several lines; NULL: none */
    const struct dialog *dialog;
    const struct lab_state *lab; /* NULL: no scenario is played */
    const char *restriction;     /* controller_restriction() */
    const struct replay *replay; /* NULL: the session is live */
    double speed;                /* of the replay */
    uint64_t recorded;           /* size of the recording made, bytes; 0: none */
    const char *adjusting;       /* an adjustment without an answer yet; NULL: none */
    unsigned calls_waiting;      /* commands without an answer */
    const char *message;         /* NULL: none */
    bool message_bad;
    const struct alert *alert; /* shown in the line about the server; NULL: none */
};

void frame_draw(const struct frame *frame, const struct screen *screen);

/* The action whose key is drawn at Y, X, in the bar or the foot; ACTION_NONE: none. */
enum action frame_action_at(const struct screen *screen, int y, int x);

/* The index of the view whose tab is drawn at line Y, column X; -1: none. */
int frame_view_at(const struct screen *screen, int y, int x);

/* A popup over the view: the details of the selected row, or a reply of the daemon. Single thread. */

/* Draws the details of the selected row over BODY. */
void popup_draw_row(struct scroll *scroll, const struct scene *scene, const struct canvas *body);

/* Draws TEXT over BODY. */
void popup_draw_text(struct scroll *scroll, const char *text, bool ascii,
                     const struct canvas *body);

#endif
