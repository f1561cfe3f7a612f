/*
 * How findings are laid out: as text for a terminal, and as pages that need nothing but themselves.
 * They only format. Main thread.
 */
#ifndef LOADGEN_LAB_LAB_REPORT_H
#define LOADGEN_LAB_LAB_REPORT_H

#include "loadgen/lab/findings.h"
#include "loadgen/lab/machine.h"

#include <stdio.h>

/* How a sentence of that kind begins: "Met: ", or nothing. */
const char *lab_report_mark(enum findings_kind kind);

/* About 80 columns. */
void lab_text_machine(FILE *out, const struct machine *machine);
void lab_text_findings(FILE *out, const struct findings *findings);

/* A whole page of one experiment. */
void lab_page_findings(FILE *out, const struct findings *findings, const struct machine *machine);

/* A page with links to the pages NAME.html of COUNT experiments, and what each found. */
void lab_page_index(FILE *out, const struct findings *const *findings, size_t count,
                    const struct machine *machine);

#endif
