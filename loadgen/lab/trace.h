/*
 * Traces: sequences of requests for numbered files, reproducible from a seed; and a simulated cache
 * that counts the hits of a trace. Pure.
 */
#ifndef LOADGEN_LAB_TRACE_H
#define LOADGEN_LAB_TRACE_H

#include "common/cache_policy.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Fills NUMBERS with COUNT file numbers from 0 to FILES - 1 by Zipf's law: file k has a probability
 * proportional to 1 / (k + 1)^EXPONENT. Web requests have exponents of 0.6 to 1 (Breslau et al.,
 * "Web Caching and Zipf-like Distributions", INFOCOM 1999). Returns 0, or -1 if out of memory.
 */
int trace_zipf(uint32_t *numbers, size_t count, uint32_t files, double exponent, uint64_t seed);

/*
 * Adds scans to a trace: after every GAP numbers, LENGTH numbers are replaced by consecutive files,
 * beginning with FIRST; after file FILES - 1 comes FIRST again.
 */
void trace_add_scans(uint32_t *numbers, size_t count, size_t gap, size_t length, uint32_t first,
                     uint32_t files);

/*
 * The hit ratio in percent of COUNT requests for NUMBERS (0 to FILES - 1) in an initially empty
 * cache of ROOM files that evicts by POLICY, the code that the server uses. NAN if out of memory.
 */
double cache_simulate(const struct cache_policy *policy, const uint32_t *numbers, size_t count,
                      uint32_t files, size_t room);

#endif
