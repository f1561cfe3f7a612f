/*
 * Reads the requests of a HAR 1.2 recording (HTTP Archive), as browsers save it: method, path, header fields and
 * body, in recorded order. They go to the server of the first request of the plan, whatever the recorded host
 * was. Only requests to the host of the first recorded one are kept: a page also loads from hosts of others.
 *
 * Fields that the connection or the length of the body decide (Host, Connection, Content-Length, ...) are
 * not kept. A body must be recorded as text.
 */
#ifndef LOADGEN_HAR_FILE_H
#define LOADGEN_HAR_FILE_H

#include "loadgen/plan/request_plan.h"

/*
 * Adds the requests of FILE; with TIMES, each entry gets its recorded think time. Counts requests that are not
 * kept as skipped. Returns 0, or -1 with WHY.
 */
int har_file_read(struct request_plan *request_plan, const char *file, bool times, char *why,
                  size_t size);

#endif
