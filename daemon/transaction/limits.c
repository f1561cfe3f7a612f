#include "daemon/transaction/limits.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "daemon/base/hash.h"
#include "daemon/base/memory_file.h"
#include "daemon/base/mutex.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

/* Requests per second */

/* A claim lasts about ten instructions; if one is older than this, its process has died. */
#define CLAIM_DEAD_NS NS_PER_S

/*
 * All workers write the table, so its content may be anything. Each loop over it is bounded; when a
 * bound is reached, the request is accepted.
 */
enum {
    CLAIM_SPINS = 64,              /* tries before sched_yield() */
    CLAIM_TRIES = CLAIM_SPINS + 8, /* few: sched_yield() may take milliseconds */
    CHARGE_TRIES = 64,
};

/* A consistent copy of the limit. */
struct rate {
    uint64_t interval_ns; /* it separates two requests at the full rate */
    uint64_t ahead_ns;    /* burst: how far the arrival time may be ahead of now */
};

enum charge {
    CHARGE_ACCEPTED,
    CHARGE_REJECTED,
    CHARGE_LOST /* the entry has another key by now */
};

void rate_limit_set(const struct segment *segment, bool enabled, uint32_t requests_per_second,
                    uint32_t burst)
{
    struct segment_rate *rate = segment_rate(segment);

    atomic_store_explicit(&rate->requests_per_second, requests_per_second, memory_order_relaxed);
    atomic_store_explicit(&rate->burst, burst, memory_order_relaxed);
    atomic_store_explicit(&rate->enabled, enabled, memory_order_release);
}

void rate_limit_prepare(const struct segment *segment)
{
    struct segment_rate *rate = segment_rate(segment);

    if (getrandom(&rate->seed, sizeof(rate->seed), 0) != sizeof(rate->seed))
        rate->seed = clock_wall_ns();
}

/* The interval is rounded up so that the rate is never exceeded. */
static struct rate make_rate(uint64_t per_second, uint64_t burst)
{
    uint64_t interval = (NS_PER_S + per_second - 1) / per_second;

    return (struct rate){interval, (burst - 1) * interval};
}

/* FACTOR times the limit. */
static struct rate rate_of(const struct segment *segment, uint64_t factor)
{
    const struct segment_rate *rate = segment_rate(segment);
    uint64_t per_second =
        factor * atomic_load_explicit(&rate->requests_per_second, memory_order_relaxed);
    uint64_t burst = factor * atomic_load_explicit(&rate->burst, memory_order_relaxed);

    return make_rate(per_second, burst);
}

/* That of all workers, or that of one. */
struct rate_table {
    struct segment_rate_bucket *bucket; /* [count] */
    uint32_t count;
    uint64_t seed;
};

static struct rate_table shared_table(const struct segment *segment)
{
    return (struct rate_table){segment_rate_bucket(segment, 0),
                               segment_count(segment, SEGMENT_RATE_BUCKETS),
                               segment_rate(segment)->seed};
}

static struct segment_rate_bucket *rate_bucket(const struct rate_table *table, uint64_t key)
{
    uint64_t hash = hash_mix(key ^ table->seed, UINT64_C(0xe7037ed1a0b428db));

    return &table->bucket[hash % table->count];
}

static struct segment_rate_entry *find_rate(struct segment_rate_bucket *bucket, uint64_t key)
{
    for (int i = 0; i < SEGMENT_RATE_WAYS; i++)
        if (atomic_load_explicit(&bucket->entry[i].key, memory_order_acquire) == key)
            return &bucket->entry[i];
    return NULL;
}

/* Replaces *FROM by TO. If the time has changed meanwhile, returns false and sets *FROM to it. */
static bool set_arrival_time(struct segment_rate_entry *entry, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_weak_explicit(&entry->time_ns, from, to, memory_order_acq_rel,
                                                 memory_order_acquire);
}

/*
 * Reads the time before the key. Every charge and replacement changes the time, so the exchange
 * succeeds only if no other thread has charged or replaced the entry since its key was read.
 */
