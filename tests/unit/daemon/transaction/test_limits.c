/*
 * The limits of clients. The rate limit: accepted requests compared with a model, for steady, greedy
 * and random clients, for concurrent threads, and with more clients than the table holds. Connections:
 * each worker counts its own, all workers enforce the sum. Single clients: which limit holds for an
 * address, and how its rate is charged.
 */
#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "daemon/master/internal.h"
#include "daemon/transaction/limits.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define START (UINT64_C(1000) * NS_PER_S)

enum { WORKERS = 3 };

static struct segment segment;
static struct rate_guard *guard;

static struct client_limit *limits[WORKERS];

static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_workers = WORKERS + 1}) != 0)
        return -1;
    rate_limit_prepare(&segment);
    guard = rate_guard_new(&segment);
    assert_non_null(guard);
    atomic_store(&segment_master(&segment)->workers_wanted, WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(segment_reserve_worker(&segment, i), 0);
        limits[i] = client_limit_new(&segment, i);
        assert_non_null(limits[i]);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < WORKERS; i++)
        client_limit_free(limits[i]);
    rate_guard_free(guard);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

/* --- Requests per second --- */

/* What another worker may write into the table of all workers. */
enum forgery { FORGES_NOTHING, ALL_USED, NEVER_FREE, ALWAYS_CHANGING };

static struct segment_rate_bucket *bucket_of(uint64_t key)
{
    rate_limit_count(&segment, key, START);
    for (uint32_t i = 0; i < segment_count(&segment, SEGMENT_RATE_BUCKETS); i++)
        for (int way = 0; way < SEGMENT_RATE_WAYS; way++)
            if (segment_rate_bucket(&segment, i)->entry[way].key == key)
                return segment_rate_bucket(&segment, i);
    fail_msg("no entry of the key");
    return NULL;
}

static void forge_bucket(struct segment_rate_bucket *bucket, enum forgery forgery, uint64_t key,
                         uint64_t now_ns)
{
    static const uint64_t times[] = {
        [ALL_USED] = UINT64_MAX - 1, [NEVER_FREE] = 0, [ALWAYS_CHANGING] = SEGMENT_RATE_CHANGING};

    atomic_store(&bucket->claimed_ns, forgery == ALL_USED ? 0 : now_ns);
    for (int way = 0; way < SEGMENT_RATE_WAYS; way++) {
        atomic_store(&bucket->entry[way].key, key);
        atomic_store(&bucket->entry[way].time_ns, times[forgery]);
    }
}

static atomic_int yields;

/* Instead of libc's: counts. */
int sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    return (int)syscall(SYS_sched_yield);
}

/*
 * Of a worker among four, of which another one is hostile. On a busy machine, each sched_yield() takes
 * the time slices of all others.
 */
TEST(worker_accepts_its_share_and_no_more_than_the_limit)
{
    enum { PER_S = 40, BURST = 20, OF_WORKERS = 4, SECONDS = 4 };
    static const struct {
        const char *name;
        enum forgery forgery;
        int per_second;  /* requests of the client */
        int least, most; /* accepted */
    } cases[] = {
        {"slow client", FORGES_NOTHING, 5, 5 * SECONDS, 5 * SECONDS},
        {"fast client", FORGES_NOTHING, 100, PER_S * SECONDS, PER_S * SECONDS + BURST},
        {"all is used, slow client", ALL_USED, 10, 10 * SECONDS, 10 * SECONDS},
        {"all is used, fast client", ALL_USED, 100, PER_S / OF_WORKERS * SECONDS,
         PER_S / OF_WORKERS * SECONDS + BURST / OF_WORKERS + 1},
        {"nothing is ever used", NEVER_FREE, 100, PER_S * SECONDS, PER_S * SECONDS + BURST},
        {"always changing", ALWAYS_CHANGING, 100, PER_S * SECONDS, PER_S * SECONDS + BURST},
    };

    rate_limit_set(&segment, true, PER_S, BURST);
    atomic_store(&segment_master(&segment)->workers_wanted, OF_WORKERS);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct rate_guard *own = rate_guard_new(&segment);
        uint64_t key = 100 + i, now_ns = START;
        struct segment_rate_bucket *bucket =
            cases[i].forgery == FORGES_NOTHING ? NULL : bucket_of(key);
        int accepted = 0;

        assert_non_null(own);
        for (int request = 0; request < SECONDS * cases[i].per_second; request++) {
            if (bucket != NULL)
                forge_bucket(bucket, cases[i].forgery, key, now_ns);
            atomic_store(&yields, 0);
            accepted += rate_guard_charge(own, key, now_ns) == 0;
            assert_in_range(atomic_load(&yields), 0, 8);
            now_ns += NS_PER_S / (uint64_t)cases[i].per_second;
        }
        if (accepted < cases[i].least || accepted > cases[i].most)
            fail_msg("%s: %d accepted", cases[i].name, accepted);
        rate_guard_free(own);
    }
}

