/* The conclusions of a sweep, as sentences. Pure. */
#ifndef LOADGEN_SWEEP_FINDINGS_H
#define LOADGEN_SWEEP_FINDINGS_H

#include "loadgen/sweep/sweep.h"

/* Fills the intervals, zones, limits, findings and notes of SWEEP from its trials. */
void sweep_conclude(struct sweep *sweep);

/* For JSON, by enum sweep_limit. */
extern const char *const sweep_limit_names[];

#endif