static enum charge charge_entry(struct segment_rate_entry *entry, uint64_t key,
                                const struct rate *rate, uint64_t now_ns, uint64_t *wait_ns)
{
    const uint64_t latest = now_ns + rate->ahead_ns + rate->interval_ns;
    uint64_t time = atomic_load_explicit(&entry->time_ns, memory_order_acquire);

    for (int i = 0; i < CHARGE_TRIES; i++) {
        uint64_t from = time > now_ns ? time : now_ns;

        if (time == SEGMENT_RATE_CHANGING ||
            atomic_load_explicit(&entry->key, memory_order_acquire) != key)
            return CHARGE_LOST;
        if (from > latest) { /* of a higher burst, or not written by this function */
            set_arrival_time(entry, &time, latest);
            continue;
        }
        if (from - now_ns > rate->ahead_ns) {
            *wait_ns = from - now_ns - rate->ahead_ns;
            atomic_fetch_add_explicit(&entry->rejected, 1, memory_order_relaxed);
            return CHARGE_REJECTED;
        }
        if (set_arrival_time(entry, &time, from + rate->interval_ns))
            return CHARGE_ACCEPTED;
    }
    return CHARGE_ACCEPTED;
}

/* Replacing an entry */

static bool claim_bucket(struct segment_rate_bucket *bucket, uint64_t now_ns)
{
    uint64_t holder = 0;

    for (int i = 0; i < CLAIM_TRIES; i++) {
        if (atomic_compare_exchange_weak_explicit(&bucket->claimed_ns, &holder, now_ns,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
        /* Two threads' clocks differ little, so a claim from the far future is wrong, too. */
        if (now_ns - holder < CLAIM_DEAD_NS || holder - now_ns < CLAIM_DEAD_NS)
            holder = 0;
        if (i >= CLAIM_SPINS)
            sched_yield();
    }
    return false;
}

/* The entry that has used the least of its burst, or whose replacement was interrupted. */
static struct segment_rate_entry *least_used(struct segment_rate_bucket *bucket, uint64_t *time)
{
    struct segment_rate_entry *best = &bucket->entry[0];

    *time = atomic_load_explicit(&best->time_ns, memory_order_acquire);
    for (int i = 1; i < SEGMENT_RATE_WAYS && *time != SEGMENT_RATE_CHANGING; i++) {
        uint64_t other = atomic_load_explicit(&bucket->entry[i].time_ns, memory_order_acquire);

        if (other == SEGMENT_RATE_CHANGING || other < *time) {
            best = &bucket->entry[i];
            *time = other;
        }
    }
    return best;
}

/*
 * Gives KEY an entry and charges its first request, which is always accepted. The bucket must be
 * claimed.
 */
static void replace_entry(struct segment_rate_bucket *bucket, uint64_t key, const struct rate *rate,
                          uint64_t now_ns)
{
    struct segment_rate_entry *entry = NULL;
    uint64_t time;

    for (int i = 0; i < CHARGE_TRIES && entry == NULL; i++) {
        entry = least_used(bucket, &time);
        if (!set_arrival_time(entry, &time, SEGMENT_RATE_CHANGING))
            entry = NULL;
    }
    if (entry == NULL)
        return;
    atomic_store_explicit(&entry->key, key, memory_order_release);
    atomic_store_explicit(&entry->rejected, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->time_ns, now_ns + rate->interval_ns, memory_order_release);
}

/* Charges KEY; adds an entry if there is none. If the bucket cannot be claimed, charges nothing. */
static void charge_or_replace(struct segment_rate_bucket *bucket, uint64_t key,
                              const struct rate *rate, uint64_t now_ns, uint64_t *wait_ns)
{
    struct segment_rate_entry *entry;
    enum charge result = CHARGE_LOST;

    if (!claim_bucket(bucket, now_ns))
        return;
    entry = find_rate(bucket, key);
    if (entry != NULL)
        result = charge_entry(entry, key, rate, now_ns, wait_ns);
    if (result == CHARGE_LOST) /* no entry, or one whose replacement was interrupted */
        replace_entry(bucket, key, rate, now_ns);
    /* Releases the bucket, unless another has taken it over. */
    atomic_compare_exchange_strong_explicit(&bucket->claimed_ns, &now_ns, 0, memory_order_release,
                                            memory_order_relaxed);
}

static uint64_t charge_key(const struct rate_table *table, uint64_t key, const struct rate *rate,
                           uint64_t now_ns)
{
    struct segment_rate_bucket *bucket = rate_bucket(table, key);
    struct segment_rate_entry *entry = find_rate(bucket, key);
    uint64_t wait_ns = 0;

    if (entry != NULL && charge_entry(entry, key, rate, now_ns, &wait_ns) != CHARGE_LOST)
        return wait_ns;
    charge_or_replace(bucket, key, rate, now_ns, &wait_ns);
    return wait_ns;
}

/* What charge_key() would return, except that it charges only a rejected request. */
static uint64_t wait_in_table(const struct rate_table *table, uint64_t key, const struct rate *rate,
                              uint64_t now_ns)
{
    struct segment_rate_entry *entry = find_rate(rate_bucket(table, key), key);
    uint64_t time = entry != NULL ? atomic_load_explicit(&entry->time_ns, memory_order_acquire) : 0;

    if (time <= now_ns || time == SEGMENT_RATE_CHANGING || time - now_ns <= rate->ahead_ns)
        return 0;
    atomic_fetch_add_explicit(&entry->rejected, 1, memory_order_relaxed);
    return time - now_ns - rate->ahead_ns;
}

/* The limits of a request: of its address and, if that has one, of its site. */
struct rate_limits {
    uint64_t key[2];
    struct rate rate[2];
    uint32_t count;
};

static struct rate_limits limits_in_force(const struct segment *segment, uint64_t key)
{
    uint64_t site = client_site_key(key);

    return (struct rate_limits){{key, site},
                                {rate_of(segment, 1), rate_of(segment, CLIENT_SITE_FACTOR)},
                                site != 0 ? 2 : 1};
}

static struct rate_limits limits_at(uint64_t key, uint32_t requests_per_second)
{
    return (struct rate_limits){{key}, {make_rate(requests_per_second, requests_per_second)}, 1};
}

/*
 * A rejected request of one /64 uses nothing of its site's limit. A site over its limit gets no
 * more entries for its networks, so that it cannot fill the table.
 */
static uint64_t charge_limits(const struct rate_table *table, const struct rate_limits *limits,
                              uint64_t now_ns)
{
    bool site = limits->count == 2;
    uint64_t wait_ns = site ? wait_in_table(table, limits->key[1], &limits->rate[1], now_ns) : 0;

    if (wait_ns == 0)
        wait_ns = charge_key(table, limits->key[0], &limits->rate[0], now_ns);
    if (wait_ns == 0 && site)
        wait_ns = charge_key(table, limits->key[1], &limits->rate[1], now_ns);
    return wait_ns;
}

void rate_limit_count(const struct segment *segment, uint64_t key, uint64_t now_ns)
{
    static const struct rate full_speed = {1, 0};
    const struct rate_table table = shared_table(segment);
    struct segment_rate_bucket *bucket = rate_bucket(&table, key);
    struct segment_rate_entry *entry = find_rate(bucket, key);
    uint64_t wait_ns = 0;

    if (entry == NULL) {
        charge_or_replace(bucket, key, &full_speed, now_ns, &wait_ns);
        entry = find_rate(bucket, key);
    }
    if (entry != NULL)
        atomic_fetch_add_explicit(&entry->rejected, 1, memory_order_relaxed);
}

uint64_t rate_limit_rejected(const struct segment *segment, uint64_t key)
{
    const struct rate_table table = shared_table(segment);
    const struct segment_rate_entry *entry = find_rate(rate_bucket(&table, key), key);

    return entry != NULL ? atomic_load_explicit(&entry->rejected, memory_order_relaxed) : 0;
}

/* Accepted requests of one worker */

/* Each key has two entries: under itself of the limit, under its complement of the share. */
struct rate_guard {
    const struct segment *segment;
    struct rate_table table;
};

enum { GUARD_BYTES = SEGMENT_RATE_BUCKET_COUNT * sizeof(struct segment_rate_bucket) };

struct rate_guard *rate_guard_new(const struct segment *segment)
{
    struct rate_guard *guard = calloc(1, sizeof(*guard));
    void *memory;

    if (guard == NULL)
        return NULL;
    memory = memory_map_zeros(GUARD_BYTES);
    if (memory == NULL) {
        free(guard);
        return NULL;
    }
    guard->segment = segment;
    guard->table =
        (struct rate_table){memory, SEGMENT_RATE_BUCKET_COUNT, segment_rate(segment)->seed};
    return guard;
}

void rate_guard_free(struct rate_guard *guard)
{
    if (guard != NULL)
        munmap(guard->table.bucket, GUARD_BYTES);
    free(guard);
}

/* The limits divided by the number of workers. */
static struct rate_limits share_of(const struct rate_guard *guard, const struct rate_limits *limits)
{
    uint32_t workers =
        atomic_load_explicit(&segment_master(guard->segment)->workers_wanted, memory_order_relaxed);
    struct rate_limits share = *limits;

    for (uint32_t i = 0; i < limits->count; i++) {
        share.key[i] = ~limits->key[i];
        share.rate[i].interval_ns *= workers > 0 ? workers : 1;
        share.rate[i].ahead_ns /= workers > 0 ? workers : 1;
    }
    return share;
}

/* An accepted request uses the share, too, as far as there is some, and one request more. */
static void use_share(const struct rate_guard *guard, const struct rate_limits *share,
                      uint64_t now_ns)
{
    for (uint32_t i = 0; i < share->count; i++) {
        struct rate one_more = share->rate[i];

        one_more.ahead_ns += one_more.interval_ns;
        charge_key(&guard->table, share->key[i], &one_more, now_ns);
    }
}

static uint64_t charge_guarded(const struct rate_guard *guard, const struct rate_limits *limits,
                               uint64_t now_ns)
{
    const struct rate_table all = shared_table(guard->segment);
    const struct rate_limits share = share_of(guard, limits);
    uint64_t wait_ns;

    for (uint32_t i = 0; i < limits->count; i++) {
        wait_ns = wait_in_table(&guard->table, limits->key[i], &limits->rate[i], now_ns);
        if (wait_ns != 0) { /* this worker alone has accepted all of the limit */
            rate_limit_count(guard->segment, limits->key[i], now_ns);
            return wait_ns;
        }
    }
    wait_ns = charge_limits(&all, limits, now_ns);
    if (wait_ns == 0)
        use_share(guard, &share, now_ns);
    else if (charge_limits(&guard->table, &share, now_ns) == 0)
        wait_ns = 0;
    if (wait_ns == 0)
        charge_limits(&guard->table, limits, now_ns);
    return wait_ns;
}

uint64_t rate_guard_charge(const struct rate_guard *guard, uint64_t key, uint64_t now_ns)
{
    const struct rate_limits limits = limits_in_force(guard->segment, key);

    return charge_guarded(guard, &limits, now_ns);
}

uint64_t rate_guard_charge_at(const struct rate_guard *guard, uint64_t key,
                              uint32_t requests_per_second, uint64_t now_ns)
{
    const struct rate_limits limits = limits_at(key, requests_per_second);

    return charge_guarded(guard, &limits, now_ns);
}

/* Connections */

enum { PROBES = 16 }; /* number of entries from its home position where a key may be */

struct client_limit {
    pthread_mutex_t lock; /* guards the table against the worker's other threads; innermost */
    const struct segment *segment;
    struct segment_client *table;
};

static uint32_t client_position(const struct segment *segment, uint64_t key, uint32_t probe)
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

static uint64_t connections_of(const struct segment_client *client)
{
    return atomic_load(&client->count);
}

/*
 * Returns the entry of KEY. If there is none, returns NULL and sets *FREE to the first unused entry
 * or NULL.
 */
static struct segment_client *find_client(const struct client_limit *limit, uint64_t key,
                                          struct segment_client **free)
{
    *free = NULL;
    for (uint32_t i = 0; i < PROBES; i++) {
        struct segment_client *client = &limit->table[client_position(limit->segment, key, i)];

        if (atomic_load_explicit(&client->key, memory_order_relaxed) == key)
            return client;
        if (*free == NULL && connections_of(client) == 0)
            *free = client;
    }
    return NULL;
}

/*
 * The count of KEY in one worker's table, not so many that the sum of all could overflow. An entry
 * changes its key only while its count is 0.
 */
static uint64_t connections_in(const struct segment *segment, uint32_t worker, uint64_t key)
{
    const struct segment_client *table = segment_clients(segment, worker);

    for (uint32_t i = 0; i < PROBES; i++) {
        const struct segment_client *client = &table[client_position(segment, key, i)];
        uint64_t count;

        if (atomic_load(&client->key) != key)
            continue;
        count = connections_of(client);
        if (atomic_load_explicit(&client->key, memory_order_relaxed) != key)
            return 0;
        return count < UINT32_MAX ? count : UINT32_MAX;
    }
    return 0;
}

uint64_t client_limit_count(const struct segment *segment, uint64_t key)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_CLIENTS); i++)
        if (segment_worker_reserved(segment, i))
            sum += connections_in(segment, i, key);
    return sum;
}

