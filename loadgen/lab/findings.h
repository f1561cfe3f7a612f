/*
 * The findings of an experiment as a document: tables, plots, and sentences with a verdict or a
 * lesson. Pages also have figures published by others and a description of the machine. Main
 * thread.
 */
#ifndef LOADGEN_LAB_FINDINGS_H
#define LOADGEN_LAB_FINDINGS_H

#include "loadgen/lab/machine.h"
#include "loadgen/report/document.h"
#include "loadgen/stats/measures.h"

enum findings_kind {
    FINDINGS_LESSON,    /* what the numbers show */
    FINDINGS_MET,       /* a requirement is met */
    FINDINGS_NOT_MET,   /* a requirement is not met */
    FINDINGS_UNDECIDED, /* the measurements are too imprecise to decide */
    FINDINGS_CAUTION,   /* a limit of the measurement */
};

/* Empty. Returns NULL with ENOMEM. Free with document_free(). */
struct document *findings_create(const char *title);

/* Begins a table: the first column is left-aligned. HEADS end with NULL. */
void findings_table(struct document *findings, const char *title, const char *const *heads);

PRINTF_LIKE(3, 4)
void findings_add(struct document *findings, enum findings_kind kind, const char *format, ...);

/* ---- For pages ---- */

/* Our own results of the points that others published, too. All zero: none. */
enum { PUBLISHED_POINT = 64, PUBLISHED_OWN_MAX = 64, PUBLISHED_VALUES_MAX = 16 };

struct published_own {
    struct {
        char point[PUBLISHED_POINT];
        struct measures medians;
    } of[PUBLISHED_OWN_MAX];
    size_t count;
    struct {
        const char *point, *label; /* as in published.def */
        double value;
    } values[PUBLISHED_VALUES_MAX];
    size_t value_count;
    char why[PUBLISHED_POINT]; /* why this run cannot be compared; "": it can */
};

/*
 * A section with a table of each source's figures of EXPERIMENT beside OWN, if there are any; where
 * they cannot be compared, the reason.
 */
void findings_add_published(struct document *findings, const char *experiment,
                            const struct published_own *own);

/* Adds a section that defines the terms of tables and sentences. */
void findings_add_terms(struct document *findings);

/* Adds the facts of the machine to the last section. */
void findings_add_machine(struct document *findings, const struct machine *machine);

/* "3 met, 1 not decided": the verdicts of FINDINGS, or "no criteria". SUMMARY has SIZE bytes. */
void findings_summarise(const struct document *findings, char *summary, size_t size);

/*
 * ---- Verdicts from confidence intervals ----
 *
 * A criterion is met or not if the whole interval is on one side of its limit, else undecided.
 */

/* Met: the value is at most LIMIT. */
enum findings_kind verdict_at_most(const struct interval *value, double limit);

/* Met: the value is above LIMIT. */
enum findings_kind verdict_above(const struct interval *value, double limit);

/*
 * How many values would make the interval exclude LIMIT, if they vary as so far: its width shrinks
 * by 1/sqrt(n). NAN: too few values for an interval; INFINITY: the median is at the limit.
 */
double verdict_values_needed(const struct interval *value, double limit);

/*
 * For undecided findings: " About 40 rounds (--rounds 40) would decide." VALUES_A_ROUND: how many
 * values a round adds. TRIAL_MS is the duration of a trial. Returns BUFFER, of VERDICT_ADVICE
 * bytes.
 */
enum { VERDICT_ADVICE = 160 };
char *verdict_advice(char *buffer, const struct interval *value, double limit,
                     uint32_t values_a_round, uint64_t trial_ms);

#endif
