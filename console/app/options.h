/*
 * The options of wsconsole: the table made from console/app/options.def, and the values in force.
 * Those marked FILE are settings as well: console.ini may contain them (see settings.h). Single
 * thread.
 */
#ifndef CONSOLE_OPTIONS_H
#define CONSOLE_OPTIONS_H

#include "common/instance.h"
#include "common/macros.h"
#include "console/data/alerts.h"
#include "console/scene/scene.h"
#include "console/ui/canvas.h"
#include "console/ui/filter.h"

#include <stdbool.h>
#include <stdint.h>

struct lab_scenario;

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NO_DAEMON = 3 };

enum {
    OPTION_NAME_BYTES = 32,
    OPTION_VALUE_BYTES = ALERT_LIST_BYTES,
    OPTIONS_WHY = 256,
    ALERT_COMMAND_BYTES = 256,
    PAGE_MAX_WIDTH = 300, /* screens of --html */
    PAGE_MAX_HEIGHT = 90
};

struct options {
    char name[INSTANCE_NAME_MAX + 1]; /* instance */
    bool name_given;                  /* on the command line */
    bool all;                         /* begin with the list of all instances */
    bool list;                        /* print that list */
    const char *socket;               /* control socket; NULL: the one of the instance */
    enum theme theme;
    enum theme theme_setting; /* as configured; THEME_COUNT: detected from the terminal */
    bool ascii;
    bool no_mouse;
    bool readonly;
    char alerts[ALERT_LIST_BYTES];           /* rules, separated by ';' */
    char alert_command[ALERT_COMMAND_BYTES]; /* absolute path; "": none */
    unsigned rate_hz;                        /* frames per second */
    bool rate_given;
    bool remote; /* the terminal is at the other end of ssh */
    bool once;   /* print and exit: as text, JSON or CSV */
    bool json;
    bool csv;
    bool batch;           /* print repeatedly */
    double every_s;       /* interval between two prints, or screens of the page; 0: the default */
    uint64_t print_count; /* 0: no limit */
    /* View to print or to show first. NULL: all views, the first view. */
    const struct view *view;
    const struct view *view_setting; /* as configured; NULL: none */
    int span_s;                      /* time range of graphs: one of options_spans_s */
    bool log_scale;
    char hide_columns[OPTION_VALUE_BYTES]; /* see views_check_columns() */
    const struct filter *filter;           /* initial filter of all lists; NULL: none */
    bool wait_given;                       /* wait_s limits the time to wait for a daemon */
    uint64_t wait_s;
    const struct lab_scenario *lab; /* scenario to play; NULL: none */
    uint64_t step_ms;               /* how long a step of a scenario measures */
    const char *record;             /* file to record the session into; NULL: none */
    const char *replay;             /* recording to show instead of a daemon; NULL: none */
    double replay_speed;            /* 1: real time */
    const char *html;               /* file to write the recording into, as a page; NULL: none */
    int rows, columns;              /* of its screens; 0: the default */
    uint64_t at_ns;                 /* the replay starts here, paused */
    bool at_given;
    char why[OPTIONS_WHY]; /* error of the last value read; "": none */
};

/* Time ranges of graphs, s; the first is the default. */
enum { OPTIONS_SPANS = 6 };
extern const int options_spans_s[OPTIONS_SPANS];

enum options_result {
    OPTIONS_RUN,
    OPTIONS_DONE, /* help, version or a list was printed: exit 0 */
    OPTIONS_WRONG
};

struct option_info {
    const char *name, *argument, *help; /* argument "": takes none */
    char letter;                        /* 0: none */
    bool setting;                       /* console.ini may contain it */
    /*
     * Reads the argument WORD; NULL for an option without one. A setting without an argument takes
     * on and off. After OPTIONS_WRONG options->why contains the error.
     */
    enum options_result (*accept)(const char *word, struct options *options);
};

enum {
#define OPTION(name, letter, argument, place, help) OPTION_##name,
#include "console/app/options.def"
#undef OPTION
    OPTION_COUNT
};

extern const struct option_info option_table[OPTION_COUNT];

/* The name of OPTION as typed: "no-color". Valid until the program ends. */
const char *option_name(const struct option_info *option);

/*
 * Writes setting number OPTION in the form that accept() takes; "" if it has its default value, or
 * is not a setting.
 */
void option_show(const struct options *options, size_t option, char *text, size_t size);

/* Sets the defaults: the instance "default", the theme of the environment. */
void options_init(struct options *options);

/*
 * Sets the defaults, reads console.ini, then the command line, which takes precedence. Prints
 * errors and, where requested, help and version.
 */
enum options_result options_read(int argc, char **argv, struct options *options);

/* Formats options->why and returns OPTIONS_WRONG. */
enum options_result option_wrong(struct options *options, const char *format, ...)
    PRINTF_LIKE(2, 3);

#endif