/* Returns how many this worker then has; 0: the table is full. The caller holds the lock. */
static uint64_t count_connection(const struct client_limit *limit, uint64_t key)
{
    struct segment_client *free, *client = find_client(limit, key, &free);
    uint64_t count;

    if (client == NULL && free == NULL)
        return 0;
    if (client == NULL) {
        client = free;
        atomic_store(&client->key, key);
    }
    count = connections_of(client) + 1;
    atomic_store(&client->count, count);
    return count;
}

/* What this worker admits whatever the others claim. */
static uint64_t share_of_connections(const struct segment *segment, uint64_t max)
{
    uint32_t workers =
        atomic_load_explicit(&segment_master(segment)->workers_wanted, memory_order_relaxed);

    return workers > 0 && workers < max ? max / workers : 1;
}

static void leave_key(struct client_limit *limit, uint64_t key)
{
    struct segment_client *free, *client;

    mutex_lock(&limit->lock);
    client = find_client(limit, key, &free);
    if (client != NULL)
        atomic_store_explicit(&client->count, connections_of(client) - 1, memory_order_release);
    pthread_mutex_unlock(&limit->lock);
}

/*
 * Counts first and then reads, both sequentially consistent, so that of two workers that do so
 * concurrently, at least one sees the other.
 */
static enum client_limit_verdict enter_key(struct client_limit *limit, uint64_t key, uint64_t max)
{
    uint64_t own;

