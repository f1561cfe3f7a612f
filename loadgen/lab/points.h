/*
 * Points of an experiment: settings that are measured in rounds of alternating order (A B C, C B
 * A), so that a drift of the machine's speed affects all of them alike. Main thread.
 */
#ifndef LOADGEN_LAB_POINTS_H
#define LOADGEN_LAB_POINTS_H

#include "loadgen/lab/lab.h"
#include "loadgen/lab/machine.h"
#include "loadgen/run/run.h"

enum { POINT_ROUNDS = 101, POINT_URL = 256, POINT_COMMAND = 64 };

/* Measures of the lab, in addition to those of a run. */
enum point_measure {
    POINT_CPU,  /* CPU time of the server's processes per response, us */
    POINT_HITS, /* requests answered from the server's cache, percent; NAN: no requests for files */
    /* Connections of the thread with the fewest, at the last sample; NAN: no sample. */
    POINT_LEAST,
    POINT_MOST,       /* the same for the thread with the most */
    POINT_SWITCHES,   /* context switches of the server's threads per response; NAN: unknown */
    POINT_QUEUE_WAIT, /* mean wait of a connection in the connection queue, us; NAN: none waited */
    POINT_DROPPED, /* connections answered 503 because that queue was full, percent of responses */
    POINT_LOCK_WAITS, /* waits for a mutex per response; NAN: the server does not publish them */
    POINT_WAITING,    /* connections that no thread serves, at the last sample; NAN: no sample */
    POINT_GOOD,       /* responses 2xx per second; those after the timeout of a client are none */
    POINT_MEMORY, /* most memory during the trial, in bytes, as of lab_memory(); NAN: not weighed */
    POINT_MEASURES,
};

struct point {
    char label[LAB_LABEL]; /* shown as progress */
    struct private_server *server;
    const struct bare_server *bare; /* target instead of the server; NULL: the server */
    char command[POINT_COMMAND];    /* control command before each trial; "": none */
    /*
     * Called before each trial, after the command; NULL: none. Returns 0, or -1 with the lab's WHY.
     */
    int (*before)(struct lab *lab, struct point *point);
    void *before_context;
    /* Called ten times a second during a trial, with the time since it began; NULL: none. */
    void (*during)(struct point *point, uint64_t elapsed_ns);
    char url[POINT_URL];
    struct plan plan;
    /* Clients may get no response before the trial ends: neither an error nor a reason to wait. */
    bool starves;
    bool may_answer_none; /* no response at all is a result; else the trial is repeated */
    /* A trial is repeated until this measure is known. By default the rate, which always is. */
    enum measure decisive;
    /* Whether the trial can be used; if not, it is repeated. NULL: always. */
    bool (*complete)(const struct point *point);
    bool weighed;          /* the memory of the server is measured */
    struct trials *trials; /* the results; this point is number INDEX in them */
    size_t index;
    double value[POINT_MEASURES][POINT_ROUNDS];
    uint32_t rounds; /* measured */
    struct contention contention;
};

/* COUNT points until the end of the experiment, or NULL with WHY. */
struct point *points_create(struct lab *lab, size_t count);

/*
 * Sets the defaults of a trial: GET PATH from SERVER over CONNECTIONS with the raw engine, for the
 * lab's trial_ms. SERVER may be NULL if point_use_bare() follows.
 */
PRINTF_LIKE(6, 7)
void point_init(struct lab *lab, struct point *point, struct private_server *server,
                const char *path, uint32_t connections, const char *label, ...);

/* Sets starves, and that a trial ends at once. */
void point_let_starve(struct point *point);

/* Makes POINT send its requests to BARE instead of its server. */
void point_use_bare(struct point *point, const struct bare_server *bare);

/* The rate of one round. */
double point_rate(const struct point *point, uint32_t round);

/* The median over the rounds with its confidence interval. */
struct interval point_interval(const struct point *point, enum measure measure);

/* Medians over the rounds; rounds with NAN do not count. NAN if there are no others. */
double point_median(const struct point *point, enum measure measure);
double point_own_median(const struct point *point, enum point_measure measure);

/*
 * The median over the rounds of the ratio OVER / UNDER. Both points must have been measured by the
 * same call; within a round the machine's speed is about the same for both.
 */
struct interval point_cpu_ratio(const struct point *over, const struct point *under);
struct interval point_ratio(const struct point *over, const struct point *under,
                            enum measure measure);
struct interval point_rate_ratio(const struct point *over, const struct point *under);

/*
 * A comparison of CPU time, of two points of the same call. It is a lesson if the interval of the
 * ratio excludes 1, else undecided.
 */
struct comparison {
    const struct point *over, *under;
};
enum findings_kind comparison_verdict(const struct comparison *comparison);

/* Records the medians of POINT for the comparison with published figures, under this name. */
PRINTF_LIKE(3, 4)
void point_record(struct lab *lab, const struct point *point, const char *name, ...);

/*
 * " (The machine was busy.)" if others took much CPU time from the trials of the points, else "".
 * Appended to a verdict: a busy machine widens intervals, which decide.
 */
