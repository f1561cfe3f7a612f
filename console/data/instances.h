/* The instances on this machine: which ones run, their control sockets, and attachment to one. */
#ifndef CONSOLE_INSTANCES_H
#define CONSOLE_INSTANCES_H

#include "common/instance.h"
#include "common/segment_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { INSTANCES_MAX = 64 };

struct instance {
    char name[INSTANCE_NAME_MAX + 1];
    char listening[256];
    int32_t pid;
    uint64_t started_ns; /* wall clock */
};

/* Fills LIST with those that run, by name; INSTANCES_MAX at most. Returns how many. */
size_t instances_find(struct instance *list);

/* One line each, or one that says that none runs. */
void instances_print(FILE *out);

/*
 * Writes the path of the control socket of the instance NAME into PATH: GIVEN if there is one (not
 * NULL), else what the instance's shared memory says, else where an instance of that name would
 * have it. Returns 0, or -1 with a sentence in WHY.
 */
int target_socket(const char *name, const char *given, char *path, size_t path_size, char *why,
                  size_t size);

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
