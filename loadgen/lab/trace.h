/*
 * Traces: orders in which numbered files are requested, the same for the same seed; and a cache
 * that only counts, to tell how many of the requests would be hits. Pure.
 */
#ifndef LOADGEN_LAB_TRACE_H
#define LOADGEN_LAB_TRACE_H

#include "common/cache_policy.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Fills COUNT numbers below FILES by Zipf's law: file k (from 0) is requested in proportion to
 * 1 / (k + 1)^EXPONENT. Web requests have exponents of 0.6 to 1 (Breslau et al., "Web Caching and
 * Zipf-like Distributions", INFOCOM 1999). Returns 0, or -1 if out of memory.
 */
int trace_zipf(uint32_t *numbers, size_t count, uint32_t files, double exponent, uint64_t seed);

/*
 * Adds scans to a trace: after every GAP numbers, LENGTH numbers are replaced by consecutive files,
 * beginning with FIRST; after file FILES - 1 comes FIRST again.
 */
void trace_add_scans(uint32_t *numbers, size_t count, size_t gap, size_t length, uint32_t first,
                     uint32_t files);

/*
 * The hits among COUNT NUMBERS, which are below FILES, in percent, in a cache for ROOM files that
 * begins empty and evicts by POLICY, the server's own code. NAN if out of memory.
 */
double cache_simulate(const struct cache_policy *policy, const uint32_t *numbers, size_t count,
                      uint32_t files, size_t room);

#endif
