/*
 * One session of the full-screen console: a server, a recording or a guided scenario on one
 * terminal. What the files of a session share. Single thread.
 */
#ifndef CONSOLE_SESSION_H
#define CONSOLE_SESSION_H

#include "console/app/options.h"
#include "console/data/alerts.h"
#include "console/data/watch.h"
#include "console/lab/player.h"
#include "console/scene/controller.h"
#include "console/scene/help.h"
#include "console/ui/dialog.h"
#include "console/ui/screen.h"
#include "console/views/views.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The session that follows, if the user ended this one by choosing another. */
struct session_next {
    bool wanted;                      /* another instance */
    char name[INSTANCE_NAME_MAX + 1]; /* "": chosen from the menu */
    bool lab_wanted;                  /* a guided scenario */
    const struct lab_scenario *lab;   /* NULL: chosen from the menu */
    const struct view *view;          /* the last one shown */
    bool interrupted;                 /* a signal, or the terminal is gone */
};

/*
 * The time shown: now, the time of freezing, an earlier second or step of the history, or a
 * position in a recording.
 */
struct timeline {
    bool frozen;             /* no samples are taken; a replay is paused */
    size_t back;             /* seconds before the time of freezing */
    uint64_t mark_ns;        /* wall clock of the mark moved to; 0: moved otherwise since */
    double replay_at_ns;     /* position in the recording */
    uint64_t replay_ns;      /* monotonic clock when the position was last advanced; 0: never */
    uint64_t next_sample_ns; /* monotonic clock; 0: at once */
};

/* What is open over the view. A page is open while the controller has one. */
struct overlays {
    bool help;
    bool actions; /* the menu of what can be done */
    bool detail;  /* details of the selected row */
    bool subject;
    bool lab;               /* the panel of the scenario takes the place of the view */
    size_t action_selected; /* in that menu */
    char sought[64];        /* in the help */
    struct scroll subject_scroll, help_scroll, page_scroll, detail_scroll, lab_scroll,
        actions_scroll;
};

enum { ALERT_PROGRAMS = 8 };

struct session {
    struct options *options; /* borrowed; :set changes them */
    struct session_next *next;
    struct lab *lab; /* borrowed; NULL: no scenario is played */
    struct watch *watch;
    struct controller *controller;
    uint64_t alerts_reported;             /* changes of alerts that were made events */
    pid_t alert_programs[ALERT_PROGRAMS]; /* running; 0: none */
    struct screen screen;
    struct timeline timeline;
    struct overlays overlays;
    size_t view;                 /* shown; index of view_table */
    struct open_view *views;     /* VIEW_COUNT, in the order of view_table */
    struct filter filter;        /* in force */
    struct filter filter_before; /* restored if the prompt is cancelled */
    struct filter subject;       /* shown while overlays.subject is set */
    struct edit_history filters, commands;
    bool dirty; /* draw again */
    bool ending;
    const char *failure; /* ends the session, and is printed after it; NULL: none */
    int status;          /* exit status of a failure */
};

/* loop.c */

/*
 * Runs a session until the user, a signal or the loss of the terminal ends it. LAB is the scenario
 * to play (borrowed), or NULL. Settings that the user changes are written to OPTIONS. NEXT receives
 * the session that the user chose to follow. Returns the exit status; errors are printed.
 */
int session_run(struct options *options, struct lab *lab, struct session_next *next);

/* session.c */

/*
 * Opens the server or recording that OPTIONS select. Returns 0, or -1 with the reason in WHY; call
 * session_close() after both.
 */
int session_open(struct session *session, struct options *options, struct lab *lab,
                 struct session_next *next, char *why, size_t size);
void session_close(struct session *session);

/* The scene for the views; valid until the next sample. */
struct scene session_scene(const struct session *session);

/* Updates all views after a sample, also hidden ones: some have a child process. */
void session_update_views(struct session *session);

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

