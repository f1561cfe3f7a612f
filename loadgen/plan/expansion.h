/*
 * Variables: {{NAME}} in a URL, a header field or a body stands for the value of column NAME of a table (--csv).
 * The requests of a run are first kept as templates, then made for each row of the table. So a request costs no more
 * during the run than one without variables, but each of its forms takes memory. Main thread.
 */
#ifndef LOADGEN_EXPANSION_H
#define LOADGEN_EXPANSION_H

#include "loadgen/plan/request_plan.h"

/*
 * Replaces the templates of REQUEST_PLAN and their entries by the requests of each row: first those of the first
 * row, in the order of the entries. Returns 0, or -1 with WHY.
 */
int expansion_make(struct request_plan *request_plan, const char *file, char *why, size_t size);

#endif
