/* Intervals by host; entries that are used again, counts that workers forge. */
#include "common/clock.h"
#include "common/segment_reader.h"
#include "console/data/hosts.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS = 8 };

static struct segment segment;
static struct segment_reader reader;
static struct host_list list;
static uint64_t now_ns;

static int begin(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_threads = 2,
                                                           .max_hosts = HOSTS,
                                                           .ring_bytes = 16 * 1024}) != 0)
        return -1;
    segment_reserve_thread(&segment, 0);
    segment_reserve_thread(&segment, 1);
    segment_reserve_hosts(&segment, HOSTS);
    segment_publish(&segment);
    now_ns = 100 * NS_PER_S;
    return segment_attach_copy(&reader, segment.base, segment.size) == NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    host_list_release(&list);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static void add_host(uint32_t entry, uint64_t id, const char *name)
{
    segment_store_host(&segment, entry, id, name);
}

/* Thread THREAD answers COUNT requests for the host with entry ENTRY in 1 ms each. */
static void answer(uint32_t thread, uint32_t entry, enum host_metric class, uint64_t count)
{
    struct segment_host_counts *counts = &segment_host_counts_of(&segment, thread)[entry];

    counts->id = segment_host(&segment, entry)->id;
    counts->values[class] += count;
    counts->values[HOST_METRIC_body_bytes] += 100 * count;
    counts->latency[histogram_index(NS_PER_MS) >> HISTOGRAM_COARSE_SHIFT] += count;
    counts->latency_max_ns = NS_PER_MS;
}

static void take_after(uint64_t ns)
{
    now_ns += ns;
    assert_int_equal(host_list_take(&list, &reader, now_ns), 0);
}

static const struct host_row *row_of(const char *name)
{
    for (size_t i = 0; i < list.count; i++)
        if (strcmp(list.rows[i].name, name) == 0)
            return &list.rows[i];
    return NULL;
}

static void assert_near(double value, double expected)
{
    assert_true(fabs(value - expected) < 1e-9 * fabs(expected) + 1e-12);
}

TEST(server_without_hosts_has_no_rows)
{
    assert_false(hosts_counted(&reader));
    take_after(0);
    assert_int_equal(list.count, 0);
}

/* Two bases, one every 5 s: the interval is 5 to 10 s long. */
TEST(interval_slides)
{
    add_host(0, 1, "*");
    answer(0, 0, HOST_METRIC_responses_2xx, 0);
    take_after(0);
    for (int i = 0; i < 60; i++) {
        answer(0, 0, HOST_METRIC_responses_2xx, 50);
        take_after(NS_PER_S / 2);
        assert_true(list.interval_ns <= 11 * NS_PER_S);
        assert_near(row_of("*")->requests_per_s, 100);
    }
    assert_true(list.interval_ns >= 5 * NS_PER_S);
    take_after(60 * NS_PER_S); /* nobody looked */
    assert_int_equal(list.interval_ns, 0);
    assert_true(isnan(row_of("*")->share));
}

/* A reload gives the entry of a removed host to another one, whose counts begin at 0. */
TEST(reused_entry_is_another_host)
{
    add_host(0, 1, "*");
    add_host(1, 2, "old.example");
    answer(0, 1, HOST_METRIC_responses_2xx, 500);
    take_after(0);
    add_host(1, 0, "");
    add_host(1, 3, "new.example");
    take_after(NS_PER_S);
    assert_null(row_of("old.example"));
    assert_int_equal(row_of("new.example")->requests, 0);
    memset(&segment_host_counts_of(&segment, 0)[1], 0, sizeof(struct segment_host_counts));
    answer(0, 1, HOST_METRIC_responses_2xx, 7);
    take_after(NS_PER_S);
    assert_int_equal(row_of("new.example")->requests, 7);
    assert_near(row_of("new.example")->requests_per_s, 3.5);
}

/* Workers write the counts, and are not trusted. */
TEST(counts_that_decrease_give_no_rate)
{
    struct segment_host_counts *counts = segment_host_counts_of(&segment, 0);

    add_host(0, 1, "*");
    answer(0, 0, HOST_METRIC_responses_2xx, 100);
    take_after(0);
    counts->values[HOST_METRIC_responses_2xx] = 3;
    counts->values[HOST_METRIC_body_bytes] = UINT64_MAX;
    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        counts->latency[i] = UINT64_MAX / 3;
    counts->latency_max_ns = UINT64_MAX;
    take_after(NS_PER_S);
    assert_near(row_of("*")->requests_per_s, 0);
    assert_true(isnan(row_of("*")->p99_ns));
    assert_true(isfinite(row_of("*")->sent_per_s));
}
