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

/* A document as a part of a page, with an entry in its table of contents. */
struct html_chapter {
    const char *anchor;   /* its id in the page */
    const char *question; /* below its title */
    const char *summary;  /* in the table of contents */
    const char *remark;   /* at its end */
    const struct document *document;
    size_t sections; /* of the document, from the first one on, that are part of the page */
};

/* One page of COUNT chapters. FRONT has the title, and sections before the table of contents. */
int document_write_html_chapters(FILE *out, const struct document *front,
                                 const struct html_chapter *chapters, size_t count);

#endif
