/* A document as JSON, to be read again by the same version. Main thread. */
#ifndef LOADGEN_REPORT_DOCUMENT_JSON_H
#define LOADGEN_REPORT_DOCUMENT_JSON_H

#include "loadgen/report/document.h"

#include <jansson.h>

/* Returns NULL if the document is incomplete or memory runs out. */
json_t *document_to_json(const struct document *document);

/*
 * Adds to DOCUMENT, which is empty, what document_to_json() wrote. Returns 0, or -1: not such JSON,
 * or out of memory.
 */
int document_from_json(struct document *document, const json_t *json);

#endif
