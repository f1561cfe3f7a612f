/* What wsconsole is told: console.ini first, then the command line over it. */
#ifndef CONSOLE_OPTIONS_H
#define CONSOLE_OPTIONS_H

#include "common/instance.h"
#include "console/ui/filter.h"
#include "console/ui/theme.h"
#include "console/views/views.h"

#include <stdbool.h>
#include <stdint.h>

struct lab_scenario;

enum { OPTIONS_WHY = 256 };

struct options {
    char name[INSTANCE_NAME_MAX + 1]; /* of the instance */
    bool name_given;                  /* by the command line */
    const char *socket;               /* of its control; NULL: the instance's */
    enum theme theme;
    enum theme theme_setting; /* the one that was asked for; THEME_COUNT: the terminal's */
    bool ascii;
    bool no_mouse;
    bool readonly;
    unsigned rate_hz; /* pictures a second */
    bool rate_given;
    bool once; /* print and end, as text, as JSON or as CSV */
    bool json;
    bool csv;
    bool batch;     /* print again and again */
    double every_s; /* between two prints */
    uint64_t count; /* of prints; 0: until something ends them */
    /* What is printed, or shown first; NULL: all, the first. */
    const struct view *view;
    const struct view *view_setting; /* the one that was asked for; NULL: none */
    int span_s;                      /* that graphs reach back: one of options_spans_s */
    const struct filter *filter;     /* of all lists at first; NULL: none */
    bool wait_given;                 /* how long to wait for a daemon: */
    uint64_t wait_s;                 /* 0: not at all */
    const struct lab_scenario *lab;  /* this guided scenario is played; NULL: none */
    const char *record;              /* the session goes into this file; NULL: it does not */
    const char *replay;              /* this recording is watched; NULL: a daemon is */
    double speed;                    /* of a replay; 1 is as it was */
    uint64_t at_ns;                  /* where a replay begins, standing still */
    bool at_given;
    char why[OPTIONS_WHY]; /* what is wrong with the word that was read last; "": nothing */
};

/* How far graphs may reach back, s; the first is the default. */
enum { OPTIONS_SPANS = 3 };
extern const int options_spans_s[OPTIONS_SPANS];

enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_WRONG };

/* Reads file and command line. Help and version are printed here, as is what was wrong. */
enum options_result options_read(int argc, char **argv, struct options *options);

#endif
