/*
 * A cache that only counts: how many of a trace's requests would be hits with room for so many files,
 * under an eviction policy of the server's own (common/cache_policy.h). Pure.
 */
#ifndef LOADGEN_LAB_CACHE_SIMULATION_H
#define LOADGEN_LAB_CACHE_SIMULATION_H

#include "common/cache_policy.h"

#include <stdint.h>

/*
 * Hits among COUNT NUMBERS, which are below FILES, in a cache with room for ROOM files that begins
 * empty, in percent; NAN without memory.
 */
double cache_simulate(const struct cache_policy *policy, const uint32_t *numbers, size_t count,
                      uint32_t files, size_t room);

#endif
