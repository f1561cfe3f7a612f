/*
 * A document as an HTML page that needs nothing beside itself, with its plots as SVG. Readable on a
 * phone, in the dark and on paper. Main thread.
 */
#ifndef LOADGEN_REPORT_HTML_H
#define LOADGEN_REPORT_HTML_H

#include "loadgen/report/document.h"

#include <stdio.h>

/* As document_write_text(). */
int document_write_html(FILE *out, const struct document *document);

#endif
