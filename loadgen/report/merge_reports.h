/* Merges JSON reports of runs that were made at the same time, such as on several machines. Main thread. */
#ifndef LOADGEN_MERGE_REPORTS_H
#define LOADGEN_MERGE_REPORTS_H

#include "loadgen/report/json_reader.h"

/*
 * Merges the reports in the files plan->urls. The report of the result has the settings of PLAN, such as
 * its format, percentiles and conditions. Returns NULL with WHY; release with stored_result_free().
 */
struct stored_result *merge_reports(const struct plan *plan, char *why, size_t size);

#endif
