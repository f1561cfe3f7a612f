/*
 * The contents of the caches: one row per path, over all workers. Read from the workers' cache tables
 * and the threads' hit counters without a lock and without involving the server. The cost grows with
 * the size of the tables, so it is read twice a second at most and only while a view wants it. The
 * console's only thread.
 */
#ifndef CONSOLE_CACHE_LIST_H
#define CONSOLE_CACHE_LIST_H

#include "common/segment_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_PATH_BYTES = SEGMENT_CACHE_PATH_WORDS * 8 };

struct cache_row {
    char path[CACHE_PATH_BYTES]; /* printable ASCII */
    uint32_t copies;             /* workers that hold it */
    uint32_t stale;              /* of those, replaced but still in use */
    uint64_t bytes;              /* of all copies */
    uint64_t hits;               /* of all copies, since they were stored */
    uint64_t stored_ns;          /* wall clock, of the oldest copy */
};

struct cache_list {
    struct cache_row *rows; /* by path */
    size_t count, room;
    uint64_t bytes;    /* of all rows */
    uint64_t taken_ns; /* wall clock; 0: never */
};

/* Reads all tables. Returns 0, or -1: out of memory, the list is empty. */
int cache_list_take(struct cache_list *list, const struct segment_reader *reader, uint64_t wall_ns);

/* Adds one copy of an entry; cache_list_finish() merges the copies by path. -1: out of memory. */
int cache_list_add(struct cache_list *list, const struct cache_copy *entry, uint64_t hits);
void cache_list_finish(struct cache_list *list);

void cache_list_release(struct cache_list *list);

enum cache_order { CACHE_BY_HITS, CACHE_BY_SIZE, CACHE_BY_AGE, CACHE_BY_PATH, CACHE_ORDERS };
extern const char *const cache_order_names[CACHE_ORDERS];

/*
 * Fills ROWS (list->count of them) with pointers to the rows: largest first, by age newest first, by
 * path A to Z; REVERSED: the other way round.
 */
void cache_list_sort(const struct cache_list *list, enum cache_order order, bool reversed,
                     const struct cache_row **rows);

#endif
