/* The command line of wsconsole. */
#ifndef CONSOLE_OPTIONS_H
#define CONSOLE_OPTIONS_H

#include "console/theme.h"
#include "console/view.h"

#include <stdbool.h>

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
    const struct view
        *view; /* what --once and --json print, and what is shown first; NULL: all, first */
};

enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_WRONG };

/* Reads the command line. Help and version are printed here, as is what was wrong. */
enum options_result options_read(int argc, char **argv, struct options *options);

#endif
