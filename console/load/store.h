/*
 * Past load runs, one file each in $XDG_STATE_HOME/webserverd/runs (else ~/.local/state/...), the
 * newest first. The console's only thread.
 */
#ifndef CONSOLE_RUN_STORE_H
#define CONSOLE_RUN_STORE_H

#include "console/load/run.h"

enum { RUN_STORE_MOST = 200, RUN_NAME_BYTES = 48 };

/* A kept run in short. */
struct run_entry {
    char name[RUN_NAME_BYTES]; /* of its file */
    uint64_t started_ns;
    struct load_settings settings;
    char url[LOAD_TEXT_BYTES];
    struct load_totals totals;
    enum load_check check;
};

struct run_store {
    struct run_entry *entries;
    size_t count;
};

/* Reads what is there; what is no run is passed over. Returns 0, or -1 with WHY. */
int run_store_read(struct run_store *store, char *why, size_t size);
void run_store_release(struct run_store *store);

/* Keeps RUN; the oldest go when there are more than RUN_STORE_MOST. Returns 0, or -1 with WHY. */
int run_store_add(struct run_store *store, const struct load_run *run, char *why, size_t size);

/* Reads one whole. Returns 0, or -1 with WHY. */
int run_store_load(const struct run_entry *entry, struct load_run *run, char *why, size_t size);

/* Removes one for good. Returns 0, or -1 with WHY. */
int run_store_remove(struct run_store *store, size_t i, char *why, size_t size);

/* One line of a comparison of two runs. */
struct run_difference {
    const char *label;
    double before, after; /* NAN: not known */
    int unit;             /* enum graph_unit */
    bool less_is_better;
};

enum { RUN_DIFFERENCES = 8 };

/* Fills all RUN_DIFFERENCES lines. Pure. */
void run_compare(const struct load_totals *before, const struct load_totals *after,
                 struct run_difference *differences);

#endif
