/*
 * Traces: orders in which numbered files are asked for, made from a seed, the same each time. Pure.
 */
#ifndef LOADGEN_LAB_TRACE_H
#define LOADGEN_LAB_TRACE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Fills COUNT numbers below FILES by Zipf's law: file k (from 0) is asked for in proportion to
 * 1 / (k + 1)^EXPONENT. Web requests have exponents of 0.6 to 1 (Breslau et al., "Web Caching and
 * Zipf-like Distributions", INFOCOM 1999). Returns 0, or -1 without memory.
 */
int trace_zipf(uint32_t *numbers, size_t count, uint32_t files, double exponent, uint64_t seed);

/*
 * Puts scans over a trace: again and again, behind GAP numbers, LENGTH of them are replaced by files
 * from FIRST on that come one after the other, up to FILES, and then from FIRST again.
 */
void trace_add_scans(uint32_t *numbers, size_t count, size_t gap, size_t length, uint32_t first,
                     uint32_t files);

#endif
