/*
 * The metrics of a server as text: Prometheus text format 0.0.4, and OpenMetrics 1.0. Names, types,
 * units and help follow from common/metrics.def: a counter ends in _total, times are seconds, and
 * responses_200 is webserverd_responses_total{code="200"}. Each sample has the labels of its block:
 * worker and thread, and goes on over a binary upgrade; "other" are slots that only an earlier master had. The values are those of `wsctl status`.
 */
#ifndef DAEMON_METRICS_EXPOSITION_H
#define DAEMON_METRICS_EXPOSITION_H

#include "common/segment.h"

#include <stdio.h>

enum exposition_format { EXPOSITION_PROMETHEUS, EXPOSITION_OPENMETRICS, EXPOSITION_FORMATS };

/* Values of Content-Type. */
extern const char *const exposition_types[EXPOSITION_FORMATS];

/* Writes all metrics. The segment may be written meanwhile, by processes that are not trusted. */
void exposition_write(FILE *out, const struct segment *segment, enum exposition_format format);

#endif
