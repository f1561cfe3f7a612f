/*
 * Whether a request costs the server more with many connections than with few. Trials of a curve lie
 * seconds apart, and what else the machine does in between is more than what is to be told: so the two
 * are measured once more, in many short trials, one directly behind the other. Main thread.
 */
#ifndef LOADGEN_LAB_GROWTH_H
#define LOADGEN_LAB_GROWTH_H

#include "loadgen/lab/curves.h"

/* Connections; each curve that is judged has a point with either number. */
enum { GROWTH_FEW = 100, GROWTH_MANY = 1000 };

/* Measures COUNT curves and says for each whether its condition holds. Returns 0, or -1 as points_measure(). */
int growth_judge(struct lab *lab, struct findings *findings, const struct curve *curves,
                 size_t count);

/* The verdict on processor times: RATIO is that of many connections to few. Pure. */
enum findings_kind growth_verdict(const struct interval *ratio);

#endif
