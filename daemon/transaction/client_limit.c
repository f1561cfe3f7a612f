#include "daemon/transaction/client_limit.h"

#include "common/client_address.h"
#include "daemon/base/hash.h"

#include <pthread.h>
#include <stdlib.h>

enum { PROBES = 16 }; /* number of entries from its home position where a key may be */

struct client_limit {
    pthread_mutex_t lock; /* guards the table against the worker's other threads; innermost */
    const struct segment *segment;
    struct segment_client *table;
};

static uint32_t position_of(const struct segment *segment, uint64_t key, uint32_t probe)
{
    uint64_t hash = hash_mix(key ^ segment_rate(segment)->seed, UINT64_C(0xa0761d6478bd642f));

    return (uint32_t)((hash + probe) % SEGMENT_CLIENTS_PER_WORKER);
}

struct client_limit *client_limit_new(const struct segment *segment, uint32_t worker)
{
    struct client_limit *limit = calloc(1, sizeof(*limit));

    if (limit == NULL)
        return NULL;
    pthread_mutex_init(&limit->lock, NULL);
    limit->segment = segment;
    limit->table = segment_clients(segment, worker);
    return limit;
}

void client_limit_free(struct client_limit *limit)
{
    if (limit == NULL)
        return;
    pthread_mutex_destroy(&limit->lock);
    free(limit);
}

static uint64_t count_of(const struct segment_client *client)
{
    return atomic_load(&client->count);
}

/*
 * Returns the entry of KEY. If there is none, returns NULL and sets *FREE to the first unused entry
 * or NULL.
 */
static struct segment_client *find(const struct client_limit *limit, uint64_t key,
                                   struct segment_client **free)
{
    *free = NULL;
    for (uint32_t i = 0; i < PROBES; i++) {
        struct segment_client *client = &limit->table[position_of(limit->segment, key, i)];

        if (atomic_load_explicit(&client->key, memory_order_relaxed) == key)
            return client;
        if (*free == NULL && count_of(client) == 0)
            *free = client;
    }
    return NULL;
}

/* The count of KEY in one worker's table. An entry changes its key only while its count is 0. */
static uint64_t count_in(const struct segment *segment, uint32_t worker, uint64_t key)
{
    const struct segment_client *table = segment_clients(segment, worker);

    for (uint32_t i = 0; i < PROBES; i++) {
        const struct segment_client *client = &table[position_of(segment, key, i)];
        uint64_t count;

        if (atomic_load(&client->key) != key)
            continue;
        count = count_of(client);
        return atomic_load_explicit(&client->key, memory_order_relaxed) == key ? count : 0;
    }
    return 0;
}

uint64_t client_limit_count(const struct segment *segment, uint64_t key)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_CLIENTS); i++)
        if (segment_worker_reserved(segment, i))
            sum += count_in(segment, i, key);
    return sum;
}

/* The caller holds the lock. */
static bool add(const struct client_limit *limit, uint64_t key)
{
    struct segment_client *free, *client = find(limit, key, &free);

    if (client == NULL && free == NULL)
        return false;
    if (client == NULL) {
        client = free;
        atomic_store(&client->key, key);
    }
    atomic_store(&client->count, count_of(client) + 1);
    return true;
}

static void leave(struct client_limit *limit, uint64_t key)
{
    struct segment_client *free, *client;

    pthread_mutex_lock(&limit->lock);
    client = find(limit, key, &free);
    if (client != NULL)
        atomic_store_explicit(&client->count, count_of(client) - 1, memory_order_release);
    pthread_mutex_unlock(&limit->lock);
}

/*
 * Counts first and then reads, both sequentially consistent, so that of two workers that do so
 * concurrently, at least one sees the other.
 */
static enum client_limit_verdict enter(struct client_limit *limit, uint64_t key, uint64_t max)
{
    bool counted;

    pthread_mutex_lock(&limit->lock);
    counted = add(limit, key);
    pthread_mutex_unlock(&limit->lock);
    if (!counted)
        return CLIENT_LIMIT_UNCOUNTED;
    if (client_limit_count(limit->segment, key) <= max)
        return CLIENT_LIMIT_COUNTED;
    leave(limit, key);
    return CLIENT_LIMIT_EXCEEDED;
}

void client_limit_leave(struct client_limit *limit, uint64_t key)
{
    uint64_t site = client_site_key(key);

    leave(limit, key);
    if (site != 0)
        leave(limit, site);
}

enum client_limit_verdict client_limit_enter(struct client_limit *limit, uint64_t key, uint32_t max)
{
    uint64_t site = client_site_key(key);
    enum client_limit_verdict verdict = CLIENT_LIMIT_COUNTED;

    if (site != 0)
        verdict = enter(limit, site, CLIENT_SITE_FACTOR * (uint64_t)max);
    if (verdict != CLIENT_LIMIT_COUNTED)
        return verdict;
    verdict = enter(limit, key, max);
    if (verdict != CLIENT_LIMIT_COUNTED && site != 0)
        leave(limit, site);
    return verdict;
}

bool client_limit_exceeds(const struct segment *segment, uint64_t key, uint32_t max)
{
    uint64_t site = client_site_key(key);

    return client_limit_count(segment, key) > max ||
           (site != 0 && client_limit_count(segment, site) > CLIENT_SITE_FACTOR * (uint64_t)max);
}