    mutex_lock(&limit->lock);
    own = count_connection(limit, key);
    pthread_mutex_unlock(&limit->lock);
    if (own == 0)
        return CLIENT_LIMIT_UNCOUNTED;
    if (own <= share_of_connections(limit->segment, max) ||
        client_limit_count(limit->segment, key) <= max)
        return CLIENT_LIMIT_COUNTED;
    leave_key(limit, key);
    return CLIENT_LIMIT_EXCEEDED;
}

void client_limit_leave(struct client_limit *limit, uint64_t key)
{
    uint64_t site = client_site_key(key);

    leave_key(limit, key);
    if (site != 0)
        leave_key(limit, site);
}

enum client_limit_verdict client_limit_enter(struct client_limit *limit, uint64_t key, uint32_t max)
{
    uint64_t site = client_site_key(key);
    enum client_limit_verdict verdict = CLIENT_LIMIT_COUNTED;

    if (site != 0)
        verdict = enter_key(limit, site, CLIENT_SITE_FACTOR * (uint64_t)max);
    if (verdict != CLIENT_LIMIT_COUNTED)
        return verdict;
    verdict = enter_key(limit, key, max);
    if (verdict != CLIENT_LIMIT_COUNTED && site != 0)
        leave_key(limit, site);
    return verdict;
}

