/* Top lists: sliding windows, scaling for missed requests, the keys that stay. */
#include "common/clock.h"
#include "console/data/top.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct top *top;
static struct top_view view;

static int begin(void **state)
{
    (void)state;
    top = top_create();
    return top == NULL;
}

static int end(void **state)
{
    (void)state;
    top_destroy(top);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static void answer(uint64_t second, const char *request, uint16_t status, uint64_t duration_ns)
{
    struct log_record log = {.time_ns = second * NS_PER_S,
                             .duration_ns = duration_ns,
                             .body_bytes = 100,
                             .status = status,
                             .protocol = LOG_PROTOCOL_HTTP_1_1,
                             .address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1},
                             .request_line = span_of(request),
                             .agent = SPAN("test/1")};

    top_add(top, &(struct tail_record){.log = log});
}

static const struct sketch_entry *first(enum top_list list, uint64_t second, int seconds)
{
    top_collect(top, list, second * NS_PER_S, seconds, &view);
    return view.sketch.used > 0 ? &view.sketch.entry[0] : NULL;
}

TEST(each_list_counts_its_own_key)
{
    answer(1000, "GET /a?x=1 HTTP/1.1", 200, 1000);
    answer(1001, "GET /a?x=2 HTTP/1.1", 200, 3000);
    answer(1002, "GET /b HTTP/1.1", 404, 2000);
    assert_string_equal(first(TOP_PATHS, 1003, 60)->key, "/a");
    assert_float_equal(view.sketch.entry[0].count, 2, 0);
    assert_float_equal(view.sketch.entry[0].bytes, 200, 0);
    assert_float_equal(view.sketch.entry[0].duration_ns, 4000, 0);
    assert_int_equal(view.sketch.used, 2);
    assert_string_equal(first(TOP_CLIENTS, 1003, 60)->key, "127.0.0.1");
    assert_float_equal(view.sketch.entry[0].count, 3, 0);
    assert_string_equal(first(TOP_AGENTS, 1003, 60)->key, "test/1");
    assert_null(first(TOP_REFERERS, 1003, 60));
    assert_string_equal(first(TOP_ERRORS, 1003, 60)->key, "404 /b");
    assert_string_equal(first(TOP_SLOWEST, 1003, 60)->key, "/a");
    assert_float_equal(view.sketch.entry[0].longest_ns, 3000, 0);
    assert_string_equal(first(TOP_PROTOCOLS, 1003, 60)->key, "HTTP/1.1");
}

/* A request that a list does not have yet belongs to the pane of its time. */
TEST(requests_of_two_panes_may_alternate)
{
    for (int i = 0; i < 10; i++) {
        answer(1009, "GET /a HTTP/1.1", 200, 1);
        answer(1010, "GET /a HTTP/1.1", 200, 1);
        answer(1010, "GET /b HTTP/1.1", 500, 1);
    }
    assert_float_equal(first(TOP_PATHS, 1011, 10)->count, 10, 0);
    assert_int_equal(view.sketch.used, 2);
    assert_string_equal(first(TOP_ERRORS, 1011, 10)->key, "500 /b");
    assert_float_equal(first(TOP_PATHS, 1011, 20)->count, 20, 0);
    answer(1010, "GET /b HTTP/1.1", 500, 1);
    assert_float_equal(first(TOP_ERRORS, 1011, 10)->count, 11, 0);
}

/* A path as long as a hostile record can have it. */
TEST(longest_path_is_counted)
{
    static char request[LOG_RECORD_WORDS_MAX * 8];

    memset(request, 'x', sizeof(request) - 1);
    memcpy(request, "GET /", 5);
    answer(1000, request, 404, 1);
    answer(1000, request, 404, 1);
    assert_float_equal(first(TOP_ERRORS, 1001, 10)->count, 2, 0);
    assert_float_equal(first(TOP_PATHS, 1001, 10)->count, 2, 0);
    assert_int_equal(view.sketch.used, 1);
}

TEST(window_may_end_at_any_time)
{
    answer(1000, "GET /old HTTP/1.1", 200, 1);
    answer(1100, "GET /new HTTP/1.1", 200, 1);
    assert_string_equal(first(TOP_PATHS, 1105, 60)->key, "/new");
    assert_int_equal(view.sketch.used, 1);
    assert_string_equal(first(TOP_PATHS, 1005, 60)->key, "/old");
    assert_int_equal(view.sketch.used, 1);
    first(TOP_PATHS, 1105, 300);
    assert_int_equal(view.sketch.used, 2);
    assert_null(first(TOP_PATHS, 3000, 60));
}

