/*
 * The state of the server for the live page, as server-sent events (HTML Living Standard, section 9.2):
 * counters since the start, latency of the last second, and what each serving thread does.
 */
#ifndef DAEMON_METRICS_LIVE_H
#define DAEMON_METRICS_LIVE_H

#include "common/segment.h"

#include <stdio.h>

/* Writes one event: "data: ", a JSON object in one line, and an empty line. */
void live_write(FILE *out, const struct segment *segment);

#endif
