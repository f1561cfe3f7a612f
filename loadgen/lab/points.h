/*
 * Points of an experiment: settings that are measured in rounds of alternating order (A B C, C B
 * A), so that a drift of the machine's speed affects all of them alike. Main thread.
 */
#ifndef LOADGEN_LAB_POINTS_H
#define LOADGEN_LAB_POINTS_H

#include "loadgen/lab/bare_server.h"
#include "loadgen/lab/lab.h"
#include "loadgen/run/trials.h"

enum { POINT_ROUNDS = 101, POINT_URL = 256, POINT_COMMAND = 64 };

/* What the lab measures in addition to the measures of a run. */
enum point_measure {
    POINT_CPU,  /* CPU time of the server's processes per response, us */
    POINT_HITS, /* requests answered from the server's cache, percent; NAN: no requests for files */
    POINT_LEAST, /* connections of the thread with the fewest, at the last sample */
    POINT_MOST,  /* the same for the thread with the most */
    POINT_MEASURES,
};

struct point {
    char label[LAB_LABEL]; /* for progress */
    struct private_server *server;
    const struct bare_server *bare; /* requested instead of the server; NULL: the server */
    char command[POINT_COMMAND];    /* control command before each trial; "": none */
    /*
     * Called before each trial, after the command; NULL: none. Returns 0, or -1 with the lab's WHY.
     */
    int (*before)(struct lab *lab, struct point *point);
    void *context; /* for before() */
    char url[POINT_URL];
    struct plan plan;
    const struct trials *trials; /* the results; those of this point have number INDEX */
    size_t index;
    double value[POINT_MEASURES][POINT_ROUNDS];
    uint32_t rounds; /* in value */
};

/* COUNT points until the end of the experiment, or NULL with WHY. */
struct point *points_create(struct lab *lab, size_t count);

/*
 * The usual trial: GET PATH from SERVER over CONNECTIONS by the raw engine, for the time of a
 * trial.
 */
PRINTF_LIKE(6, 7)
void point_init(struct lab *lab, struct point *point, struct private_server *server,
                const char *path, uint32_t connections, const char *label, ...);

/* Makes POINT send its requests to BARE instead of its server. */
void point_use_bare(struct point *point, const struct bare_server *bare);

/*
 * Measures each point once in each round of the lab; if a trial has too few responses, measures all
 * again with longer trials. Returns 0, or -1: interrupted, or failed with WHY.
 */
int points_measure(struct lab *lab, struct point *points, size_t count);

/*
 * Measures each point once in each of ROUNDS rounds, at most POINT_ROUNDS, for ratios of two
 * points. Trials with too few responses have NAN. Returns as points_measure().
 */
int points_measure_often(struct lab *lab, struct point *points, size_t count, uint32_t rounds);

/* The median over the rounds with its confidence interval. */
struct interval point_interval(const struct point *point, enum measure measure);

/* Medians over the rounds. */
double point_median(const struct point *point, enum measure measure);
double point_own_median(const struct point *point, enum point_measure measure);

/*
 * The median over the rounds of the ratio OVER / UNDER in the same round, in which the machine was
 * equally fast for both. Both were measured by one call.
 */
struct interval point_cpu_ratio(const struct point *over, const struct point *under);
struct interval point_rate_ratio(const struct point *over, const struct point *under);

/* Half the range of the rates over the rounds, in percent of their median. */
double point_spread(const struct point *point);

/* Whether the client was the limit: its threads used nearly all of their cores. */
bool point_is_client_bound(const struct point *point);

/* Adds notes about errors, noise, and points where the client was the limit. */
void points_add_cautions(struct document *findings, const struct point *points, size_t count);

/*
 * Add a cell: the rate, marked if the client was the limit; another measure; the server's CPU time.
 */
void point_cell_rate(struct document *findings, const struct point *point);
void point_cell(struct document *findings, const struct point *point, enum measure measure);
void point_cell_cpu(struct document *findings, const struct point *point);

/* Begins a plot of times by round, to which the following two add the line NAME of a point. */
void points_plot_rounds(struct document *findings, const char *title, bool logarithmic);
void point_line(struct document *findings, const struct point *point, const char *name,
                enum measure measure);
void point_line_cpu(struct document *findings, const struct point *point, const char *name);

/* For sentences: "12,345" or "3.14"; "1.23 ms" from US microseconds. Return BUFFER. */
char *lab_number(char *buffer, size_t size, double number);
char *lab_time(char *buffer, size_t size, double us);

/*
 * The interval of a ratio: "+1.2% to +3.4% with 95% confidence". SIZE is at least LAB_CONFIDENCE.
 */
enum { LAB_CONFIDENCE = 96 };
char *lab_confidence(char *buffer, size_t size, const struct interval *ratio);

#endif
