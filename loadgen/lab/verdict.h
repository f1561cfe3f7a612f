/*
 * Verdicts from confidence intervals: a criterion is met or not if the whole interval is on one
 * side of its limit, else undecided; and the length of the experiment that would decide it. Pure.
 */
#ifndef LOADGEN_LAB_VERDICT_H
#define LOADGEN_LAB_VERDICT_H

#include "loadgen/lab/findings.h"
#include "loadgen/stats/statistics.h"

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
 * values a round adds. TRIAL_MS is the duration of a trial. Returns BUFFER, of VERDICT_ADVICE bytes.
 */
enum { VERDICT_ADVICE = 160 };
char *verdict_advice(char *buffer, const struct interval *value, double limit,
                     uint32_t values_a_round, uint64_t trial_ms);

#endif
