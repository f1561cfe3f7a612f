/*
 * Makes requests from an OpenAPI description, 3.0 or 3.1 in JSON: one for each operation, with the values that the
 * description gives as examples or defaults. They go to the server of the first request of the plan, below the path of
 * the described server.
 *
 * An operation without a value for a parameter or body that it requires is skipped.
 */
#ifndef LOADGEN_OPENAPI_FILE_H
#define LOADGEN_OPENAPI_FILE_H

#include "loadgen/plan/request_plan.h"

/* Adds the requests of FILE, and counts and names the operations that it skips. Returns 0, or -1 with WHY. */
int openapi_file_read(struct request_plan *request_plan, const char *file, char *why, size_t size);

#endif
