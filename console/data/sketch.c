#include "console/data/sketch.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a */
static uint32_t hash_of(const char *key, size_t length)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)key[i]) * 16777619u;
    return hash;
}

static size_t kept_length(size_t length)
{
    return length < SKETCH_KEY_BYTES ? length : SKETCH_KEY_BYTES - 1;
}

static uint32_t find(const struct sketch *sketch, uint32_t hash, const struct sketch_item *item)
{
    size_t length = kept_length(item->length);

    for (uint32_t i = 0; i < sketch->used; i++)
        if (sketch->hash[i] == hash && memcmp(sketch->entry[i].key, item->key, length) == 0 &&
            sketch->entry[i].key[length] == '\0')
            return i;
    return SKETCH_KEYS;
}

static uint32_t least_of(const struct sketch *sketch)
{
    uint32_t least = 0;

    for (uint32_t i = 1; i < sketch->used; i++)
        if (sketch->rank[i] < sketch->rank[least])
            least = i;
    return least;
}

/* A place for a new key, or SKETCH_KEYS when all that are there outrank it for good. */
static uint32_t place_for(struct sketch *sketch, enum sketch_order order,
                          const struct sketch_item *item)
{
    uint32_t place;

    if (sketch->used < SKETCH_KEYS) {
        sketch->entry[sketch->used] = (struct sketch_entry){0};
        return sketch->used++;
    }
    place = least_of(sketch);
    if (order == SKETCH_BY_LONGEST && item->longest_ns <= sketch->rank[place])
        return SKETCH_KEYS;
    sketch->entry[place] = (struct sketch_entry){
        .count = order == SKETCH_BY_COUNT ? sketch->entry[place].count : 0,
        .error = order == SKETCH_BY_COUNT ? sketch->entry[place].count : 0,
    };
    return place;
}

void sketch_add(struct sketch *sketch, enum sketch_order order, const struct sketch_item *item)
{
    uint32_t hash = hash_of(item->key, kept_length(item->length)), place = find(sketch, hash, item);
    struct sketch_entry *entry;

    if (place == SKETCH_KEYS) {
        place = place_for(sketch, order, item);
        if (place == SKETCH_KEYS)
            return;
        sketch->hash[place] = hash;
        memcpy(sketch->entry[place].key, item->key, kept_length(item->length));
    }
    entry = &sketch->entry[place];
    entry->count += item->count;
    entry->error += item->error;
    entry->bytes += item->bytes;
    entry->duration_ns += item->duration_ns;
    if (item->longest_ns > entry->longest_ns)
        entry->longest_ns = item->longest_ns;
    sketch->rank[place] = order == SKETCH_BY_COUNT ? entry->count : entry->longest_ns;
}

static int more_counted(const void *a, const void *b)
{
    const struct sketch_entry *left = a, *right = b;

    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return strcmp(left->key, right->key);
}

static int longer(const void *a, const void *b)
{
    const struct sketch_entry *left = a, *right = b;

    if (left->longest_ns != right->longest_ns)
        return left->longest_ns > right->longest_ns ? -1 : 1;
    return strcmp(left->key, right->key);
}

void sketch_sort(struct sketch *sketch, enum sketch_order order)
{
    qsort(sketch->entry, sketch->used, sizeof(*sketch->entry),
          order == SKETCH_BY_COUNT ? more_counted : longer);
}
