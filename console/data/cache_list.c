#include "console/data/cache_list.h"

#include "common/escape.h"

#include <stdlib.h>
#include <string.h>

const char *const cache_order_names[CACHE_ORDERS] = {"hits", "size", "age", "path"};

int cache_list_add(struct cache_list *list, const struct cache_copy *entry, uint64_t hits)
{
    struct cache_row *row;

    if (list->count == list->room) {
        size_t room = list->room == 0 ? 256 : list->room * 2;
        struct cache_row *larger = realloc(list->rows, room * sizeof(*larger));

        if (larger == NULL)
            return -1;
        list->rows = larger;
        list->room = room;
    }
    row = &list->rows[list->count++];
    *row = (struct cache_row){.copies = 1,
                              .stale = entry->state == CACHE_SLOT_STALE,
                              .bytes = entry->bytes,
                              .hits = hits,
                              .stored_ns = entry->stored_ns};
    escape_bytes(row->path, sizeof(row->path), entry->path,
                 strnlen(entry->path, sizeof(entry->path)));
    list->bytes += entry->bytes;
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct cache_row *)a)->path, ((const struct cache_row *)b)->path);
}

static void join(struct cache_row *into, const struct cache_row *from)
{
    into->copies += from->copies;
    into->stale += from->stale;
    into->bytes += from->bytes;
    into->hits += from->hits;
    if (from->stored_ns < into->stored_ns)
        into->stored_ns = from->stored_ns;
}

void cache_list_finish(struct cache_list *list)
{
    size_t kept = 0;

    if (list->count == 0)
        return;
    qsort(list->rows, list->count, sizeof(*list->rows), by_path);
    for (size_t i = 1; i < list->count; i++) {
        if (strcmp(list->rows[i].path, list->rows[kept].path) == 0)
            join(&list->rows[kept], &list->rows[i]);
        else if (++kept != i)
            list->rows[kept] = list->rows[i];
    }
    list->count = kept + 1;
}

/* A cheap check, to copy only entries in use. */
static bool in_use(const struct segment_cache_entry *entry)
{
    return atomic_load_explicit(&entry->state, memory_order_relaxed) != CACHE_SLOT_FREE;
}

static int take_worker(struct cache_list *list, const struct segment_reader *reader,
                       uint32_t worker)
{
    const struct segment_cache_entry *table = segment_cache(&reader->map, worker);
    struct cache_copy entry;

    for (uint32_t slot = 0; slot < reader->map.header->cache_entries; slot++) {
        if (!in_use(&table[slot]) || !segment_read_cache(&table[slot], &entry) ||
            entry.state == CACHE_SLOT_FREE)
            continue;
        if (cache_list_add(list, &entry,
                           segment_cache_hits(&reader->map, worker, slot, entry.id)) != 0)
            return -1;
    }
    return 0;
}

int cache_list_take(struct cache_list *list, const struct segment_reader *reader, uint64_t wall_ns)
{
    int result = 0;

    list->count = 0;
    list->bytes = 0;
    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_WORKERS) && result == 0; i++)
        if (segment_slot_reserved(segment_worker_slot(&reader->map, i)))
            result = take_worker(list, reader, i);
    if (result != 0)
        list->count = 0;
    cache_list_finish(list);
    list->taken_ns = wall_ns;
    return result;
}

void cache_list_release(struct cache_list *list)
{
    free(list->rows);
    *list = (struct cache_list){0};
}

struct sorting {
    enum cache_order order;
    bool reversed;
};

static int compare_numbers(uint64_t left, uint64_t right)
{
    return left > right ? -1 : left < right;
}

static int compare(const void *a, const void *b, void *context)
{
    const struct cache_row *left = *(const struct cache_row *const *)a;
    const struct cache_row *right = *(const struct cache_row *const *)b;
    const struct sorting *sorting = context;
    int result = sorting->order == CACHE_BY_HITS   ? compare_numbers(left->hits, right->hits)
                 : sorting->order == CACHE_BY_SIZE ? compare_numbers(left->bytes, right->bytes)
                 : sorting->order == CACHE_BY_AGE
                     ? compare_numbers(left->stored_ns, right->stored_ns)
                     : 0;

    if (result == 0)
        result = strcmp(left->path, right->path);
    return sorting->reversed ? -result : result;
}

void cache_list_sort(const struct cache_list *list, enum cache_order order, bool reversed,
                     const struct cache_row **rows)
{
    struct sorting sorting = {order, reversed};

    for (size_t i = 0; i < list->count; i++)
        rows[i] = &list->rows[i];
    if (list->count > 0)
        qsort_r(rows, list->count, sizeof(*rows), compare, &sorting);
}
