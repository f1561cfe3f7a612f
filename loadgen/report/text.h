/* A document as text for a terminal or a file, 80 columns wide. Main thread. */
#ifndef LOADGEN_REPORT_TEXT_H
#define LOADGEN_REPORT_TEXT_H

#include "loadgen/report/document.h"

#include <stdio.h>

/*
 * COLOUR emphasises by escape sequences. Returns 0, or -1 with ENOMEM when the document is
 * incomplete. Errors of OUT are left to the caller (ferror()).
 */
int document_write_text(FILE *out, const struct document *document, bool colour);

/* Title, plot and legend, drawn with characters. Writes nothing if no line has a point. */
void plot_write_text(FILE *out, const struct plot *plot);

#endif
