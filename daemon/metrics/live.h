/* The data of the live page, page/. */
#ifndef DAEMON_METRICS_LIVE_H
#define DAEMON_METRICS_LIVE_H

#include "common/segment.h"

#include <stdio.h>

/*
 * Writes one server-sent event of the live page (HTML Living Standard, section 9.2), "data: ", a
 * JSON object in one line, and an empty line: counters since the start, latency of the last second,
 * and what each serving thread does.
 */
void live_write(FILE *out, const struct segment *segment);

/*
 * A JSON object: the names of "counters", and "samples", one per second of the last 15 minutes, the
 * oldest first. A sample is an array: time in ms since 1970, the counters, responses from 2xx to
 * 5xx, and the 99th percentile of the latency in ns, or null.
 */
void live_write_history(FILE *out, const struct segment *segment);

/* A JSON object: the busiest "hosts", the "certificates" in use, the last "events". */
void live_write_details(FILE *out, const struct segment *segment);

#endif
