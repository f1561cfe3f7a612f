/*
 * Stored load runs, newest first: one JSON file each in $XDG_STATE_HOME/webserverd/runs (default
 * ~/.local/state/webserverd/runs). Single thread.
 */
#ifndef CONSOLE_LOAD_STORE_H
#define CONSOLE_LOAD_STORE_H

#include "console/load/run.h"

enum { LOAD_STORE_MAX = 200, LOAD_NAME_BYTES = 48 };

/* The summary of a stored run. */
struct load_entry {
    char name[LOAD_NAME_BYTES]; /* file name */
    uint64_t started_ns;        /* wall clock */
    struct load_settings settings;
    char url[LOAD_TEXT_BYTES];
    struct load_totals totals;
    enum load_check check;
};

struct load_store {
    struct load_entry *entries;
    size_t count;
};

/* Reads the directory; files that are not runs are skipped. All functions that return int return 0,
 * or -1 with an error message in WHY. */
int load_store_read(struct load_store *store, char *why, size_t size);
void load_store_release(struct load_store *store);

/* Stores RUN and deletes the oldest runs above LOAD_STORE_MAX. */
int load_store_add(struct load_store *store, const struct load_run *run, char *why, size_t size);

/* Reads the complete run. */
int load_store_get(const struct load_entry *entry, struct load_run *run, char *why, size_t size);

/* Deletes entry I and its file. */
int load_store_remove(struct load_store *store, size_t i, char *why, size_t size);

/* One line of a comparison. */
struct load_difference {
    const char *label;
    double before, after; /* NAN: unknown */
    int unit;             /* enum graph_unit */
    bool less_is_better;
};

enum { LOAD_DIFFERENCES = 8 };

/* Fills all LOAD_DIFFERENCES lines. Pure. */
void load_compare(const struct load_totals *before, const struct load_totals *after,
                  struct load_difference *differences);

#endif
