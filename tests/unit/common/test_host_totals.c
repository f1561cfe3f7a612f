/* The sums of what threads count for each host, while hosts come and go. */
#include "common/segment_reader.h"

#include "tests/test.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, HOSTS = 4 };

static struct segment segment;

/* What another process does while the hosts are read. */
static struct {
    bool memory_is_short;
    uint32_t entry;        /* of HOSTS */
    uint64_t id_at_malloc; /* what the entry becomes; 0: stays */
    bool frees_at_malloc;
} other;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. The labels are its names. */
void *__wrap_malloc(size_t size)
{
    if (other.id_at_malloc != 0 || other.frees_at_malloc)
        segment_store_host(&segment, other.entry, other.id_at_malloc, "late");
    if (!other.memory_is_short)
        return __real_malloc(size);
    errno = ENOMEM;
    return NULL;
}

static int set_up(void **state)
{
    (void)state;
    memset(&other, 0, sizeof(other));
    if (own_segment_create(&segment,
                           (struct segment_plan){.max_threads = THREADS, .max_hosts = HOSTS}) != 0)
        return -1;
    for (uint32_t i = 0; i < THREADS; i++)
        if (segment_reserve_thread(&segment, i) != 0)
            return -1;
    return segment_reserve_hosts(&segment, HOSTS);
}

