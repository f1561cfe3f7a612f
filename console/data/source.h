/*
 * Where the console's numbers come from: the shared memory of one instance. Attaches, notices when
 * the daemon ends or another one takes its name, and attaches again. The console's only thread.
 */
#ifndef CONSOLE_SOURCE_H
#define CONSOLE_SOURCE_H

#include "common/segment_reader.h"

#include <stdbool.h>
#include <stdint.h>

enum source_state {
    SOURCE_ABSENT, /* nothing to see: no daemon has run since this console started */
    SOURCE_LIVE,   /* attached to a running daemon */
    SOURCE_SILENT, /* attached; its master has not given a sign of life for some seconds */
    SOURCE_ENDED,  /* still mapped, but that daemon has stopped or died: its last moment */
};

struct source;

/* Begins to look for the instance NAME (copied). NULL when memory is out. */
struct source *source_open(const char *name);
void source_close(struct source *source);

/*
 * Looks after the attachment; does nothing until its next look is due, so it may be called at any
 * rate. NOW_NS is the monotonic clock. Returns true when a daemon was attached that was not before:
 * everything learnt from the reader is then out of date.
 */
bool source_update(struct source *source, uint64_t now_ns);

enum source_state source_state(const struct source *source);

/*
 * A source that is told what there is instead of looking for it: READER is copied, what it reads
 * stays the caller's and as it is until the next call. NULL: nothing yet. WHY as source_why() shall
 * tell it. Only for one that has never been updated.
 */
void source_show(struct source *source, const struct segment_reader *reader,
                 enum source_state state, const char *why);

/* One sentence on why there is nothing, or what has ended; "" while all is well. */
const char *source_why(const struct source *source);

const char *source_name(const struct source *source);

/* The mapped segment, or NULL in SOURCE_ABSENT. Valid until the next source_update(). */
const struct segment_reader *source_reader(const struct source *source);

#endif
