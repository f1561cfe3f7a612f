/*
 * One session of the full-screen console: a server, a recording or a guided scenario on one
 * terminal. session.c owns the state; loop.c samples and draws, input.c acts on keys and the mouse,
 * prompt.c on typed commands. Single thread.
 */
#ifndef CONSOLE_SESSION_H
#define CONSOLE_SESSION_H

#include "common/instance.h"
#include "console/app/alarm.h"
#include "console/app/frame.h"
#include "console/app/options.h"
#include "console/app/timeline.h"
#include "console/data/watch.h"
#include "console/lab/player.h"
#include "console/scene/controller.h"
#include "console/ui/dialog.h"
#include "console/ui/grid.h"
#include "console/ui/screen.h"
#include "console/views/views.h"

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_NO_DAEMON = 3 };

/* The session that follows, if the user ended this one by choosing another. */
struct session_next {
    bool wanted;                      /* another instance */
    char name[INSTANCE_NAME_MAX + 1]; /* "": chosen from the menu */
    bool lab_wanted;                  /* a guided scenario */
    const struct lab_scenario *lab;   /* NULL: chosen from the menu */
    const struct view *view;          /* the last one shown */
    bool interrupted;                 /* by a signal or the loss of the terminal */
};

struct session {
    struct options *options; /* borrowed; :set changes them */
    struct session_next *next;
    struct lab *lab; /* borrowed; NULL: no scenario is played */
    struct watch *watch;
    struct controller *controller;
    struct alarm alarm;
    struct screen screen;
    struct timeline timeline;
    struct overlays overlays;
    size_t view;                         /* shown; index of view_table */
    struct open_view *views;             /* VIEW_COUNT, in the order of view_table */
    struct filter filter, filter_before; /* in force; as it was before the prompt opened */
    struct filter subject;               /* shown while overlays.subject is set */
    struct edit_history filters, commands;
    bool dirty; /* draw again */
    bool ending;
    const char
        *failure; /* ends the session and is printed after the screen is restored; NULL: none */
    int status;   /* exit status of a failure */
};

/*
 * Opens the server or recording that OPTIONS select. Returns 0, or -1 with the reason in WHY; call
 * session_close() after both.
 */
int session_open(struct session *session, struct options *options, struct lab *lab,
                 struct session_next *next, char *why, size_t size);
void session_close(struct session *session);

/* The scene for the views; valid until the next sample. */
struct scene session_scene(const struct session *session);

/* Applies a copy of FILTER to all lists; the top lists count the requests for the hosts in it. */
void session_set_filter(struct session *session, const struct filter *filter);

static inline struct grid *session_grid(const struct session *session)
{
    return &session->views[session->view].grid;
}

static inline const struct view *session_view(const struct session *session)
{
    return view_table[session->view];
}

void session_show_view(struct session *session, size_t view);

/* Makes the rules of the options those of the session; an alert that continues keeps its state. */
void session_set_alerts(struct session *session);

/* Ends the session; asks first if a view has something that ends with it. */
void session_end(struct session *session);

/* Ends the session to show the instance NAME ("": from the menu), or reports why it cannot. */
void session_switch_instance(struct session *session, const char *name);

/* Ends the session to play SCENARIO (NULL: from the menu), or reports why it cannot. */
void session_switch_scenario(struct session *session, const struct lab_scenario *scenario);

/*
 * Shows the requests that FILTER selects, instead of the view. Returns 0, or -1 with a message in WHY.
 */
int session_show_subject(struct session *session, const struct filter *filter, char *why,
                         size_t size);

/* Closes the topmost overlay: help, page, detail or subject. Returns false if none was open. */
bool session_close_overlay(struct session *session);

/* The scroll of the topmost overlay; NULL: none is open. */
struct scroll *session_overlay_scroll(struct session *session);

#endif