static bool exceeds_key(const struct client_limit *limit, uint64_t key, uint64_t max)
{
    struct segment_client *free;
    const struct segment_client *client = find_client(limit, key, &free);

    return client != NULL && connections_of(client) > share_of_connections(limit->segment, max) &&
           client_limit_count(limit->segment, key) > max;
}

bool client_limit_exceeds(struct client_limit *limit, uint64_t key, uint32_t max)
{
    uint64_t site = client_site_key(key);
    bool exceeds;

    mutex_lock(&limit->lock);
    exceeds = exceeds_key(limit, key, max) ||
              (site != 0 && exceeds_key(limit, site, CLIENT_SITE_FACTOR * (uint64_t)max));
    pthread_mutex_unlock(&limit->lock);
    return exceeds;
}

/* Single clients and networks */

bool address_limit_read(const struct segment *segment, uint32_t i, struct address_limit *limit)
{
    const struct segment_address_limit *entry = &segment_address_limits(segment)->entry[i];
    uint64_t address[2];

    *limit = (struct address_limit){
        .until_ns = atomic_load_explicit(&entry->until_ns, memory_order_acquire)};
    if (limit->until_ns == 0)
        return false;
    for (int word = 0; word < 2; word++)
        address[word] = atomic_load_explicit(&entry->address[word], memory_order_acquire);
    memcpy(limit->network.address, address, sizeof(address));
    limit->network.prefix = (uint8_t)atomic_load_explicit(&entry->prefix, memory_order_acquire);
    limit->id = atomic_load_explicit(&entry->id, memory_order_acquire);
    limit->requests_per_second =
        atomic_load_explicit(&entry->requests_per_second, memory_order_acquire);
    /* otherwise the master changes it just now */
    return atomic_load_explicit(&entry->until_ns, memory_order_relaxed) == limit->until_ns;
}

bool address_limit_find(const struct segment *segment, const uint8_t address[CLIENT_ADDRESS_BYTES],
                        uint64_t now_ns, struct address_limit *limit)
{
    struct address_limit other;
    bool found = false;

    for (uint32_t i = 0; i < SEGMENT_ADDRESS_LIMITS_MAX; i++) {
        if (!address_limit_read(segment, i, &other) || other.until_ns <= now_ns ||
            !network_contains(&other.network, address) ||
            (found && other.network.prefix < limit->network.prefix))
            continue;
        *limit = other;
        found = true;
    }
    return found;
}
