/* Measures points in rounds, in alternating order (points.h). Main thread. */
#ifndef LOADGEN_LAB_ROUNDS_H
#define LOADGEN_LAB_ROUNDS_H

#include "loadgen/lab/points.h"

/*
 * Measures each point once in each round of the lab. A trial with too few responses for a 99th percentile
 * is repeated and takes longer, as do the later ones of its point. Returns 0, or -1: interrupted, or failed
 * with WHY.
 */
int points_measure(struct lab *lab, struct point *points, size_t count);

/*
 * Measures each point once in each of ROUNDS rounds (at most POINT_ROUNDS), where rates, means and CPU times
 * are compared. A trial is repeated only if it has no response; percentiles are NAN in trials with too few.
 * Returns as points_measure().
 */
int points_measure_often(struct lab *lab, struct point *points, size_t count, uint32_t rounds);

/*
 * With --until-decided: adds rounds to points that were measured by one of the functions above,
 * until DECIDED() or the time of the experiment or the room for rounds is over. The first rounds are
 * added however short the time is. Returns as points_measure().
 */
int points_measure_until(struct lab *lab, struct point *points, size_t count,
                         bool (*decided)(const void *context), const void *context);

#endif
