/*
 * Reads requests from a file, one per line:
 *
 *     [METHOD] URL [WEIGHT]                              a list; # begins a comment
 *     host - - [time] "GET /path HTTP/1.1" 200 …         an access log, common or combined
 *     {"time": …, "method": …, "target": …} or "request" an access log in JSON
 *
 * The format is recognized line by line. An invalid line of a log is skipped and counted: a log that was
 * copied while it was written ends with an incomplete line.
 */
#ifndef LOADGEN_REQUEST_FILE_H
#define LOADGEN_REQUEST_FILE_H

#include "loadgen/plan/request_plan.h"

/*
 * Adds the requests of FILE; with TIMES it must be an access log with times. Returns 0, or -1 with
 * WHY.
 */
int request_file_read(struct request_plan *request_plan, const char *file, bool times, char *why,
                      size_t size);

#endif
