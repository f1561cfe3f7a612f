/* What the context of a worker has, and that all of it is closed. Its parts are of the test. */
#include "daemon/worker/context.h"

#include "common/macros.h"
#include "daemon/transaction/accounting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/resource.h>

enum { SITES = 3, SLOT = 2, DESCRIPTORS = 400 };

/* The parts, in the order in which they are made. */
enum part { MIME, CACHE, OFFLOAD, CLIENT_LIMIT, LOGINS, PARTS };

static const struct host_place places[SITES] = {{.entry = 7}, {.entry = 5}, {.entry = 9}};
static struct site sites[SITES];
static struct config config;
static struct segment segment;
static struct segment_worker block;
static struct worker_context context;
static char parts[PARTS];   /* only their addresses are used */
static unsigned open_parts; /* bits */
static enum part failing;   /* cannot be made; PARTS: none */
static bool sites_fail, limit_fails;
static int open_sites;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __wrap_getrlimit(int resource, struct rlimit *limit);
int __wrap_sites_open(struct sites *of, const struct config *from);
int __wrap_sites_fill(struct sites *of, const struct mime_table *mime);
void __wrap_sites_close(struct sites *of);
void *__wrap_mime_table_new(const char *const *extensions, const char *const *types, size_t count);
void __wrap_mime_table_free(void *part);
void *__wrap_cache_new(const struct cache_limits *limits, const struct cache_policy *policy,
                       void (*destroy)(struct cache_entry *entry), const struct segment *of,
                       uint32_t worker_slot);
void __wrap_cache_free(void *part);
void *__wrap_offload_start(uint32_t queue_length, uint32_t min, uint32_t max,
                           struct segment_worker *of);
void __wrap_offload_stop(void *part);
void *__wrap_client_limit_new(const struct segment *of, uint32_t worker);
void __wrap_client_limit_free(void *part);
void *__wrap_logins_new(uint32_t failures_a_minute);
void __wrap_logins_free(void *part);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static void *make(enum part part)
{
    if (part == failing)
        return NULL;
    open_parts |= 1U << part;
    return &parts[part];
}

static void drop(const void *part, enum part expected)
{
    if (part == NULL)
        return;
    assert_ptr_equal(part, &parts[expected]);
    open_parts &= ~(1U << expected);
}

int __wrap_getrlimit(int resource, struct rlimit *limit)
{
    assert_int_equal(resource, RLIMIT_NOFILE);
    limit->rlim_cur = 4 * DESCRIPTORS;
    return limit_fails ? -1 : 0;
}

int __wrap_sites_open(struct sites *of, const struct config *from)
{
    assert_ptr_equal(from, &config);
    *of = (struct sites){.count = SITES, .site = sites};
    open_sites++;
    return sites_fail ? -1 : 0;
}

int __wrap_sites_fill(struct sites *of, const struct mime_table *mime)
{
    assert_ptr_equal(of, &context.sites);
    assert_ptr_equal(mime, &parts[MIME]);
    return sites_fail ? -1 : 0;
}

void __wrap_sites_close(struct sites *of)
{
    assert_ptr_equal(of, &context.sites);
    open_sites--;
}

void *__wrap_mime_table_new(const char *const *extensions, const char *const *types, size_t count)
{
    (void)extensions, (void)types, (void)count;
    return make(MIME);
}

void __wrap_mime_table_free(void *part)
{
    drop(part, MIME);
}

void *__wrap_cache_new(const struct cache_limits *limits, const struct cache_policy *policy,
                       void (*destroy)(struct cache_entry *entry), const struct segment *of,
                       uint32_t worker_slot)
{
    assert_int_equal(limits->bytes, config.cache_size);
    assert_int_equal(limits->descriptors, DESCRIPTORS);
    assert_ptr_equal(policy, &cache_policy_lru);
    assert_ptr_equal(destroy, resource_destroy);
    assert_ptr_equal(of, &segment);
    assert_int_equal(worker_slot, SLOT);
    return make(CACHE);
}

void __wrap_cache_free(void *part)
{
    drop(part, CACHE);
}

void *__wrap_offload_start(uint32_t queue_length, uint32_t min, uint32_t max,
                           struct segment_worker *of)
{
    assert_int_equal(queue_length, 10);
    assert_int_equal(min, 1);
    assert_int_equal(max, 4);
    assert_ptr_equal(of, &block);
    return make(OFFLOAD);
}

void __wrap_offload_stop(void *part)
{
    assert_non_null(part);
    drop(part, OFFLOAD);
}