TEST(window_starts_no_earlier_than_known)
{
    answer(1000, "GET /before HTTP/1.1", 200, 1);
    answer(1052, "GET /after HTTP/1.1", 200, 1);
    assert_int_equal(top_known_since(top), 0);
    top_set_known_since(top, 1050 * NS_PER_S);
    assert_true(top_known_since(top) > 0);
    assert_int_equal(top_collect(top, TOP_PATHS, 1055 * NS_PER_S, 300, &view), 6);
    assert_int_equal(view.sketch.used, 1);
    assert_string_equal(view.sketch.entry[0].key, "/after");
    assert_int_equal(top_collect(top, TOP_PATHS, 1155 * NS_PER_S, 60, &view), 56);
    top_set_known_since(top, 1010 * NS_PER_S); /* missing requests stay missing */
    assert_int_equal(top_collect(top, TOP_PATHS, 1055 * NS_PER_S, 300, &view), 6);
}

TEST(request_older_than_all_panes_is_ignored)
{
    answer(5000, "GET /a HTTP/1.1", 200, 1);
    answer(5000 - TOP_PANES * TOP_PANE_S, "GET /b HTTP/1.1", 200, 1);
    assert_string_equal(first(TOP_PATHS, 5000, 900)->key, "/a");
    assert_int_equal(view.sketch.used, 1);
}

TEST(missed_requests_scale_the_counts)
{
    for (int i = 0; i < 10; i++)
        answer(1000, "GET /a HTTP/1.1", 200, 1);
    first(TOP_PATHS, 1001, 60);
    assert_int_equal(top_one_in(&view), 1);
    top_miss(top, 1001 * NS_PER_S, 30);
    assert_float_equal(first(TOP_PATHS, 1001, 60)->count, 40, 1e-9);
    assert_int_equal(top_one_in(&view), 4);
}

TEST(slowest_keys_survive_many_fast_ones)
{
    char request[64];

    for (uint64_t i = 0; i < 5000; i++) {
        snprintf(request, sizeof(request), "GET /%d HTTP/1.1", (int)i);
        answer(1000, request, 200, i * 7919 % 5000);
    }
    assert_float_equal(first(TOP_SLOWEST, 1000, 60)->longest_ns, 4999, 0);
    for (uint32_t i = 0; i < SKETCH_KEYS; i++)
        assert_float_equal(view.sketch.entry[i].longest_ns, (float)(4999 - (int)i), 0);
}

TEST(long_keys_are_truncated_and_merged)
{
    char request[TAIL_REQUEST_BYTES];

    memset(request, 'x', sizeof(request));
    memcpy(request, "GET /", 5);
    request[sizeof(request) - 1] = '\0';
    answer(1000, request, 200, 1);
    request[sizeof(request) - 2] = 'y';
    answer(1010, request, 200, 1);
    assert_int_equal(strlen(first(TOP_PATHS, 1010, 60)->key), SKETCH_KEY_BYTES - 1);
    assert_float_equal(view.sketch.entry[0].count, 2, 0);
}

static long resident_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0;

    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
        fail_msg("cannot read /proc/self/statm");
    fclose(file);
    return pages;
}

/*
 * A pane has room for 1024 keys in each list; it touches what it needs, also when it is used again.
 */
TEST(memory_stays_at_what_keys_need)
{
    enum { ROUND_S = TOP_PANES * TOP_PANE_S, SLACK_BYTES = 4 << 20 };
    uint64_t second = 1000;
    long before;

    for (uint64_t until = second + ROUND_S; second < until; second++)
        answer(second, "GET /a HTTP/1.1", 404, 1000);
    before = resident_pages();
    for (uint64_t until = second + 3 * ROUND_S; second < until; second++)
        answer(second, "GET /b HTTP/1.1", 404, 1000);
    assert_true((resident_pages() - before) * sysconf(_SC_PAGESIZE) <= SLACK_BYTES);
    assert_string_equal(first(TOP_PATHS, second - 1, ROUND_S)->key, "/b");
    assert_int_equal(view.sketch.used, 1);
}
