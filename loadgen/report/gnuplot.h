/*
 * The plots of a document as one PNG picture, drawn by gnuplot (http://www.gnuplot.info), a program
 * that may not be installed. Main thread.
 */
#ifndef LOADGEN_REPORT_GNUPLOT_H
#define LOADGEN_REPORT_GNUPLOT_H

#include "loadgen/report/document.h"

#include <stdio.h>

/* Whether the program is on the path. */
bool gnuplot_is_installed(void);

/*
 * Draws the plots in two columns, below the title and the strong facts. Returns 0, or -1 with
 * errno: ENOMEM when the document is incomplete, EIO when gnuplot failed; its message is on
 * standard error.
 */
int document_write_png(FILE *out, const struct document *document);

#endif
