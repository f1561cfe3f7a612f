#include "daemon/transaction/client_limit.h"

#include "daemon/base/hash.h"

#include <pthread.h>
#include <stdlib.h>

enum { PROBES = 16 }; /* entries in which a key may be, from its place on */

struct peers {
    pthread_mutex_t lock; /* of the table, against the worker's other threads; nothing inside */
    const struct segment *segment;
    struct segment_client *table;
};

static uint32_t place_of(const struct segment *segment, uint64_t key, uint32_t probe)
{
    uint64_t hash = hash_mix(key ^ segment_rate(segment)->seed, UINT64_C(0xa0761d6478bd642f));

    return (uint32_t)((hash + probe) % SEGMENT_CLIENTS_PER_WORKER);
}

struct peers *peers_new(const struct segment *segment, uint32_t worker)
{
    struct peers *peers = calloc(1, sizeof(*peers));

    if (peers == NULL)
        return NULL;
    pthread_mutex_init(&peers->lock, NULL);
    peers->segment = segment;
    peers->table = segment_clients(segment, worker);
    return peers;
}

void peers_free(struct peers *peers)
{
    if (peers == NULL)
        return;
    pthread_mutex_destroy(&peers->lock);
    free(peers);
}

static uint64_t count_of(const struct segment_client *peer)
{
    return atomic_load_explicit(&peer->count, memory_order_acquire);
}

/* KEY's entry. NULL: it has none; *FREE then is one that it may have, or NULL. */
static struct segment_client *find(const struct peers *peers, uint64_t key,
                                   struct segment_client **free)
{
    *free = NULL;
    for (uint32_t i = 0; i < PROBES; i++) {
        struct segment_client *peer = &peers->table[place_of(peers->segment, key, i)];

        if (atomic_load_explicit(&peer->key, memory_order_relaxed) == key)
            return peer;
        if (*free == NULL && count_of(peer) == 0)
            *free = peer;
    }
    return NULL;
}

/* What one table has for KEY; an entry that changes its key meanwhile has a count of 0 then. */
static uint64_t count_in(const struct segment *segment, uint32_t worker, uint64_t key)
{
    const struct segment_client *table = segment_clients(segment, worker);

    for (uint32_t i = 0; i < PROBES; i++) {
        const struct segment_client *peer = &table[place_of(segment, key, i)];
        uint64_t count;

        if (atomic_load_explicit(&peer->key, memory_order_acquire) != key)
            continue;
        count = count_of(peer);
        return atomic_load_explicit(&peer->key, memory_order_relaxed) == key ? count : 0;
    }
    return 0;
}

uint64_t peers_count(const struct segment *segment, uint64_t key)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_CLIENTS); i++)
        if (segment_slot_reserved(segment_worker_slot(segment, i)))
            sum += count_in(segment, i, key);
    return sum;
}

/* With the lock. */
static bool add(const struct peers *peers, uint64_t key)
{
    struct segment_client *free, *peer = find(peers, key, &free);

    if (peer == NULL && free == NULL)
        return false;
    if (peer == NULL) {
        peer = free;
        atomic_store_explicit(&peer->key, key, memory_order_release);
    }
    atomic_store(&peer->count, count_of(peer) + 1); /* before others are read: see peers_enter() */
    return true;
}

void peers_leave(struct peers *peers, uint64_t key)
{
    struct segment_client *free, *peer;

    pthread_mutex_lock(&peers->lock);
    peer = find(peers, key, &free);
    if (peer != NULL)
        atomic_store_explicit(&peer->count, count_of(peer) - 1, memory_order_release);
    pthread_mutex_unlock(&peers->lock);
}

/* Counts first and looks then: of two workers that do so at once, one at least sees the other. */
enum peers_verdict peers_enter(struct peers *peers, uint64_t key, uint32_t most)
{
    bool counted;

    pthread_mutex_lock(&peers->lock);
    counted = add(peers, key);
    pthread_mutex_unlock(&peers->lock);
    if (!counted)
        return PEERS_UNCOUNTED;
    atomic_thread_fence(memory_order_seq_cst);
    if (peers_count(peers->segment, key) <= most)
        return PEERS_COUNTED;
    peers_leave(peers, key);
    return PEERS_TOO_MANY;
}
