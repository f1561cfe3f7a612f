/* The report of a run for people: its facts, tables and plots. Main thread. */
#ifndef LOADGEN_REPORT_RESULT_DOCUMENT_H
#define LOADGEN_REPORT_RESULT_DOCUMENT_H

#include "loadgen/report/document.h"
#include "loadgen/stats/result.h"

/* Returns NULL with ENOMEM. The caller frees it. */
struct document *result_document(const struct result *result);

#endif
