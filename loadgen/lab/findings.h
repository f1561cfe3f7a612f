/*
 * What an experiment came to: tables, plots, and sentences about what was seen. An experiment fills it,
 * the text and the page only lay it out. Room is bounded: what does not fit is left out, which the
 * experiments avoid by knowing how much they write. Main thread.
 */
#ifndef LOADGEN_LAB_FINDINGS_H
#define LOADGEN_LAB_FINDINGS_H

#include "common/macros.h"

#include "loadgen/report/plot.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    FINDINGS_TABLES = 8,
    FINDINGS_COLUMNS = 12,
    FINDINGS_ROWS = 64,
    FINDINGS_CELL = 48,
    FINDINGS_SENTENCES = 32,
    FINDINGS_SENTENCE = 480,
    FINDINGS_PLOTS = 8,
    FINDINGS_POINTS = 2048,
    FINDINGS_TITLE = 96,
};

struct findings_table {
    char title[FINDINGS_TITLE];
    size_t columns, rows;
    char head[FINDINGS_COLUMNS][FINDINGS_CELL];
    char cell[FINDINGS_ROWS][FINDINGS_COLUMNS][FINDINGS_CELL];
};

struct findings_plot {
    char title[FINDINGS_TITLE];
    struct plot_axis x, y;
    double shaded_to; /* up to this x it is before what the plot is about; 0: nothing is */
    size_t lines;
    char name[PLOT_LINES_MAX][FINDINGS_CELL];
    size_t count[PLOT_LINES_MAX];
    struct plot_point point[PLOT_LINES_MAX][FINDINGS_POINTS];
    bool barred[PLOT_LINES_MAX]; /* the line's points have bars */
    struct plot_bar bar[PLOT_LINES_MAX][FINDINGS_POINTS];
};

enum findings_kind {
    FINDINGS_LESSON,    /* what the numbers say */
    FINDINGS_MET,       /* a condition that was to hold, and does */
    FINDINGS_NOT_MET,   /* one that does not */
    FINDINGS_UNDECIDED, /* one of which what was measured cannot tell */
    FINDINGS_CAUTION,   /* what to know before believing the numbers */
};

struct findings_sentence {
    enum findings_kind kind;
    char text[FINDINGS_SENTENCE];
};

struct findings {
    const char *name, *title; /* of the experiment */
    double seconds;           /* that it took */
    size_t tables, plots, sentences;
    struct findings_table table[FINDINGS_TABLES];
    struct findings_plot plot[FINDINGS_PLOTS];
    struct findings_sentence sentence[FINDINGS_SENTENCES];
};

/* Returns NULL when there is no memory. The caller frees it with free(). */
struct findings *findings_create(const char *name, const char *title);

/* Begins a table; HEADS end with NULL. Rows and cells then go to it. */
void findings_table(struct findings *findings, const char *title, const char *const *heads);
void findings_row(struct findings *findings);

PRINTF_LIKE(2, 3)
void findings_cell(struct findings *findings, const char *format, ...);

/* Begins a plot. Lines and dots then go to it; dots in the order of X. */
void findings_plot(struct findings *findings, const char *title, struct plot_axis x,
                   struct plot_axis y);
void findings_shade(struct findings *findings, double to);
void findings_line(struct findings *findings, const char *name);
void findings_dot(struct findings *findings, double x, double y);

/* How sure the last dot is; each of its line then needs one. NAN: not known. */
void findings_bar(struct findings *findings, double low, double high);

/* The plot as it is drawn; valid as long as OF. */
struct plot findings_drawn(const struct findings_plot *of);

PRINTF_LIKE(3, 4)
void findings_say(struct findings *findings, enum findings_kind kind, const char *format, ...);

#endif
