/* What was measured of scenarios, in the document of a run. Main thread. */
#ifndef LOADGEN_SCENARIO_ROWS_H
#define LOADGEN_SCENARIO_ROWS_H

#include "loadgen/report/document.h"
#include "loadgen/stats/result.h"

/* Adds a table of scenarios and steps, and a note for each step without a value that it takes. */
void scenarios_document(struct document *document, const struct result *result);

#endif
