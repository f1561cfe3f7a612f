/*
 * Merges the results of runs that were made at the same time, such as on several machines. The times of
 * the result count from the first begin of a measurement, by the wall clocks. Main thread.
 */
#ifndef LOADGEN_MERGE_H
#define LOADGEN_MERGE_H

#include "loadgen/stats/result.h"

/*
 * Fills *plan, which has the settings of the report, with the load of COUNT plans together: connections,
 * threads, requests and rates are summed.
 */
void merge_plans(struct plan *plan, const struct result *const *from, size_t count);

/*
 * Fills *into, all zero bytes but for its plan, from COUNT results with a url. Counts are added exactly,
 * histograms bucket by bucket. CPU use of the machine and the comparison with the server become
 * unknown. Returns false if out of memory; release *into in either case.
 */
bool merge_results(struct result *into, const struct result *const *from, size_t count);

#endif