/* Ends the session; asks first if a view has something that ends with it. */
void session_end(struct session *session);

/* Ends the session to show the instance NAME ("": from the menu), or reports why it cannot. */
void session_switch_instance(struct session *session, const char *name);

/* Ends the session to play SCENARIO (NULL: from the menu), or reports why it cannot. */
void session_switch_scenario(struct session *session, const struct lab_scenario *scenario);

/*
 * Shows the requests that FILTER selects, instead of the view. Returns 0, or -1 with a message in
 * WHY.
 */
int session_show_subject(struct session *session, const struct filter *filter, char *why,
                         size_t size);

/* Closes the topmost overlay: help, page, detail or subject. Returns false if none was open. */
bool session_close_overlay(struct session *session);

/* The scroll of the topmost overlay; NULL: none is open. */
struct scroll *session_overlay_scroll(struct session *session);

/*
 * Samples the server unless frozen, or advances the replay by the time since the last call times
 * the speed of the options. False: that is a long way; call it again at once, after the keys are read.
 */
bool timeline_sample(struct session *session, uint64_t now_ns);

/* Freezes or continues. */
void timeline_toggle_freeze(struct session *session);

/*
 * Moves by SECONDS in the recording or in the history, there by a step at least; moving back
 * freezes a live session.
 */
void timeline_move(struct session *session, long seconds);

/*
 * Freezes, and shows the second of the mark at TIME_NS (wall clock) of the recording or the
 * history.
 */
void timeline_show_mark(struct session *session, uint64_t time_ns);

/* Hides the columns in all lists that the options say. */
void session_hide_columns(struct session *session);

/* The reverse: the options say which columns are hidden. */
void session_keep_columns(struct session *session);

/* Makes the rules of the options those of the user; an alert that continues keeps its state. */
void session_set_alerts(struct session *session);

/*
 * A change of an alert since the last call becomes a mark and an event, and runs the program of the
 * options with the facts in its environment: WSCONSOLE_ALERT (the rule), WSCONSOLE_STATE (began,
 * ended), WSCONSOLE_VALUE, WSCONSOLE_INSTANCE. Rings the bell if something bad has begun.
 */
void session_report_alerts(struct session *session);

/* Shows the rules with their values, and the history, newest first, over the view. */
void session_show_alerts(struct session *session);

/* input.c */

/* Handles the key with curses code CODE; KEY_MOUSE handles the pending mouse events. */
void input_handle_key(struct session *session, int code);

/* prompt.c */

/*
 * Opens the command line (key ':'), which accepts the daemon's commands, as wsctl does, and the
 * console's own.
 */
void prompt_open_command(struct session *session);

/* Opens the prompt of the search in the help. */
void prompt_open_search(struct session *session);

/* Opens the filter prompt (key '/'). The filter applies while it is typed. */
void prompt_open_filter(struct session *session);

/* frame.c */

/*
 * Draws the screen: the bar with the tabs, the line about the server, the view with its overlays
 * and popups, and the line at the bottom. Clamps the scroll positions of overlays, notes that a
 * question is on the screen, and changes nothing else.
 */
void frame_draw(struct session *session);

/* Scrolls the help to the text sought; see help_find(). */
bool frame_find_in_help(struct session *session, int direction);

/* What can be done now: ITEMS has ACTION_COUNT places. Returns their number. */
size_t frame_actions(const struct session *session, struct help_item *items);

/* The item of the menu at Y, X; -1: none. */
int frame_action_item_at(int y, int x);

/* The action whose key is drawn at Y, X, in the bar or the foot; ACTION_NONE: none. */
enum action frame_action_at(const struct screen *screen, int y, int x);

/* The index of the view whose tab is drawn at line Y, column X; -1: none. */
int frame_view_at(const struct screen *screen, int y, int x);

/* True if view VIEW has a tab while view SHOWN is on the screen. */
bool frame_has_tab(const struct scene *scene, size_t view, size_t shown);

#endif
