/* Reads the result of a run back from its JSON report (json.h). Main thread. */
#ifndef LOADGEN_JSON_READER_H
#define LOADGEN_JSON_READER_H

#include "loadgen/stats/result.h"

/* A result, with as much of its plan as reports and merging need. */
struct stored_result {
    struct plan plan;
    struct result result;
    char *method; /* owned, of PLAN */
};

/*
 * Reads FILE, which must be the report of a single run or a merged one. Returns NULL with WHY, which
 * names the file and the member that is wrong.
 */
struct stored_result *stored_result_read(const char *file, char *why, size_t size);
void stored_result_free(struct stored_result *stored);

#endif
