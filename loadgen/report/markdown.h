/* A document as Markdown with tables (GitHub Flavored Markdown). Main thread. */
#ifndef LOADGEN_REPORT_MARKDOWN_H
#define LOADGEN_REPORT_MARKDOWN_H

#include "loadgen/report/document.h"

#include <stdio.h>

/* As document_write_text(). Plots and the legend are left out. */
int document_write_markdown(FILE *out, const struct document *document);

#endif
