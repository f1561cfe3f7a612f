/* The reports of a sweep. They only format; what they say is in sweep.h. Main thread. */
#ifndef LOADGEN_SWEEP_REPORT_H
#define LOADGEN_SWEEP_REPORT_H

#include "loadgen/sweep/sweep.h"

#include <stdio.h>

/*
 * In the format of the plan; COLOUR allows emphasis by escape sequences. Returns 0, or -1 with errno;
 * whether all was written, OUT knows.
 */
int sweep_report(FILE *out, const struct sweep *sweep, bool colour);

int sweep_text(FILE *out, const struct sweep *sweep, bool colour);
int sweep_json(FILE *out, const struct sweep *sweep, bool colour);
int sweep_csv(FILE *out, const struct sweep *sweep, bool colour);
int sweep_md(FILE *out, const struct sweep *sweep, bool colour);
int sweep_png(FILE *out, const struct sweep *sweep, bool colour);
int sweep_html(FILE *out, const struct sweep *sweep, bool colour);

/* ---- What the reports for people have in common ---- */

enum sweep_column {
    SWEEP_CONNECTIONS,
    SWEEP_RATE,
    SWEEP_SURE, /* half the interval of the rate */
    SWEEP_P50,
    SWEEP_P99,
    SWEEP_ERRORS,
    SWEEP_CLIENT, /* with a mark where it was the limit */
    SWEEP_MACHINE,
    SWEEP_ZONE,
    SWEEP_COLUMNS,
};
extern const char *const sweep_heads[SWEEP_COLUMNS];

enum { SWEEP_CELL = 48, SWEEP_SETTING = 256 };

/* Returns BUFFER, of SWEEP_CELL bytes. */
char *sweep_cell(char *buffer, const struct sweep_point *point, enum sweep_column column);

/* "5 rounds of 2 s at each of 8 points, ...". Returns BUFFER, of SWEEP_SETTING bytes. */
char *sweep_setting(char *buffer, const struct sweep *sweep);

#endif
