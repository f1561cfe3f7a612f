/* The context of a worker: opened, filled and closed, also without memory for one of its parts. */
#include "daemon/worker/worker.h"

#include "common/macros.h"
#include "daemon/config/load.h"
#include "daemon/content/cache.h"
#include "daemon/transaction/accounting.h"
#include "daemon/worker/internal.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

static struct config config;
static struct segment segment;
static struct worker_context context;
static int until_failure; /* allocations; negative: none fails */

void *__wrap_calloc(size_t count, size_t size)
{
    return until_failure >= 0 && until_failure-- == 0 ? NULL : __real_calloc(count, size);
}

static void load(const char *policy, const char *enabled)
{
    char root[64];
    const char *overrides[] = {root, policy, enabled, "workers.offload_threads=1-1"};
    const struct config_sources sources = {.overrides = overrides,
                                           .override_count = ARRAY_LENGTH(overrides)};

    snprintf(root, sizeof(root), "server.root=%s", own_directory);
    assert_int_equal(config_load(&config, &sources, stderr), 0);
}

static int set_up(void **state)
{
    (void)state;
    until_failure = -1;
    own_directory_make();
    return own_segment_create(&segment, (struct segment_plan){.cache_entries = 64}) != 0 ||
                   segment_reserve_worker(&segment, 0) != 0
               ? -1
               : 0;
}

static int tear_down(void **state)
{
    (void)state;
    config_free(&config);
    segment_destroy(&segment);
    return own_directory_remove();
}

const struct test_fixture test_fixture = {set_up, tear_down};

static int open_and_fill(void)
{
    context = (struct worker_context){.segment = &segment};
    if (worker_context_open(&context, &config, NULL) != 0)
        return -1;
    return worker_context_fill(&context, segment_worker(&segment, 0));
}

TEST(cache_holds_a_quarter_of_the_descriptors)
{
    static const rlim_t limits[][2] = {{0, 0},       {3, 0},       {4, 1},      {1024, 256},
                                       {4095, 1023}, {4096, 1024}, {8192, 1024}};

    load("cache.policy=lru", "cache.enabled=on");
    for (size_t i = 0; i < ARRAY_LENGTH(limits); i++) {
        const struct rlimit limit = {.rlim_cur = limits[i][0]};

        assert_int_equal(worker_cache_descriptors(&limit), limits[i][1]);
    }
}

TEST(context_is_that_of_the_configuration)
{
    static const struct host_place places[] = {{.entry = 7}};

    load("cache.policy=lru", "cache.enabled=on");
    assert_int_equal(open_and_fill(), 0);
    assert_ptr_equal(context.config, &config);
    assert_non_null(context.cache);
    assert_in_range(context.cache_descriptors, 1, 1024);
    assert_int_equal(offload_actual(context.offload), 1);
    assert_int_equal(context.sites.count, 1);
    assert_int_equal(context.sites.site[0].host, 0);
    context.host_places = places;
    worker_context_close(&context);
    context = (struct worker_context){.segment = &segment, .host_places = places};
    assert_int_equal(worker_context_open(&context, &config, NULL), 0);
    assert_int_equal(worker_context_fill(&context, segment_worker(&segment, 0)), 0);
    assert_int_equal(context.sites.site[0].host, 7);
    worker_context_close(&context);
}

TEST(context_without_cache_is_complete)
{
    load("cache.policy=sieve", "cache.enabled=off");
    assert_int_equal(open_and_fill(), 0);
    assert_null(context.cache);
    worker_context_close(&context);
}

TEST(missing_root_is_an_error)
{
    load("cache.policy=sieve", "cache.enabled=on");
    assert_int_equal(own_directory_remove(), 0);
    assert_int_equal(open_and_fill(), -1);
    worker_context_close(&context);
}

TEST(context_without_memory_for_a_part_is_closed)
{
    int descriptors, failures = 0, result = -1;

    load("cache.policy=sieve", "cache.enabled=on");
    descriptors = open_descriptors();
    for (; result != 0; failures++) {
        until_failure = failures;
        result = open_and_fill();
        until_failure = -1;
        worker_context_close(&context);
        assert_int_equal(open_descriptors(), descriptors);
    }
    assert_true(failures > 5);
}
