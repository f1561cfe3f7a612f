/* The command line of wsconsole. */
#ifndef CONSOLE_OPTIONS_H
#define CONSOLE_OPTIONS_H

#include "console/filter.h"
#include "console/theme.h"
#include "console/view.h"

#include <stdbool.h>
#include <stdint.h>

struct options {
    const char *name;   /* of the instance */
    const char *socket; /* of its control; NULL: the instance's */
    enum theme theme;
    bool ascii;
    bool readonly;
    unsigned rate_hz; /* pictures a second */
    bool once;        /* print and end, as text or as JSON */
    bool json;
    bool csv;
    const char *record; /* the session goes into this file; NULL: it does not */
    const char *replay; /* this recording is watched; NULL: a daemon is */
    double speed;       /* of a replay; 1 is as it was */
    uint64_t at_ns;     /* where a replay begins, standing still */
    bool at_given;
    bool batch;      /* print again and again */
    double every_s;  /* between the prints of a batch */
    uint64_t count;  /* of prints; 0: until something ends them */
    bool wait_given; /* -w: how long to wait for a daemon, 0: not at all */
    uint64_t wait_s;
    const struct filter *filter; /* of all lists at first; NULL: none */
    const struct view
        *view; /* what --once and --json print, and what is shown first; NULL: all, first */
};

enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_WRONG };

/* Reads the command line. Help and version are printed here, as is what was wrong. */
enum options_result options_read(int argc, char **argv, struct options *options);

#endif
