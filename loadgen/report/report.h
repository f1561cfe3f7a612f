/* The reports of a run, in the formats of plan/formats.def. Main thread. */
#ifndef LOADGEN_REPORT_REPORT_H
#define LOADGEN_REPORT_REPORT_H

#include "loadgen/report/document.h"
#include "loadgen/stats/result.h"

#include <stdio.h>

/*
 * Writes RESULT in the format of its plan. COLOUR allows emphasis by escape sequences in text.
 * Returns 0, or -1 with errno. Errors of OUT are left to the caller (ferror()).
 */
int report_write(FILE *out, const struct result *result, bool colour);

/*
 * Writes DOCUMENT in FORMAT (text or HTML) and frees it. DOCUMENT may be NULL: out
 * of memory. Returns as report_write().
 */
int report_write_document(FILE *out, struct document *document, enum plan_format format,
                          bool colour);

#endif