void *__wrap_client_limit_new(const struct segment *of, uint32_t worker)
{
    assert_ptr_equal(of, &segment);
    assert_int_equal(worker, SLOT);
    return make(CLIENT_LIMIT);
}

void __wrap_client_limit_free(void *part)
{
    drop(part, CLIENT_LIMIT);
}

void *__wrap_logins_new(uint32_t failures_a_minute)
{
    assert_int_equal(failures_a_minute, 6);
    return make(LOGINS);
}

void __wrap_logins_free(void *part)
{
    drop(part, LOGINS);
}

static int set_up(void **state)
{
    (void)state;
    config = (struct config){.cache_enabled = true,
                             .cache_policy = POLICY_LRU,
                             .cache_size = 12345,
                             .workers_offload_queue = 10,
                             .workers_offload_threads = {.min = 1, .max = 4},
                             .limits_failed_logins = 6};
    context = (struct worker_context){.segment = &segment, .worker_slot = SLOT};
    memset(sites, 0, sizeof(sites));
    open_parts = 0;
    open_sites = 0;
    failing = PARTS;
    sites_fail = limit_fails = false;
    return 0;
}

static void close_context(void)
{
    worker_context_close(&context);
    assert_int_equal(open_parts, 0);
    assert_int_equal(open_sites, 0);
}

static void cache_holds_a_quarter_of_the_descriptors(void **state)
{
    static const rlim_t limits[][2] = {{0, 0},       {3, 0},       {4, 1},      {1024, 256},
                                       {4095, 1023}, {4096, 1024}, {8192, 1024}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(limits); i++) {
        const struct rlimit limit = {.rlim_cur = limits[i][0]};

        assert_int_equal(worker_context_cache_descriptors(&limit), limits[i][1]);
    }
}

static void policy_is_that_of_the_configuration(void **state)
{
    (void)state;
    assert_ptr_equal(worker_context_cache_policy(POLICY_LRU), &cache_policy_lru);
    assert_ptr_equal(worker_context_cache_policy(POLICY_SIEVE), &cache_policy_sieve);
}

static void filled_context_has_all_parts(void **state)
{
    (void)state;
    context.host_places = places;
    assert_int_equal(worker_context_open(&context, &config), 0);
    assert_int_equal(worker_context_fill(&context, &block), 0);
    assert_ptr_equal(context.config, &config);
    assert_ptr_equal(context.cache, &parts[CACHE]);
    assert_int_equal(open_parts, (1U << PARTS) - 1);
    for (int i = 0; i < SITES; i++)
        assert_int_equal(sites[i].host, places[i].entry);
    close_context();
}

static void unknown_limit_of_descriptors_gives_the_cache_none(void **state)
{
    (void)state;
    limit_fails = true;
    assert_int_equal(worker_context_open(&context, &config), 0);
    assert_int_equal(context.cache_descriptors, 0);
    close_context();
}

static void context_without_cache_and_hosts_is_complete(void **state)
{
    (void)state;
    config.cache_enabled = false;
    assert_int_equal(worker_context_open(&context, &config), 0);
    assert_int_equal(worker_context_fill(&context, &block), 0);
    assert_null(context.cache);
    for (int i = 0; i < SITES; i++)
        assert_int_equal(sites[i].host, 0);
    close_context();
}

static void context_without_one_of_its_parts_is_closed(void **state)
{
    for (int part = 0; part < PARTS; part++) {
        set_up(state);
        failing = (enum part)part;
        assert_int_equal(worker_context_open(&context, &config), 0);
        assert_int_equal(worker_context_fill(&context, &block), -1);
        close_context();
    }
}

static void sites_that_fail_are_closed(void **state)
{
    (void)state;
    sites_fail = true;
    assert_int_equal(worker_context_open(&context, &config), -1);
    close_context();
    sites_fail = false;
    context = (struct worker_context){.segment = &segment, .worker_slot = SLOT};
    assert_int_equal(worker_context_open(&context, &config), 0);
    sites_fail = true;
    assert_int_equal(worker_context_fill(&context, &block), -1);
    close_context();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(cache_holds_a_quarter_of_the_descriptors, set_up),
        cmocka_unit_test_setup(policy_is_that_of_the_configuration, set_up),
        cmocka_unit_test_setup(filled_context_has_all_parts, set_up),
        cmocka_unit_test_setup(unknown_limit_of_descriptors_gives_the_cache_none, set_up),
        cmocka_unit_test_setup(context_without_cache_and_hosts_is_complete, set_up),
        cmocka_unit_test_setup(context_without_one_of_its_parts_is_closed, set_up),
        cmocka_unit_test_setup(sites_that_fail_are_closed, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