/* A worker among so many that the share of the limit which it has for itself is one request. */
static void set_rate(uint32_t requests_per_second, uint32_t burst)
{
    atomic_store(&segment_master(&segment)->workers_wanted, 1000000);
    rate_limit_set(&segment, true, requests_per_second, burst);
}

static uint64_t charge(uint64_t key, uint64_t now_ns)
{
    return rate_guard_charge(guard, key, now_ns);
}

TEST(limit_is_off_until_set)
{
    assert_false(rate_limit_is_on(&segment));
    rate_limit_set(&segment, true, 10, 5);
    assert_true(rate_limit_is_on(&segment));
    rate_limit_set(&segment, false, 10, 5);
    assert_false(rate_limit_is_on(&segment));
}

TEST(burst_is_accepted_then_the_rate)
{
    set_rate(10, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(charge(7, START), 0);
    assert_int_equal(charge(7, START), NS_PER_S / 10);
    assert_int_equal(charge(7, START + NS_PER_S / 20), NS_PER_S / 20);
    assert_int_equal(charge(8, START), 0); /* another client */
    assert_int_equal(charge(7, START + NS_PER_S / 10), 0);
    assert_int_not_equal(charge(7, START + NS_PER_S / 10), 0);
    /*
     * A rejected request is not charged; after a pause the burst is available again, and no more.
     */
    for (int i = 0; i < 5; i++)
        assert_int_equal(charge(7, START + 100 * NS_PER_S), 0);
    assert_int_not_equal(charge(7, START + 100 * NS_PER_S), 0);
}

TEST(rejected_requests_are_counted)
{
    uint64_t rejected = 0;

    set_rate(1, 1);
    assert_int_equal(charge(7, START), 0);
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(charge(7, START), 0);
    for (uint32_t i = 0; i < segment_count(&segment, SEGMENT_RATE_BUCKETS); i++)
        for (int way = 0; way < SEGMENT_RATE_WAYS; way++)
            rejected += segment_rate_bucket(&segment, i)->entry[way].rejected;
    assert_int_equal(rejected, 3);
}

/* A worker that was taken over cannot lock a client out of the others for longer than the rate. */
TEST(time_in_the_far_future_is_corrected)
{
    const uint64_t interval = NS_PER_S / 10;

    set_rate(10, 5);
    assert_int_equal(charge(7, START), 0);
    for (uint32_t i = 0; i < segment_count(&segment, SEGMENT_RATE_BUCKETS); i++)
        for (int way = 0; way < SEGMENT_RATE_WAYS; way++)
            atomic_store(&segment_rate_bucket(&segment, i)->entry[way].time_ns, UINT64_MAX - 1);
    assert_int_equal(charge(7, START), interval);
    assert_int_equal(charge(7, START + interval), 0);
}

TEST(new_limit_applies_at_once)
{
    set_rate(10, 2);
    assert_int_equal(charge(7, START), 0);
    assert_int_equal(charge(7, START), 0);
    assert_int_not_equal(charge(7, START), 0);
    set_rate(10, 4);
    assert_int_equal(charge(7, START), 0);
    assert_int_equal(charge(7, START), 0);
    assert_int_not_equal(charge(7, START), 0);
}

/* A textbook token bucket, in units of 1/RATE ns, so that it is exact. */
struct tokens {
    uint64_t rate, max; /* max: the burst, in those units */
    uint64_t have, at_ns;
};

static void fill(struct tokens *tokens, uint64_t now_ns)
{
    uint64_t more = (now_ns - tokens->at_ns) * tokens->rate;

    tokens->have = tokens->max - tokens->have < more ? tokens->max : tokens->have + more;
    tokens->at_ns = now_ns;
}

/* With rates that divide a second the limit equals the token bucket exactly. */
TEST(random_clients_get_what_a_token_bucket_gives)
{
    static const uint32_t rates[] = {1, 2, 10, 100, 1000, 1000000};
    uint64_t random = 88172645463325252;

    for (size_t run = 0; run < 60; run++) {
        uint32_t rate = rates[run % ARRAY_LENGTH(rates)], burst = 1 + (uint32_t)(run % 7) * 3;
        struct tokens tokens = {rate, burst * NS_PER_S, burst * NS_PER_S, START};
        uint64_t now = START;

        set_rate(rate, burst);
        for (int i = 0; i < 2000; i++) {
            bool may;

            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            now += random % (2 * NS_PER_S / rate) * (random >> 60 == 0 ? 20 : 1);
            fill(&tokens, now);
            may = tokens.have >= NS_PER_S;
            assert_int_equal(charge(100 + run, now) == 0, may);
            if (may)
                tokens.have -= NS_PER_S;
        }
    }
}

/* With other rates the limit is slightly stricter. */
TEST(uneven_rate_is_never_exceeded)
{
    static const uint32_t rates[] = {3, 7, 999, 123457, 999999};

    for (size_t i = 0; i < ARRAY_LENGTH(rates); i++) {
        uint64_t passed = 0, step = NS_PER_S / rates[i] / 3 + 1, now = START;

        set_rate(rates[i], 4);
        for (; now < START + 5 * NS_PER_S && passed < 50000; now += step)
            passed += charge(200 + i, now) == 0;
        assert_in_range(passed * NS_PER_S, 0, 4 * NS_PER_S + (now - START) * rates[i]);
        assert_true(passed * NS_PER_S > (now - START) * rates[i] / 100 * 99);
    }
}

/* IPv6: requests of the networks (/64) of one site (/48). */
TEST(site_has_a_multiple_of_the_limit)
{
    enum { BURST = 5, NETWORKS = 2000 };
    static const struct {
        uint64_t first; /* key of the first network */
        uint64_t step;  /* between two networks */
        uint64_t passed;
    } cases[] = {
        {UINT64_C(0x20010db800070000), 1, (uint64_t)CLIENT_SITE_FACTOR * BURST}, /* one site */
        {UINT64_C(0x20010db800080000), 0, BURST},                                /* one network */
        {UINT64_C(0x20010db900000000), 0x10000, (uint64_t)BURST * NETWORKS},     /* as many sites */
        {UINT64_C(0x0000ffffc0000200), 1, (uint64_t)BURST * NETWORKS},           /* IPv4 */
    };

    set_rate(1, BURST);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t passed = 0;

        for (uint64_t n = 0; n < NETWORKS; n++)
            for (int request = 0; request < BURST; request++)
                passed += charge(cases[i].first + n * cases[i].step, START) == 0;
        assert_int_equal(passed, cases[i].passed);
    }
}

