#include "daemon/transaction/rate_limit.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "daemon/base/hash.h"

#include <sched.h>
#include <sys/random.h>

/* A claim lasts about ten instructions; if one is older than this, its process has died. */
#define CLAIM_DEAD_NS NS_PER_S

/*
 * All workers write the table, so its content may be anything. Each loop over it is bounded; when a
 * bound is reached, the request is accepted.
 */
enum {
    CLAIM_TRIES = 256,
    CLAIM_SPINS = 64, /* tries before sched_yield() */
    CHARGE_TRIES = 64,
};

/* A consistent copy of the limit. */
struct rate {
    uint64_t interval_ns; /* between two requests at the full rate */
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

static struct segment_rate_bucket *bucket_of(const struct segment *segment, uint64_t key)
{
    uint64_t hash = hash_mix(key ^ segment_rate(segment)->seed, UINT64_C(0xe7037ed1a0b428db));

    return segment_rate_bucket(segment,
                               (uint32_t)(hash % segment_count(segment, SEGMENT_RATE_BUCKETS)));
}

static struct segment_rate_entry *find(struct segment_rate_bucket *bucket, uint64_t key)
{
    for (int i = 0; i < SEGMENT_RATE_WAYS; i++)
        if (atomic_load_explicit(&bucket->entry[i].key, memory_order_acquire) == key)
            return &bucket->entry[i];
    return NULL;
}

/* Replaces *FROM by TO. If the time has changed meanwhile, returns false and sets *FROM to it. */
static bool set_time(struct segment_rate_entry *entry, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_weak_explicit(&entry->time_ns, from, to, memory_order_acq_rel,
                                                 memory_order_acquire);
}

/*
 * Reads the time before the key. Every charge and replacement changes the time, so the exchange
 * succeeds only if no other thread has charged or replaced the entry since its key was read.
 */
static enum charge charge(struct segment_rate_entry *entry, uint64_t key, const struct rate *rate,
                          uint64_t now_ns, uint64_t *wait_ns)
{
    const uint64_t latest = now_ns + rate->ahead_ns + rate->interval_ns;
    uint64_t time = atomic_load_explicit(&entry->time_ns, memory_order_acquire);

    for (int i = 0; i < CHARGE_TRIES; i++) {
        uint64_t from = time > now_ns ? time : now_ns;

        if (time == SEGMENT_RATE_CHANGING ||
            atomic_load_explicit(&entry->key, memory_order_acquire) != key)
            return CHARGE_LOST;
        if (from > latest) { /* of a higher burst, or not written by this function */
            set_time(entry, &time, latest);
            continue;
        }
        if (from - now_ns > rate->ahead_ns) {
            *wait_ns = from - now_ns - rate->ahead_ns;
            atomic_fetch_add_explicit(&entry->rejected, 1, memory_order_relaxed);
            return CHARGE_REJECTED;
        }
        if (set_time(entry, &time, from + rate->interval_ns))
            return CHARGE_ACCEPTED;
    }
    return CHARGE_ACCEPTED;
}

/* Replacing an entry */

/* The clocks of two threads differ little, so a claim from the far future is wrong, too. */
static bool is_live(uint64_t claimed_ns, uint64_t now_ns)
{
    return now_ns - claimed_ns < CLAIM_DEAD_NS || claimed_ns - now_ns < CLAIM_DEAD_NS;
}

static bool claim(struct segment_rate_bucket *bucket, uint64_t now_ns)
{
    uint64_t holder = 0;

    for (int i = 0; i < CLAIM_TRIES; i++) {
        if (atomic_compare_exchange_weak_explicit(&bucket->claimed_ns, &holder, now_ns,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
        if (is_live(holder, now_ns))
            holder = 0;
        if (i > CLAIM_SPINS)
            sched_yield();
    }
    return false;
}

static void release(struct segment_rate_bucket *bucket, uint64_t now_ns)
{
    atomic_compare_exchange_strong_explicit(&bucket->claimed_ns, &now_ns, 0, memory_order_release,
                                            memory_order_relaxed);
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
        if (!set_time(entry, &time, SEGMENT_RATE_CHANGING))
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

    if (!claim(bucket, now_ns))
        return;
    entry = find(bucket, key);
    if (entry != NULL)
        result = charge(entry, key, rate, now_ns, wait_ns);
    if (result == CHARGE_LOST) /* no entry, or one whose replacement was interrupted */
        replace_entry(bucket, key, rate, now_ns);
    release(bucket, now_ns);
}

static uint64_t charge_key(const struct segment *segment, uint64_t key, const struct rate *rate,
                           uint64_t now_ns)
{
    struct segment_rate_bucket *bucket = bucket_of(segment, key);
    struct segment_rate_entry *entry = find(bucket, key);
    uint64_t wait_ns = 0;

    if (entry != NULL && charge(entry, key, rate, now_ns, &wait_ns) != CHARGE_LOST)
        return wait_ns;
    charge_or_replace(bucket, key, rate, now_ns, &wait_ns);
    return wait_ns;
}

/* What charge_key() would return, except that it charges only a rejected request. */
static uint64_t wait_of(const struct segment *segment, uint64_t key, const struct rate *rate,
                        uint64_t now_ns)
{
    struct segment_rate_entry *entry = find(bucket_of(segment, key), key);
    uint64_t time = entry != NULL ? atomic_load_explicit(&entry->time_ns, memory_order_acquire) : 0;

    if (time <= now_ns || time == SEGMENT_RATE_CHANGING || time - now_ns <= rate->ahead_ns)
        return 0;
    atomic_fetch_add_explicit(&entry->rejected, 1, memory_order_relaxed);
    return time - now_ns - rate->ahead_ns;
}

/*
 * A rejected request of one /64 uses nothing of its site's limit. A site over its limit gets no
 * more entries for its networks, so that it cannot fill the table.
 */
uint64_t rate_limit_charge(const struct segment *segment, uint64_t key, uint64_t now_ns)
{
    const struct rate rate = rate_of(segment, 1), of_site = rate_of(segment, CLIENT_SITE_FACTOR);
    uint64_t site = client_site_key(key);
    uint64_t wait_ns = site != 0 ? wait_of(segment, site, &of_site, now_ns) : 0;

    if (wait_ns == 0)
        wait_ns = charge_key(segment, key, &rate, now_ns);
    if (wait_ns == 0 && site != 0)
        wait_ns = charge_key(segment, site, &of_site, now_ns);
    return wait_ns;
}

uint64_t rate_limit_charge_at(const struct segment *segment, uint64_t key,
                              uint32_t requests_per_second, uint64_t now_ns)
{
    const struct rate rate = make_rate(requests_per_second, requests_per_second);

    return charge_key(segment, key, &rate, now_ns);
}

void rate_limit_count(const struct segment *segment, uint64_t key, uint64_t now_ns)
{
    static const struct rate full_speed = {1, 0};
    struct segment_rate_bucket *bucket = bucket_of(segment, key);
    struct segment_rate_entry *entry = find(bucket, key);
    uint64_t wait_ns = 0;

    if (entry == NULL) {
        charge_or_replace(bucket, key, &full_speed, now_ns, &wait_ns);
        entry = find(bucket, key);
    }
    if (entry != NULL)
        atomic_fetch_add_explicit(&entry->rejected, 1, memory_order_relaxed);
}

uint64_t rate_limit_rejected(const struct segment *segment, uint64_t key)
{
    const struct segment_rate_entry *entry = find(bucket_of(segment, key), key);

    return entry != NULL ? atomic_load_explicit(&entry->rejected, memory_order_relaxed) : 0;
}
