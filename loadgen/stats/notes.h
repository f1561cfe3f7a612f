/* Notes: warnings for the reader of a result. Main thread. */
#ifndef LOADGEN_NOTES_H
#define LOADGEN_NOTES_H

#include "loadgen/stats/result.h"

enum { RESULT_NOTES_MAX = 51, RESULT_NOTE_TEXT = 400 };

struct result_note {
    const char *name; /* for programs */
    char text[RESULT_NOTE_TEXT];
};

/* Fills NOTES, of RESULT_NOTES_MAX elements. Returns how many. */
size_t result_notes(const struct result *result, struct result_note *notes);

#endif