/* The rejected requests of one network leave the limit of its site to the others. */
TEST(rejected_requests_do_not_use_the_limit_of_the_site)
{
    const uint64_t network = UINT64_C(0x20010db800090000);

    set_rate(1, 5);
    for (int i = 0; i < 1000; i++)
        charge(network, START);
    for (int i = 0; i < 5; i++)
        assert_int_equal(charge(network + 1, START), 0);
}

/* A site over its limit takes no entries from other clients. */
TEST(flood_of_a_site_leaves_the_table_to_others)
{
    uint64_t entries = 0;

    set_rate(1, 5);
    for (uint64_t n = 0; n < 65536; n++)
        charge(UINT64_C(0x20010dba00000000) + n, START);
    for (uint32_t i = 0; i < segment_count(&segment, SEGMENT_RATE_BUCKETS); i++)
        for (int way = 0; way < SEGMENT_RATE_WAYS; way++)
            entries += segment_rate_bucket(&segment, i)->entry[way].key >> 32 == 0x20010dba;
    assert_in_range(entries, 1, CLIENT_SITE_FACTOR * 5 + 1);
}

/* Concurrent threads */

enum { THREADS = 4, KEYS = 40, TRIES = 150 };

struct racer {
    pthread_t id;
    uint64_t passed[KEYS];
};

