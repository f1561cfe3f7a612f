/*
 * Points of an experiment: settings that are measured one after the other, round by round, there and
 * back (A B C, C B A), so that a machine whose speed drifts treats all of them alike. Main thread.
 */
#ifndef LOADGEN_LAB_POINTS_H
#define LOADGEN_LAB_POINTS_H

#include "loadgen/lab/bare_server.h"
#include "loadgen/lab/lab.h"
#include "loadgen/run/trials.h"

enum { POINT_ROUNDS = 101, POINT_URL = 256, POINT_COMMAND = 64 };

/* What the lab measures beside the measures of a run. */
enum point_measure {
    POINT_CPU,  /* of the server's processes, for an answer, us */
    POINT_HITS, /* requests answered from the server's cache, percent; NAN: none asked for a file */
    POINT_LEAST, /* connections of the serving thread that had the fewest at the last look */
    POINT_MOST,  /* the same of the one that had the most */
    POINT_MEASURES,
};

struct point {
    char label[LAB_LABEL]; /* for progress */
    struct private_server *server;
    const struct bare_server *bare; /* asked in place of the server; NULL: that is asked */
    char command[POINT_COMMAND];    /* told to the server before each trial; "": nothing */
    /* Before each trial, behind the command; NULL: nothing. Returns 0, or -1 with the lab's WHY. */
    int (*before)(struct lab *lab, struct point *point);
    void *context; /* of who made it */
    char url[POINT_URL];
    struct plan plan;
    const struct trials *trials; /* what was measured; number INDEX is this point's */
    size_t index;
    double value[POINT_MEASURES][POINT_ROUNDS];
    uint32_t rounds; /* kept in value */
};

/* COUNT of them, until the experiment's end; NULL with WHY. */
struct point *points_create(struct lab *lab, size_t count);

/* What most trials are: GET of PATH from SERVER over CONNECTIONS by the cheap engine, for a while. */
PRINTF_LIKE(6, 7)
void point_begin(struct lab *lab, struct point *point, struct private_server *server,
                 const char *path, uint32_t connections, const char *label, ...);

/* POINT is to ask BARE in place of its server. */
void point_ask_bare(struct point *point, const struct bare_server *bare);

/*
 * Each point once in each round of the lab; where a trial brought too few answers to say anything, all
 * again with more time. Returns 0, or -1: interrupted or with WHY.
 */
int points_measure(struct lab *lab, struct point *points, size_t count);

/*
 * Each point once in each of so many ROUNDS, at most POINT_ROUNDS: for ratios of two. Of trials that
 * say nothing the values are NAN. Returns as points_measure().
 */
int points_measure_often(struct lab *lab, struct point *points, size_t count, uint32_t rounds);

/* The rounds' median with its confidence interval. */
struct interval point_interval(const struct point *point, enum measure measure);

/* Medians of the rounds. */
double point_median(const struct point *point, enum measure measure);
double point_own_median(const struct point *point, enum point_measure measure);

/*
 * The measure of OVER by that of UNDER in the same round, the median over all rounds: a machine that
 * was slow in one was slow for both. Both were measured in one series.
 */
struct interval point_cpu_ratio(const struct point *over, const struct point *under);
struct interval point_rate_ratio(const struct point *over, const struct point *under);

/* How far the rounds' rates lie apart: half of the range, in percent of the median. */
double point_spread(const struct point *point);

/* Whether the client was the limit: its threads had no time left. */
bool point_is_client_bound(const struct point *point);

/* Says what of these points is to be read with care: errors, spread, and what a mark means. */
void points_caution(struct document *findings, const struct point *points, size_t count);

/* Cells: a rate, with a mark where the client was the limit; any other measure; the server's CPU. */
void point_cell_rate(struct document *findings, const struct point *point);
void point_cell(struct document *findings, const struct point *point, enum measure measure);
void point_cell_cpu(struct document *findings, const struct point *point);

/* The same for sentences: "12,345", "3.14", and a time in us as "1.23 ms". */
char *lab_number(char *buffer, size_t size, double number);
char *lab_time(char *buffer, size_t size, double us);

/* How sure a ratio is: "+1.2% to +3.4% with 95% confidence". At least LAB_SURE bytes. */
enum { LAB_SURE = 96 };
char *lab_sure(char *buffer, size_t size, const struct interval *ratio);

#endif
