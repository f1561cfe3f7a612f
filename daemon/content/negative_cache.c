#include "daemon/content/negative_cache.h"

#include "common/macros.h"
#include "daemon/base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { PLACES = 256, PATH_MAX_KEPT = 2 * CACHE_LINE - 2 * 8 - 4 - 2 };

struct place {
    uint64_t hash;
    uint64_t until_ns; /* 0: empty */
    uint32_t site;
    uint16_t length;
    char path[PATH_MAX_KEPT];
};
static_assert(sizeof(struct place) == 2 * CACHE_LINE, "a place is two cache lines");

struct negative_cache {
    uint64_t seed, max_age_ns;
    struct place places[PLACES];
};

struct negative_cache *negative_cache_new(uint64_t max_age_ns)
{
    struct negative_cache *cache = calloc(1, sizeof(*cache));

    if (cache == NULL)
        return NULL;
    cache->max_age_ns = max_age_ns;
    if (getrandom(&cache->seed, sizeof(cache->seed), 0) != sizeof(cache->seed)) {
        free(cache);
        return NULL;
    }
    return cache;
}

void negative_cache_free(struct negative_cache *cache)
{
    free(cache);
}

static uint64_t hash_of(const struct negative_cache *cache, uint32_t site, struct span path)
{
    return hash_bytes(path.start, path.length, hash_of_site(cache->seed, site));
}

bool negative_cache_has(const struct negative_cache *cache, uint32_t site, struct span path,
                        uint64_t now_ns)
{
    uint64_t hash = hash_of(cache, site, path);
    const struct place *place = &cache->places[hash % PLACES];

    return place->hash == hash && place->site == site && now_ns < place->until_ns &&
           span_is(path, (struct span){place->path, place->length});
}

void negative_cache_add(struct negative_cache *cache, uint32_t site, struct span path,
                        uint64_t now_ns)
{
    uint64_t hash = hash_of(cache, site, path);
    struct place *place = &cache->places[hash % PLACES];

    if (path.length > PATH_MAX_KEPT)
        return;
    place->hash = hash;
    place->site = site;
    place->until_ns = now_ns + cache->max_age_ns;
    place->length = (uint16_t)path.length;
    memcpy(place->path, path.start, path.length);
}

void negative_cache_remove(struct negative_cache *cache, uint32_t site, struct span path)
{
    if (negative_cache_has(cache, site, path, 0))
        cache->places[hash_of(cache, site, path) % PLACES].until_ns = 0;
}

void negative_cache_clear(struct negative_cache *cache)
{
    for (size_t i = 0; i < PLACES; i++)
        cache->places[i].until_ns = 0;
}
