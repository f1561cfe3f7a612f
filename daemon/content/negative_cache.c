#include "daemon/content/negative_cache.h"

#include "common/macros.h"
#include "daemon/base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { PLACES = 256, PATH_MAX_KEPT = 2 * CACHE_LINE - 2 * 8 - 2 };

struct place {
    uint64_t hash;
    uint64_t until_ns; /* 0: nothing here */
    uint16_t length;
    char path[PATH_MAX_KEPT];
};
static_assert(sizeof(struct place) == 2 * CACHE_LINE, "a place is two lines");

struct missing {
    uint64_t seed, patience_ns;
    struct place places[PLACES];
};

struct missing *missing_new(uint64_t patience_ns)
{
    struct missing *missing = calloc(1, sizeof(*missing));

    if (missing == NULL)
        return NULL;
    missing->patience_ns = patience_ns;
    if (getrandom(&missing->seed, sizeof(missing->seed), 0) != sizeof(missing->seed)) {
        free(missing);
        return NULL;
    }
    return missing;
}

void missing_free(struct missing *missing)
{
    free(missing);
}

bool missing_has(const struct missing *missing, struct span path, uint64_t now_ns)
{
    uint64_t hash = hash_bytes(path.start, path.length, missing->seed);
    const struct place *place = &missing->places[hash % PLACES];

    return place->hash == hash && now_ns < place->until_ns &&
           span_is(path, (struct span){place->path, place->length});
}

void missing_add(struct missing *missing, struct span path, uint64_t now_ns)
{
    uint64_t hash = hash_bytes(path.start, path.length, missing->seed);
    struct place *place = &missing->places[hash % PLACES];

    if (path.length > PATH_MAX_KEPT)
        return;
    place->hash = hash;
    place->until_ns = now_ns + missing->patience_ns;
    place->length = (uint16_t)path.length;
    memcpy(place->path, path.start, path.length);
}

void missing_forget(struct missing *missing)
{
    for (size_t i = 0; i < PLACES; i++)
        missing->places[i].until_ns = 0;
}