static int tear_down(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static struct segment_host_counts *counts_of(uint32_t thread, uint32_t entry)
{
    return &segment_host_counts_of(&segment, thread)[entry];
}

TEST(name_is_that_of_an_entry_in_use)
{
    char name[HOST_NAME_BYTES];

    segment_store_host(&segment, HOSTS - 1, 7, "www.example.org");
    assert_int_equal(host_name_read(&segment, HOSTS - 1, name), 7);
    assert_string_equal(name, "www.example.org");
    assert_int_equal(host_name_read(&segment, 0, name), 0);
}

/* The number may come from a process that was taken over. */
TEST(entry_out_of_range_is_not_in_use)
{
    char name[HOST_NAME_BYTES];

    segment_store_host(&segment, 2, 7, "beyond");
    segment.section[SEGMENT_HOSTS].count = 2;
    assert_int_equal(host_name_read(&segment, 2, name), 0);
    assert_int_equal(host_name_read(&segment, UINT32_MAX, name), 0);
    segment.section[SEGMENT_HOSTS].count = 0; /* as of a server of another program */
    assert_int_equal(host_name_read(&segment, 0, name), 0);
}

enum { CHANGES = 50000 };

static atomic_bool changing;

static void host_with_id(uint64_t id, char *name)
{
    snprintf(name, HOST_NAME_BYTES, "%0*llu", (int)(id % 200 + 1), (unsigned long long)id);
}

static void *reuse_entry(void *unused)
{
    char name[HOST_NAME_BYTES];

    for (uint64_t id = 1; id <= CHANGES; id++) {
        host_with_id(id, name);
        segment_store_host(&segment, 1, id, name);
    }
    atomic_store(&changing, false);
    return unused;
}

TEST(name_of_an_entry_that_is_reused_belongs_to_its_id)
{
    char name[HOST_NAME_BYTES], expected[HOST_NAME_BYTES];
    uint64_t mixed = 0, id;
    pthread_t writer;

    atomic_store(&changing, true);
    assert_int_equal(pthread_create(&writer, NULL, reuse_entry, NULL), 0);
    while (atomic_load(&changing)) {
        id = host_name_read(&segment, 1, name);
        host_with_id(id, expected);
        mixed += id != 0 && strcmp(name, expected) != 0;
    }
    pthread_join(writer, NULL);
    assert_int_equal(mixed, 0);
    assert_int_equal(host_name_read(&segment, 1, name), CHANGES);
}

/* Each thread counts 1, 10 or 100 for the first metric, twice that for the next and so on. */
static void set_counts(uint32_t thread, uint32_t entry, uint64_t id, uint64_t one)
{
    struct segment_host_counts *counts = counts_of(thread, entry);

    atomic_store(&counts->id, id);
    for (uint64_t i = 0; i < HOST_METRIC_COUNT; i++)
        atomic_store(&counts->values[i], one * (i + 1));
    atomic_store(&counts->latency[0], one);
    atomic_store(&counts->latency[HISTOGRAM_COARSE_BUCKETS - 1], one);
}

TEST(totals_are_sums_over_all_threads)
{
    struct host_totals totals;

    segment_store_host(&segment, 2, 7, "a");
    set_counts(0, 2, 7, 1);
    set_counts(1, 2, 7, 10);
    set_counts(2, 2, 7, 100);
    assert_true(host_totals_read(&segment, 2, &totals));
    assert_int_equal(totals.id, 7);
    assert_int_equal(totals.entry, 2);
    assert_string_equal(totals.name, "a");
    for (uint64_t i = 0; i < HOST_METRIC_COUNT; i++)
        assert_int_equal(totals.values[i], 111 * (i + 1));
    assert_int_equal(totals.latency[0], 111);
    assert_int_equal(totals.latency[1], 0);
    assert_int_equal(totals.latency[HISTOGRAM_COARSE_BUCKETS - 1], 111);
    assert_int_equal(totals.latency_max_ns, 0);
}

TEST(totals_leave_out_other_hosts_and_unused_threads)
{
    struct host_totals totals;

    segment_store_host(&segment, 2, 7, "a");
    set_counts(0, 2, 6, 1); /* of the host before */
    set_counts(0, 1, 7, 10);
    set_counts(1, 2, 7, 100);
    atomic_store(&segment_thread_slot(&segment, 1)->reserved, 0);
    set_counts(2, 2, 7, 1000);
    segment.section[SEGMENT_HOST_COUNTS].count = 2;
    assert_true(host_totals_read(&segment, 2, &totals));
    for (size_t i = 0; i < HOST_METRIC_COUNT; i++)
        assert_int_equal(totals.values[i], 0);
    assert_int_equal(totals.latency[0], 0);
}

TEST(maximum_is_that_of_the_slowest_thread)
{
    static const uint64_t latency_ns[] = {2000, 4000, 3000};
    struct host_totals totals;

    segment_store_host(&segment, 0, 1, "*");
    for (uint32_t i = 0; i < THREADS; i++) {
        set_counts(i, 0, 1, 1);
        atomic_store(&counts_of(i, 0)->latency_max_ns, latency_ns[i]);
    }
    assert_true(host_totals_read(&segment, 0, &totals));
    assert_int_equal(totals.latency_max_ns, 4000);
}

TEST(percentile_is_bounded_by_the_maximum)
{
    struct host_totals totals = {.latency_max_ns = 0};

    assert_int_equal(host_totals_percentile(&totals, 99), 0);
    totals.latency[histogram_index(2000) >> HISTOGRAM_COARSE_SHIFT] = 90;
    totals.latency[histogram_index(4000) >> HISTOGRAM_COARSE_SHIFT] = 10;
    totals.latency_max_ns = 4001;
    assert_in_range(host_totals_percentile(&totals, 50), 2000, 2500);
    assert_int_equal(host_totals_percentile(&totals, 99), 4001);
}

TEST(requests_are_responses_of_any_status)
{
    struct host_totals totals = {.values = {[HOST_METRIC_responses_2xx] = 1,
                                            [HOST_METRIC_responses_3xx] = 20,
                                            [HOST_METRIC_responses_4xx] = 300,
                                            [HOST_METRIC_responses_5xx] = 4000,
                                            [HOST_METRIC_body_bytes] = 50000,
                                            [HOST_METRIC_response_time] = 50000}};

    assert_int_equal(host_totals_requests(&totals), 4321);
}

/* Checks the names of all hosts, each followed by a blank; "": none, and no array. */
static void expect_all(const char *names)
{
    size_t count = SIZE_MAX;
    struct host_totals *all = host_totals_read_all(&segment, &count);
    char text[HOSTS * (sizeof(all->name) + 1)] = "";

    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", all[i].name);
    assert_string_equal(text, names);
    if (names[0] == '\0')
        assert_null(all);
    free(all);
}

TEST(all_hosts_come_in_the_order_of_entries)
{
    expect_all("");
    segment_store_host(&segment, 3, 9, "c");
    segment_store_host(&segment, 0, 1, "*");
    segment_store_host(&segment, 2, 5, "b");
    expect_all("* b c ");
    segment_store_host(&segment, 2, 0, "");
    expect_all("* c ");
    segment.section[SEGMENT_HOSTS].count = 3;
    expect_all("* ");
    segment_store_host(&segment, 0, 0, "");
    expect_all("");
}

/* A host that is new after they were counted is left to the next reading. */
TEST(hosts_may_change_while_all_are_read)
{
    segment_store_host(&segment, 0, 1, "*");
    segment_store_host(&segment, 2, 5, "b");
    other.entry = 3;
    other.id_at_malloc = 9;
    expect_all("* b ");
    other.id_at_malloc = 0;
    expect_all("* b late ");
    other.entry = 2;
    other.frees_at_malloc = true;
    expect_all("* late ");
}

TEST(without_memory_there_are_no_totals)
{
    size_t count = 5;

    segment_store_host(&segment, 0, 1, "*");
    other.memory_is_short = true;
    assert_null(host_totals_read_all(&segment, &count));
    assert_int_equal(count, 0);
}