static _Atomic int ready;

static void *race(void *argument)
{
    struct racer *racer = argument;

    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < THREADS)
        sched_yield();
    for (int i = 0; i < TRIES * KEYS; i++)
        racer->passed[i % KEYS] += charge(1000 + (uint64_t)(i % KEYS), START) == 0;
    return NULL;
}

/* Requests of KEY that all racers together got accepted. */
static void run_race(uint64_t passed[KEYS])
{
    static struct racer racers[THREADS];

    memset(racers, 0, sizeof(racers));
    memset(passed, 0, KEYS * sizeof(passed[0]));
    atomic_store(&ready, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&racers[i].id, NULL, race, &racers[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(racers[i].id, NULL);
        for (int key = 0; key < KEYS; key++)
            passed[key] += racers[i].passed[key];
    }
}

TEST(concurrent_threads_share_one_burst)
{
    uint64_t passed[KEYS];

    set_rate(1, 500);
    for (int key = 0; key < KEYS; key++)
        assert_int_equal(charge(1000 + (uint64_t)key, START), 0);
    run_race(passed);
    for (int key = 0; key < KEYS; key++)
        assert_int_equal(passed[key], 499);
}

static int entries_of(uint64_t key)
{
    int entries = 0;

    for (uint32_t i = 0; i < segment_count(&segment, SEGMENT_RATE_BUCKETS); i++)
        for (int way = 0; way < SEGMENT_RATE_WAYS; way++)
            entries += segment_rate_bucket(&segment, i)->entry[way].key == key;
    return entries;
}

/* A thread that waits too long for another to add the entry accepts its request uncharged. */
TEST(concurrent_threads_add_one_entry)
{
    uint64_t passed[KEYS];

    set_rate(1, 500);
    run_race(passed);
    for (int key = 0; key < KEYS; key++) {
        assert_int_equal(entries_of(1000 + (uint64_t)key), 1);
        assert_true(passed[key] >= 500);
        assert_true(charge(1000 + (uint64_t)key, START) > 0);
    }
}

static void *flood(void *argument)
{
    uint64_t key = (uint64_t)(uintptr_t)argument << 32;

    for (uint64_t i = 0; i < 60000; i++)
        charge(key + i, START + i);
    return NULL;
}

/*
 * More clients than the table holds: those that have used most of their burst keep their entries.
 */
TEST(flood_of_addresses_keeps_used_up_entry)
{
    pthread_t id[THREADS];

    set_rate(1, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(charge(7, START), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&id[i], NULL, flood, (void *)(uintptr_t)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    assert_int_not_equal(charge(7, START), 0);
}

TEST(claim_of_dead_process_expires)
{
    set_rate(1, 1);
    for (uint32_t i = 0; i < segment_count(&segment, SEGMENT_RATE_BUCKETS); i++) {
        segment_rate_bucket(&segment, i)->claimed_ns = START;
        segment_rate_bucket(&segment, i)->entry[2].time_ns = SEGMENT_RATE_CHANGING;
        segment_rate_bucket(&segment, i)->entry[2].key = 7;
    }
    assert_int_equal(charge(7, START), 0); /* claimed: charged by this worker only */
    rate_guard_free(guard);
    guard = rate_guard_new(&segment);
    assert_int_equal(charge(7, START), 0);
    assert_int_equal(charge(7, START + 2 * NS_PER_S), 0);
    assert_int_not_equal(charge(7, START + 2 * NS_PER_S), 0);
}

/* A worker may store anything in the table. */
TEST(claim_of_the_future_expires)
{
    set_rate(1, 1);
    for (uint32_t i = 0; i < segment_count(&segment, SEGMENT_RATE_BUCKETS); i++)
        segment_rate_bucket(&segment, i)->claimed_ns = START + 3600 * NS_PER_S;
    assert_int_equal(charge(7, START), 0);
    assert_int_not_equal(charge(7, START), 0);
}

TEST(addresses_map_to_keys)
{
    static const struct {
        const char *one, *other;
        bool same;
    } pairs[] = {
        {"::ffff:10.0.0.1", "::ffff:10.0.0.1", true},
        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", false},
        {"::ffff:10.0.0.1", "::ffff:11.0.0.1", false},
        {"2001:db8::1", "2001:db8::ffff:2", true},
        {"2001:db8::1", "2001:db8:0:1::1", false},
        {"::1", "::2", true},
        {"::1", "2001:db8::", false},
        {"::", "::1", false},
    };
    uint8_t one[16], other[16];

    for (size_t i = 0; i < ARRAY_LENGTH(pairs); i++) {
        assert_int_equal(inet_pton(AF_INET6, pairs[i].one, one), 1);
        assert_int_equal(inet_pton(AF_INET6, pairs[i].other, other), 1);
        assert_int_equal(client_key(one) == client_key(other), pairs[i].same);
        assert_int_not_equal(client_key(other), 0);
    }
    assert_int_equal(inet_pton(AF_INET6, "::", one), 1);
    assert_int_equal(client_key(one), 0);
}

/* --- Connections --- */

TEST(address_above_max_is_rejected)
{
    for (int i = 0; i < 3; i++)
        assert_int_equal(client_limit_enter(limits[0], 7, 3), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(limits[0], 7, 3), CLIENT_LIMIT_EXCEEDED);
    assert_int_equal(client_limit_enter(limits[0], 8, 3), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_count(&segment, 7), 3);
    client_limit_leave(limits[0], 7);
    assert_int_equal(client_limit_enter(limits[0], 7, 3), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(limits[0], 7, UINT32_MAX),
                     CLIENT_LIMIT_COUNTED); /* already admitted */
    assert_int_equal(client_limit_count(&segment, 7), 4);
}

TEST(max_holds_for_the_sum_of_all_workers)
{
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(client_limit_enter(limits[i], 7, WORKERS), CLIENT_LIMIT_COUNTED);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(client_limit_enter(limits[i], 7, WORKERS), CLIENT_LIMIT_EXCEEDED);
    assert_int_equal(client_limit_count(&segment, 7), WORKERS);
    client_limit_leave(limits[1], 7);
    assert_int_equal(client_limit_enter(limits[2], 7, WORKERS), CLIENT_LIMIT_COUNTED);
}

/* Worker 1 claims all connections of an address. */
TEST(claims_of_another_worker_leave_an_equal_share)
{
    static const struct {
        uint32_t workers, max;
        int share;
    } cases[] = {{4, 100, 25}, {3, 10, 3}, {2, 2, 1}, {4, 3, 1}, {1, 5, 5}, {0, 5, 1}};
    const uint64_t key = UINT64_C(0x20010db800070000); /* IPv6: a site, too */

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int admitted = 0;

        atomic_store(&segment_master(&segment)->workers_wanted, cases[i].workers);
        for (int k = 0; k < 2000; k++)
            assert_int_equal(client_limit_enter(limits[1], key, UINT32_MAX), CLIENT_LIMIT_COUNTED);
        while (admitted < 200 &&
               client_limit_enter(limits[0], key, cases[i].max) == CLIENT_LIMIT_COUNTED) {
            assert_false(client_limit_exceeds(limits[0], key, cases[i].max));
            admitted++;
        }
        assert_int_equal(admitted, cases[i].share);
        assert_int_equal(client_limit_enter(limits[0], key, UINT32_MAX), CLIENT_LIMIT_COUNTED);
        assert_true(client_limit_exceeds(limits[0], key, cases[i].max));
        capacity_clear_slot(&segment, 0);
        capacity_clear_slot(&segment, 1);
    }
}

/* Worker 1 claims so many that the sum of all would be small again. */
TEST(overflowing_claims_do_not_lift_the_limit)
{
    int admitted = 0;

    assert_int_equal(client_limit_enter(limits[1], 7, UINT32_MAX), CLIENT_LIMIT_COUNTED);
    for (uint32_t i = 0; i < SEGMENT_CLIENTS_PER_WORKER; i++)
        if (segment_clients(&segment, 1)[i].key == 7)
            segment_clients(&segment, 1)[i].count = UINT64_MAX - 50;
    while (admitted < 50 && client_limit_enter(limits[0], 7, 9) == CLIENT_LIMIT_COUNTED)
        admitted++;
    assert_int_equal(admitted, 9 / WORKERS);
}

TEST(cleared_worker_slot_counts_nothing)
{
    assert_int_equal(client_limit_enter(limits[0], 7, 9), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(limits[1], 7, 9), CLIENT_LIMIT_COUNTED);
    assert_int_equal(client_limit_enter(limits[1], 9, 9), CLIENT_LIMIT_COUNTED);
    capacity_clear_slot(&segment, 1);
    assert_int_equal(client_limit_count(&segment, 7), 1);
    assert_int_equal(client_limit_count(&segment, 9), 0);
}

/* Many more addresses than entries enter and leave: entries are reused and end at 0. */
TEST(entries_are_reused)
{
    for (uint64_t key = 1; key <= UINT64_C(50) * SEGMENT_CLIENTS_PER_WORKER; key++) {
        assert_int_equal(client_limit_enter(limits[0], key, 1), CLIENT_LIMIT_COUNTED);
        client_limit_leave(limits[0], key);
    }
    for (uint32_t i = 0; i < SEGMENT_CLIENTS_PER_WORKER; i++)
        assert_int_equal(segment_clients(&segment, 0)[i].count, 0);
}

TEST(full_table_admits_uncounted)
{
    uint64_t counted = 0, key = 1;

    for (; key <= UINT64_C(2) * SEGMENT_CLIENTS_PER_WORKER; key++) {
        enum client_limit_verdict verdict = client_limit_enter(limits[0], key, 1);

        assert_int_not_equal(verdict, CLIENT_LIMIT_EXCEEDED);
        counted += verdict == CLIENT_LIMIT_COUNTED;
    }
    assert_in_range(counted, SEGMENT_CLIENTS_PER_WORKER / 2, SEGMENT_CLIENTS_PER_WORKER);
}

/* IPv6: connections of the networks (/64) of one site (/48). */
TEST(site_has_a_multiple_of_max)
{
    enum { MAX_OF_NETWORK = 2, NETWORKS = 100 };
    static const struct {
        uint64_t first, step, counted;
    } cases[] = {
        {UINT64_C(0x20010db800070000), 1, (uint64_t)CLIENT_SITE_FACTOR * MAX_OF_NETWORK},
        {UINT64_C(0x20010db800080000), 0, MAX_OF_NETWORK},
        {UINT64_C(0x20010db900000000), 0x10000, NETWORKS}, /* other sites */
        {UINT64_C(0x0000ffffc0000200), 1, NETWORKS},       /* IPv4 */
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        bool entered[NETWORKS];
        uint64_t counted = 0;

        for (uint64_t n = 0; n < NETWORKS; n++) {
            entered[n] = client_limit_enter(limits[0], cases[i].first + n * cases[i].step,
                                            MAX_OF_NETWORK) == CLIENT_LIMIT_COUNTED;
            counted += entered[n];
        }
        assert_int_equal(counted, cases[i].counted);
        assert_int_equal(client_limit_exceeds(limits[0], cases[i].first, 1),
                         cases[i].counted < NETWORKS);
        for (uint64_t n = 0; n < NETWORKS; n++)
            if (entered[n])
                client_limit_leave(limits[0], cases[i].first + n * cases[i].step);
    }
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        for (uint32_t i = 0; i < SEGMENT_CLIENTS_PER_WORKER; i++)
            assert_int_equal(segment_clients(&segment, worker)[i].count, 0);
}

/* Threads of all workers enter and leave concurrently. */

/* Beyond MAX, each worker may admit its share, of one connection. */
enum { CLIENT_THREADS = 4, ROUNDS = 4000, MAX = 5, BOUND = MAX + WORKERS - 1 };

static _Atomic int inside, max_exceeded;

static void *enter_and_leave(void *argument)
{
    struct client_limit *own = argument;

    for (int i = 0; i < ROUNDS; i++) {
        if (client_limit_enter(own, 7, MAX) != CLIENT_LIMIT_COUNTED)
            continue;
        if (atomic_fetch_add(&inside, 1) + 1 > BOUND)
            atomic_store(&max_exceeded, 1);
        if (i % 16 == 0)
            sched_yield();
        atomic_fetch_sub(&inside, 1);
        client_limit_leave(own, 7);
    }
    return NULL;
}

TEST(concurrent_workers_exceed_max_by_shares_only)
{
    pthread_t id[WORKERS * CLIENT_THREADS];

    for (int i = 0; i < WORKERS * CLIENT_THREADS; i++)
        assert_int_equal(pthread_create(&id[i], NULL, enter_and_leave, limits[i % WORKERS]), 0);
    for (int i = 0; i < WORKERS * CLIENT_THREADS; i++)
        pthread_join(id[i], NULL);
    assert_int_equal(max_exceeded, 0);
    assert_int_equal(client_limit_count(&segment, 7), 0);
}

/* --- Single clients and networks --- */

/* Fills entry I as the master does. */
static void set_limit(uint32_t i, const char *text, uint32_t rate, uint64_t until_ns)
{
    struct segment_address_limit *entry = &segment_address_limits(&segment)->entry[i];
    struct network network;
    uint64_t words[2];

    assert_int_equal(network_parse(text, &network), NETWORK_GOOD);
    memcpy(words, network.address, sizeof(words));
    entry->address[0] = words[0];
    entry->address[1] = words[1];
    entry->prefix = network.prefix;
    entry->requests_per_second = rate;
    entry->id = i + 1;
    entry->until_ns = until_ns;
    segment_address_limits(&segment)->count = i + 1;
}

/* The rate of the limit that holds for TEXT; -1: none. */
static int limit_of(const char *text, uint64_t now_ns)
{
    struct address_limit limit;
    uint8_t address[CLIENT_ADDRESS_BYTES];

    assert_int_equal(inet_pton(AF_INET6, text, address), 1);
    return address_limit_find(&segment, address, now_ns, &limit) ? (int)limit.requests_per_second
                                                                 : -1;
}

TEST(smallest_network_holds)
{
    assert_false(address_limits_exist(&segment));
    set_limit(0, "10.1.0.0/16", 2, START + 1);
    set_limit(1, "10.0.0.0/8", 1, START + 1);
    set_limit(2, "10.1.2.3", 0, START + 1);
    set_limit(3, "2001:db8::/64", 4, START + 1);
    assert_true(address_limits_exist(&segment));
    assert_int_equal(limit_of("::ffff:10.9.9.9", START), 1);
    assert_int_equal(limit_of("::ffff:10.1.9.9", START), 2);
    assert_int_equal(limit_of("::ffff:10.1.2.3", START), 0);
    assert_int_equal(limit_of("::ffff:11.1.2.3", START), -1);
    assert_int_equal(limit_of("2001:db8::7", START), 4);
    assert_int_equal(limit_of("2001:db8:0:1::7", START), -1);
    assert_int_equal(limit_of("::", START), -1); /* a UNIX socket */
}

TEST(limit_ends_at_its_time)
{
    set_limit(0, "10.0.0.0/8", 1, START);
    assert_int_equal(limit_of("::ffff:10.1.2.3", START - 1), 1);
    assert_int_equal(limit_of("::ffff:10.1.2.3", START), -1);
}

TEST(rate_is_charged_by_limit)
{
    uint64_t key = client_limit_key(7), other = client_limit_key(8);

    for (int i = 0; i < 3; i++)
        assert_int_equal(rate_guard_charge_at(guard, key, 3, START), 0);
    assert_true(rate_guard_charge_at(guard, key, 3, START) > 0);
    assert_int_equal(rate_guard_charge_at(guard, other, 3, START), 0);
    assert_int_equal(rate_guard_charge_at(guard, key, 3, START + NS_PER_S), 0);
    assert_int_equal(rate_limit_rejected(&segment, key), 1);
    assert_int_equal(rate_limit_rejected(&segment, other), 0);
}

TEST(blocked_requests_are_counted)
{
    uint64_t key = client_limit_key(9);

    assert_int_equal(rate_limit_rejected(&segment, key), 0);
    for (int i = 0; i < 5; i++)
        rate_limit_count(&segment, key, START);
    assert_int_equal(rate_limit_rejected(&segment, key), 5);
}