const char *points_busy(const struct point *points, size_t count);
const char *comparison_busy(const struct comparison *comparison);

/* Adds notes about contention, errors, noise, and points where the client was the limit. */
void points_add_cautions(struct document *findings, const struct point *points, size_t count);

/*
 * Add a cell: the rate with half the width of its interval, marked if the client was the limit;
 * another measure; the server's CPU time.
 */
void point_cell_rate(struct document *findings, const struct point *point);
void point_cell(struct document *findings, const struct point *point, enum measure measure);
void point_cell_cpu(struct document *findings, const struct point *point);

/*
 * Begins a plot of times by round; point_line() and point_line_cpu() add a line called NAME to it.
 */
void points_plot_rounds(struct document *findings, const char *title, bool logarithmic);
void point_line(struct document *findings, const struct point *point, const char *name,
                enum measure measure);
void point_line_cpu(struct document *findings, const struct point *point, const char *name);

/* US microseconds as "1.23 ms", or "-" for NAN. Returns BUFFER. */
char *lab_time(char *buffer, size_t size, double us);

/*
 * The median with its interval: "12,345 (11,900 to 12,800 with 95% confidence)". Returns BUFFER, of
 * LAB_BETWEEN bytes.
 */
enum { LAB_BETWEEN = 128 };
char *point_between(char *buffer, const struct point *point, enum measure measure);

/*
 * The same of any INTERVAL; values below 0 are shown as 0. FORMAT is format_number() or like it.
 * Without an interval, or if it is a single value, only the median; without that, "unknown".
 * lab_range() omits "with 95% confidence", for cells.
 */
typedef char *lab_format(char *buffer, size_t size, double value);
char *lab_between(char *buffer, const struct interval *interval, lab_format *format);
char *lab_range(char *buffer, const struct interval *interval, lab_format *format);

/* Adds a cell: the median with half its interval's width, "12,345 ±3%"; "-" without values. */
void lab_cell_interval(struct document *findings, const struct interval *interval,
                       lab_format *format);

/*
 * The fewest and the most connections of a thread: "3 to 40"; "-" if the trials were too short to
 * sample them. BUFFER has LAB_SPREAD bytes.
 */
enum { LAB_SPREAD = 32 };
char *point_connections_text(char *buffer, const struct point *point);
bool point_has_connections(const struct point *point);

/* Adds the finding that point_connections_text() of NAME is unknown. */
void point_explain_no_connections(struct document *findings, const char *name);

/*
 * A ratio with its interval, in three forms: "1.02 times (1.01 to 1.03 with 95% confidence)", "102%
 * (101% to 103% ...)" and "+2.0% (+1.0% to +3.0% ...)"; "unknown" if the median is NAN. BUFFER has
 * LAB_RATIO bytes.
 */
enum { LAB_RATIO = 128 };
char *lab_times(char *buffer, const struct interval *ratio);
char *lab_share(char *buffer, const struct interval *ratio);
char *lab_change(char *buffer, const struct interval *ratio);

/* The median alone, "1.02 times", for sentences whose interval is another one's. */
char *lab_times_alone(char *buffer, const struct interval *ratio);

/* "84%", or "unknown" for NAN. BUFFER has UNITS_TEXT bytes. */
char *lab_percent(char *buffer, double percent);

/* A row of lab_put_ratios(): "Keep-alive: rate, 1000 over 10 connections". */
struct named_ratio {
    char name[LAB_TITLE];
    struct interval ratio;
};

/* Adds a table of COUNT ratios with their intervals. A sentence has one interval; this has all. */
void lab_put_ratios(struct document *findings, const struct named_ratio *ratios, size_t count);

/* ---- Measuring (rounds.c) ---- */

/*
 * Measures each point once in each round of the lab. A trial with too few responses for a 99th
 * percentile is repeated and takes longer, as do the later ones of its point. Returns 0, or -1:
 * interrupted, or failed with WHY.
 */
int points_measure(struct lab *lab, struct point *points, size_t count);

/*
 * Measures each point once in each of ROUNDS rounds (at most POINT_ROUNDS), where rates, means and
 * CPU times are compared. A trial is repeated only if it has no response (unless that is a result)
 * or if its decisive measure is unknown; other percentiles are NAN in trials with too few responses.
 * Returns as points_measure().
 */
int points_measure_often(struct lab *lab, struct point *points, size_t count, uint32_t rounds);

/*
 * With --until-decided: adds rounds to points that were measured by one of the functions above,
 * until DECIDED() returns true, or the time of the experiment or the room for rounds is over. The
 * first rounds are added however short the time is. Returns as points_measure().
 */
int points_measure_until(struct lab *lab, struct point *points, size_t count,
                         bool (*decided)(const void *context), const void *context);

/*
 * Measures as points_measure_often() in the rounds of the lab, with --until-decided until no
 * comparison of COMPARED is undecided. Returns as points_measure().
 */
int points_measure_compared(struct lab *lab, struct point *points, size_t count,
                            const struct comparison *compared, size_t compared_count);

#endif
