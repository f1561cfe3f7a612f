/*
 * A document as a self-contained HTML page with SVG plots, for small screens, dark mode and print,
 * too. Main thread.
 */
#ifndef LOADGEN_REPORT_HTML_H
#define LOADGEN_REPORT_HTML_H

#include "loadgen/report/document.h"

#include <stdio.h>

/* As document_write_text(). */
int document_write_html(FILE *out, const struct document *document);

#endif
