/*
 * How a file and its variants are found: in the caches, in what an offload thread has loaded, or in the file
 * system, and what happens if the loading must wait or fails.
 */
#include "daemon/transaction/lookup.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/content/thread_cache.h"
#include "daemon/http/target.h"
#include "daemon/transaction/loading.h"
#include "daemon/transaction/memory.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/own_cache.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { SITE = 3, FOUND_MAX = 4, MAX_AGE_MS = 1000 };

#define START_NS (100 * NS_PER_S)

static struct {
    struct own_cache own;
    struct config config;
    struct worker_context worker;
    struct transaction_context context;
    struct client client;
    struct transaction_state state;
    struct site site;
    struct request request;
    struct transaction transaction;

    uint64_t coarse_ns, exact_ns; /* the clocks */

    /* The file system, without and with waiting for a disk. */
    int result, blocking_result;
    unsigned loads, blocking_loads;
    struct resource *made; /* by the last loading */
    int check_result, blocking_check_result;
    unsigned checks;

    /* The offload queue. */
    bool queue_full;
    unsigned submitted;
    char submitted_path[TARGET_PATH_MAX + 8];
    const struct resource *original;
    enum coding coding;

    unsigned expected, fetched; /* prefetches for the thread cache */

    /* What an offload thread has loaded for the request. */
    const char *offloaded_path;
    int offload_result;
    unsigned discarded;

    /* Memory. */
    enum memory_room room;
    uint64_t freed, freed_before;
    unsigned looked_for_room;
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_resource_load(const struct resource_source *source, const char *path, size_t length,
                         enum files_effort opening, enum files_effort reading, uint64_t now_ns,
                         struct resource **resource);
int __wrap_resource_load_variant(const struct resource_source *source,
                                 const struct resource *original, enum coding coding,
                                 enum files_effort opening, enum files_effort reading,
                                 struct resource **resource);
int __wrap_resource_check(const struct resource_source *source, struct resource *resource,
                          enum files_effort effort, struct directory_check *check, uint64_t now_ns);
bool __wrap_loading_submit(struct transaction *transaction, struct span path,
                           struct resource *original, enum coding coding);
bool __wrap_loading_take(struct transaction *transaction, struct span path, struct resource **found,
                         int *failed);
void __wrap_loading_discard(struct transaction_state *state, struct cache *cache);
void __wrap_thread_cache_expect(struct thread_cache *cache, uint32_t site, struct span target);
void __wrap_thread_cache_fetch(const struct thread_cache *cache);
uint64_t __wrap_memory_freed(const struct worker_context *worker);
enum memory_room __wrap_memory_find_room(struct transaction_context *context,
                                         uint64_t freed_before);

void __wrap_thread_cache_expect(struct thread_cache *cache, uint32_t site, struct span target)
{
    assert_ptr_equal(cache, scene.context.thread_cache);
    assert_int_equal(site, site_cache_key(&scene.site, true));
    assert_true(span_is(target, scene.request.target));
    scene.expected++;
}

void __wrap_thread_cache_fetch(const struct thread_cache *cache)
{
    assert_ptr_equal(cache, scene.context.thread_cache);
    scene.fetched++;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    uint64_t ns = id == CLOCK_MONOTONIC_COARSE ? scene.coarse_ns : scene.exact_ns;

    if (id == CLOCK_REALTIME)
        return __real_clock_gettime(id, now);
    *now =
        (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (int64_t)(ns % NS_PER_S)};
    return 0;
}

/* What the consoles show. */
static enum thread_state shown(void)
{
    return (enum thread_state)atomic_load(&scene.context.activity->state);
}

static void make(const char *path, size_t length)
{
    assert_int_equal(page_new((struct span){path, length}, "Content-Type: text/plain\r\n", "body",
                              4, &scene.made),
                     0);
    scene.made->entry.site = SITE;
    atomic_store(&scene.made->entry.checked_ns, START_NS);
}

int __wrap_resource_load(const struct resource_source *source, const char *path, size_t length,
                         enum files_effort opening, enum files_effort reading, uint64_t now_ns,
                         struct resource **resource)
{
    int result = opening == FILES_CACHED_ONLY ? scene.result : scene.blocking_result;

    assert_ptr_equal(source, &scene.site.source);
    assert_int_equal(reading, FILES_CACHED_ONLY); /* the loop never reads from a disk */
    assert_int_equal(now_ns, scene.context.loop_now_ns);
    assert_int_equal(shown(), THREAD_STATE_FILE);
    scene.loads++;
    scene.blocking_loads += opening == FILES_MAY_BLOCK;
    scene.freed_before = scene.freed++;
    if (result != 0)
        return result;
    make(path, length);
    *resource = scene.made;
    return 0;
}

int __wrap_resource_load_variant(const struct resource_source *source,
                                 const struct resource *original, enum coding coding,
                                 enum files_effort opening, enum files_effort reading,
                                 struct resource **resource)
{
    char path[TARGET_PATH_MAX + 16];

    assert_ptr_equal(source, &scene.site.source);
    assert_int_equal(opening, FILES_CACHED_ONLY);
    assert_int_equal(reading, FILES_CACHED_ONLY);
    scene.loads++;
    scene.coding = coding;
    scene.freed_before = scene.freed++;
    if (scene.result != 0)
        return scene.result;
    snprintf(path, sizeof(path), "%s//%s", original->entry.path, coding_names[coding].start);
    make(path, strlen(path));
    scene.made->variants = original->variants;
    *resource = scene.made;
    return 0;
}

int __wrap_resource_check(const struct resource_source *source, struct resource *resource,
                          enum files_effort effort, struct directory_check *check, uint64_t now_ns)
{
    (void)resource;
    assert_ptr_equal(source, &scene.site.source);
    assert_ptr_equal(check, &scene.context.directory);
    assert_true(now_ns >= scene.coarse_ns && now_ns >= scene.context.loop_now_ns);
    assert_int_equal(shown(), THREAD_STATE_FILE);
    scene.checks++;
    return effort == FILES_CACHED_ONLY ? scene.check_result : scene.blocking_check_result;
}

bool __wrap_loading_submit(struct transaction *transaction, struct span path,
                           struct resource *original, enum coding coding)
{
    assert_ptr_equal(transaction, &scene.transaction);
    assert_true(transaction->may_wait);
    snprintf(scene.submitted_path, sizeof(scene.submitted_path), "%.*s", (int)path.length,
             path.start);
    scene.original = original;
    scene.coding = coding;
    scene.submitted += !scene.queue_full;
    return !scene.queue_full;
}

bool __wrap_loading_take(struct transaction *transaction, struct span path, struct resource **found,
                         int *failed)
{
    if (scene.offloaded_path == NULL ||
        !span_is(path, (struct span){scene.offloaded_path, strlen(scene.offloaded_path)}))
        return false;
    transaction->outcome = OUTCOME_OFFLOAD;
    *failed = scene.offload_result;
    if (*failed == 0) {
        make(path.start, path.length);
        *found = scene.made;
    }
    return true;
}

void __wrap_loading_discard(struct transaction_state *state, struct cache *cache)
{
    assert_ptr_equal(state, &scene.state);
    assert_ptr_equal(cache, scene.worker.cache);
    scene.discarded++;
}

uint64_t __wrap_memory_freed(const struct worker_context *worker)
{
    assert_ptr_equal(worker, &scene.worker);
    return scene.freed;
}

enum memory_room __wrap_memory_find_room(struct transaction_context *context, uint64_t freed_before)
{
    assert_ptr_equal(context, &scene.context);
    assert_int_equal(freed_before, scene.freed_before);
    scene.looked_for_room++;
    return scene.room;
}
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static int set_up(void **state)
{
    struct segment_thread *thread;

    (void)state;
    memset(&scene, 0, sizeof(scene));
    scene.coarse_ns = scene.exact_ns = START_NS;
    own_cache_open(&scene.own, resource_destroy);
    thread = segment_thread(&scene.own.segment, 0);
    scene.config.cache_revalidate = MAX_AGE_MS;
    scene.worker = (struct worker_context){.config = &scene.config, .cache = scene.own.cache};
    scene.site.number = SITE;
    scene.worker.sites.fallback = &scene.site;
    scene.context.worker = &scene.worker;
    scene.context.loop_now_ns = START_NS;
    scene.context.metrics = thread->metrics;
    scene.context.activity = &thread->activity;
    scene.context.accept_encoding.preference = PREFER_IDENTITY;
    scene.context.negative_cache = negative_cache_new(MAX_AGE_MS * NS_PER_MS);
    assert_non_null(scene.context.negative_cache);
    scene.transaction = (struct transaction){.context = &scene.context,
                                             .client = &scene.client,
                                             .state = &scene.state,
                                             .request = &scene.request,
                                             .site = &scene.site,
                                             .may_wait = true};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (scene.context.thread_cache != NULL)
        thread_cache_free(scene.context.thread_cache);
    negative_cache_free(scene.context.negative_cache);
    own_cache_close(&scene.own);
    return 0;
}

/* --- Helpers --- */

static void drop(struct resource *resource)
{
    resource_release(scene.worker.cache, resource);
}

static unsigned references(struct resource *resource)
{
    return atomic_load(&resource->entry.references);
}

static void pass(uint64_t ms)
{
    scene.coarse_ns += ms * NS_PER_MS;
    scene.exact_ns = scene.context.loop_now_ns = scene.coarse_ns;
}

static int look_up(const char *path, struct resource **found)
{
    *found = NULL;
    scene.transaction.outcome = OUTCOME_ERROR;
    return lookup_path(&scene.transaction, path, strlen(path), found);
}

/* The caller has a reference. */
static struct resource *find(const char *path, enum outcome outcome)
{
    struct resource *found;

    assert_int_equal(look_up(path, &found), 0);
    assert_non_null(found);
    assert_string_equal(found->entry.path, path);
    assert_int_equal(scene.transaction.outcome, outcome);
    return found;
}

/* The lookup fails, or waits. */
static void expect_failure(const char *path, int failed, enum outcome outcome)
{
    struct resource *found;

    assert_int_equal(look_up(path, &found), failed);
    assert_int_equal(scene.transaction.outcome, outcome);
}

static uint64_t rejected(void)
{
    return metric_get(scene.context.metrics, METRIC_offload_rejected);
}

/* --- Files --- */

static void file_is_loaded_once(void **state)
{
    struct resource *file = find("/a", OUTCOME_MISS);

    (void)state;
    assert_int_equal(references(file), 2); /* with that of the cache */
    assert_ptr_equal(find("/a", OUTCOME_HIT), file);
    assert_int_equal(shown(), THREAD_STATE_LOCK); /* that of the cache */
    assert_int_equal(references(file), 3);
    assert_int_equal(scene.loads, 1);
    drop(file);
    drop(file);
}

static void without_caches_every_lookup_loads(void **state)
{
    (void)state;
    scene.worker.cache = NULL;
    negative_cache_free(scene.context.negative_cache);
    scene.context.negative_cache = NULL;
    for (unsigned i = 1; i <= 2; i++) {
        struct resource *file = find("/a", OUTCOME_MISS);

        assert_int_equal(references(file), 1);
        drop(file);
        assert_int_equal(scene.loads, i);
    }
    scene.result = ENOENT;
    expect_failure("/b", ENOENT, OUTCOME_MISS);
    lookup_forget(&scene.transaction, "/b", 2);
    expect_failure("/b", ENOENT, OUTCOME_MISS);
    assert_int_equal(scene.loads, 4);
    scene.context.negative_cache = negative_cache_new(NS_PER_S);
}

static void absent_file_is_remembered_until_forgotten(void **state)
{
    struct site other = {.number = SITE + 1};

    (void)state;
    scene.result = ENOENT;
    expect_failure("/a", ENOENT, OUTCOME_MISS);
    expect_failure("/a", ENOENT, OUTCOME_MISS);
    assert_int_equal(scene.loads, 1);
    expect_failure("/b", ENOENT, OUTCOME_MISS);
    assert_int_equal(scene.loads, 2);
    assert_false(negative_cache_has(scene.context.negative_cache, other.number,
                                    (struct span){"/a", 2}, START_NS));
    lookup_forget(&scene.transaction, "/a", 2);
    assert_int_equal(scene.discarded, 1);
    scene.result = 0;
    drop(find("/a", OUTCOME_MISS));
    expect_failure("/b", ENOENT, OUTCOME_MISS);
    pass(MAX_AGE_MS);
    drop(find("/b", OUTCOME_MISS));
}

static void other_errors_are_not_remembered(void **state)
{
    (void)state;
    scene.result = EACCES;
    expect_failure("/a", EACCES, OUTCOME_MISS);
    expect_failure("/a", EACCES, OUTCOME_MISS);
    assert_int_equal(scene.loads, 2);
}

static void result_of_an_offload_thread_comes_first(void **state)
{
    (void)state;
    drop(find("/a", OUTCOME_MISS));
    scene.offloaded_path = "/a";
    drop(find("/a", OUTCOME_OFFLOAD));
    scene.offload_result = EIO;
    expect_failure("/a", EIO, OUTCOME_OFFLOAD);
    assert_int_equal(scene.loads, 1);
}

/* --- Files that need a disk --- */

static void file_that_needs_a_disk_is_loaded_by_a_job(void **state)
{
    static const int results[] = {EAGAIN, EBUSY};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        scene.result = results[i];
        expect_failure("/a", LOOKUP_MUST_WAIT, OUTCOME_MISS);
        assert_int_equal(scene.submitted, i + 1);
        assert_string_equal(scene.submitted_path, "/a");
        assert_null(scene.original);
        assert_int_equal(scene.coding, CODING_IDENTITY);
        assert_int_equal(scene.loads, i + 1);
    }
    assert_int_equal(rejected(), 0);
}

static void without_a_job_the_loop_opens_but_does_not_read(void **state)
{
    (void)state;
    scene.result = EAGAIN;
    for (unsigned i = 0; i < 2; i++) {
        const char *path = i == 0 ? "/a" : "/b";

        scene.queue_full = i == 0;
        scene.transaction.may_wait = i == 0;
        scene.blocking_result = 0;
        drop(find(path, OUTCOME_MISS));
        drop(find(path, OUTCOME_HIT));
        assert_int_equal(rejected(), i);
        scene.blocking_result = EBUSY;
        expect_failure("/c", EBUSY, OUTCOME_MISS);
        assert_int_equal(rejected(), i + 1);
        scene.blocking_result = EIO;
        expect_failure("/c", EIO, OUTCOME_MISS);
        assert_int_equal(rejected(), i + 1);
    }
    assert_int_equal(scene.blocking_loads, 6);
    assert_int_equal(scene.submitted, 0);
}

/* --- Files that are checked --- */

static void file_is_checked_when_three_quarters_of_its_age_are_over(void **state)
{
    (void)state;
    drop(find("/a", OUTCOME_MISS));
    pass(MAX_AGE_MS * 3 / 4 - 1);
    drop(find("/a", OUTCOME_HIT));
    assert_int_equal(scene.checks, 0);
    pass(1);
    drop(find("/a", OUTCOME_HIT));
    assert_int_equal(scene.checks, 1);
    assert_int_equal(atomic_load(&scene.made->entry.checked_ns), scene.coarse_ns);
    pass(MAX_AGE_MS * 3 / 4 - 1);
    drop(find("/a", OUTCOME_HIT));
    assert_int_equal(scene.checks, 1);
    pass(1);
    drop(find("/a", OUTCOME_HIT));
    assert_int_equal(scene.checks, 2);
    assert_int_equal(scene.loads, 1);
}

/* The later of the loop's time and the coarse clock decides. */
static void either_clock_may_be_late(void **state)
{
    (void)state;
    drop(find("/a", OUTCOME_MISS));
    scene.coarse_ns += MAX_AGE_MS * NS_PER_MS;
    drop(find("/a", OUTCOME_HIT));
    assert_int_equal(scene.checks, 1);
    scene.context.loop_now_ns = scene.coarse_ns + MAX_AGE_MS * NS_PER_MS;
    drop(find("/a", OUTCOME_HIT));
    assert_int_equal(scene.checks, 2);
}

static void file_that_another_thread_checks_is_served_meanwhile(void **state)
{
    struct resource *file = find("/a", OUTCOME_MISS);

    (void)state;
    pass(MAX_AGE_MS - 1);
    assert_true(cache_claim_check(&file->entry, scene.exact_ns, MAX_AGE_MS * NS_PER_MS));
    drop(find("/a", OUTCOME_HIT));
    assert_int_equal(scene.checks, 0);
    pass(1);
    drop(find("/a", OUTCOME_HIT));
    assert_int_equal(scene.checks, 1);
    drop(file);
}

static void changed_file_is_loaded_again(void **state)
{
    struct resource *old = find("/a", OUTCOME_MISS), *fresh;

    (void)state;
    scene.check_result = ESTALE;
    pass(MAX_AGE_MS);
    fresh = find("/a", OUTCOME_MISS);
    assert_ptr_not_equal(fresh, old);
    assert_int_equal(scene.checks, 1);
    assert_int_equal(scene.loads, 2);
    assert_int_equal(references(old), 1); /* the test's */
    drop(old);
    drop(fresh);
}

static void check_that_needs_a_disk_is_left_to_a_job(void **state)
{
    struct resource *file = find("/a", OUTCOME_MISS);

    (void)state;
    scene.check_result = EAGAIN;
    pass(MAX_AGE_MS);
    expect_failure("/a", LOOKUP_MUST_WAIT, OUTCOME_HIT);
    assert_string_equal(scene.submitted_path, "/a");
    assert_null(scene.original);
    assert_int_equal(scene.coding, CODING_IDENTITY);
    assert_int_equal(scene.checks, 1);
    assert_int_equal(references(file), 2);
    drop(file);
}

static void without_a_job_the_loop_checks_itself(void **state)
{
    (void)state;
    drop(find("/a", OUTCOME_MISS));
    scene.check_result = EAGAIN;
    pass(MAX_AGE_MS);
    scene.transaction.may_wait = false;
    drop(find("/a", OUTCOME_HIT));
    assert_int_equal(scene.checks, 2);
    drop(find("/a", OUTCOME_HIT));
    assert_int_equal(scene.checks, 2);
    pass(MAX_AGE_MS);
    scene.transaction.may_wait = scene.queue_full = true;
    scene.blocking_check_result = ESTALE;
    drop(find("/a", OUTCOME_MISS));
    assert_int_equal(scene.checks, 4);
    assert_int_equal(scene.submitted, 0);
}

/* --- Shortage of memory --- */

static void loading_is_repeated_while_the_cache_shrinks(void **state)
{
    (void)state;
    scene.result = ENOMEM;
    scene.room = MEMORY_FREED;
    expect_failure("/a", LOOKUP_MUST_WAIT, OUTCOME_MISS);
    assert_int_equal(scene.loads, MEMORY_EAGER_TRIES);
    assert_int_equal(scene.submitted, 1);
    assert_string_equal(scene.submitted_path, "/a");
}

static void memory_that_others_use_is_awaited_by_a_job(void **state)
{
    (void)state;
    scene.result = ENOMEM;
    scene.room = MEMORY_AWAITED;
    expect_failure("/a", LOOKUP_MUST_WAIT, OUTCOME_MISS);
    assert_int_equal(scene.loads, 1);
    assert_int_equal(scene.submitted, 1);
}

static void loading_without_memory_fails(void **state)
{
    (void)state;
    scene.result = ENOMEM;
    expect_failure("/a", ENOMEM, OUTCOME_MISS);
    assert_int_equal(scene.looked_for_room, 1);
    scene.room = MEMORY_AWAITED;
    scene.transaction.may_wait = false;
    expect_failure("/a", ENOMEM, OUTCOME_MISS);
    scene.transaction.may_wait = scene.queue_full = true;
    expect_failure("/a", ENOMEM, OUTCOME_MISS);
    assert_int_equal(scene.submitted, 0);
    scene.result = EACCES;
    expect_failure("/a", EACCES, OUTCOME_MISS);
    assert_int_equal(scene.looked_for_room, 3);
}

/* --- Variants --- */

static void client_accepts(const char *codings)
{
    struct coding_weights weights = CODING_WEIGHTS_NONE;

    coding_read(&weights, (struct span){codings, strlen(codings)});
    scene.transaction.accepts = coding_prefer(&weights);
}

/* The file "/a", of which a gzip variant can be made, with a precompressed variant in HAS. */
static struct resource *find_file(enum coding has)
{
    struct resource *file = find("/a", scene.loads == 0 ? OUTCOME_MISS : OUTCOME_HIT);

    file->may_gzip = true;
    if (has != CODING_IDENTITY)
        file->variants.member[has].inode = 1;
    return file;
}

/* Returns the chosen variant; the caller has a reference. NULL: the result is FAILED. */
static struct resource *choose(struct resource *file, int failed)
{
    struct resource *chosen = file;

    assert_int_equal(lookup_variant(&scene.transaction, &chosen), failed);
    return failed == 0 ? chosen : NULL;
}

static void client_without_codings_gets_the_file(void **state)
{
    struct resource *file = find_file(CODING_BR);

    (void)state;
    scene.transaction.accepts = PREFER_IDENTITY;
    assert_ptr_equal(choose(file, 0), file);
    assert_int_equal(references(file), 2);
    assert_int_equal(scene.loads, 1);
    drop(file);
}

static void variant_is_loaded_once(void **state)
{
    struct resource *file = find_file(CODING_BR), *variant;

    (void)state;
    client_accepts("br, gzip;q=0.5");
    scene.transaction.outcome = OUTCOME_HIT;
    variant = choose(file, 0);
    assert_string_equal(variant->entry.path, "/a//br");
    assert_int_equal(scene.coding, CODING_BR);
    assert_int_equal(scene.transaction.outcome, OUTCOME_MISS);
    assert_int_equal(references(file), 1); /* that of the cache */
    assert_int_equal(references(variant), 2);

    scene.transaction.outcome = OUTCOME_HIT;
    cache_acquire(&file->entry);
    atomic_store(&file->entry.checked_ns, START_NS + 7);
    assert_ptr_equal(choose(file, 0), variant);
    assert_int_equal(scene.transaction.outcome, OUTCOME_HIT);
    assert_int_equal(atomic_load(&variant->entry.checked_ns), START_NS + 7); /* as the file was */
    assert_int_equal(scene.loads, 2);
    assert_int_equal(references(file), 1);
    drop(variant);
    drop(variant);
}

static void outcome_stays_unless_only_the_variant_is_missing(void **state)
{
    struct resource *file = find_file(CODING_BR);

    (void)state;
    client_accepts("br");
    scene.transaction.outcome = OUTCOME_OFFLOAD;
    drop(choose(file, 0));
    assert_int_equal(scene.transaction.outcome, OUTCOME_OFFLOAD);
}

static void variant_of_another_version_is_loaded_again(void **state)
{
    struct resource *file = find_file(CODING_BR), *old, *variant;

    (void)state;
    client_accepts("br");
    cache_acquire(&file->entry);
    old = choose(file, 0);
    file->variants.member[CODING_IDENTITY].mtime_s++;
    variant = choose(file, 0);
    assert_ptr_not_equal(variant, old);
    assert_int_equal(references(old), 1); /* the test's */
    drop(old);
    drop(variant);
}

static void variant_from_an_offload_thread_comes_first(void **state)
{
    struct resource *file = find_file(CODING_BR);

    (void)state;
    client_accepts("br, gzip;q=0.5, identity;q=0");
    scene.offloaded_path = "/a//br";
    cache_acquire(&file->entry);
    drop(choose(file, 0));
    assert_int_equal(scene.loads, 1);
    scene.offload_result = ENODATA;
    drop(choose(file, 0));
    assert_int_equal(scene.coding, CODING_GZIP);
}

static void variant_that_needs_time_is_made_by_a_job(void **state)
{
    static const int results[] = {EAGAIN, EBUSY};
    struct resource *file = find_file(CODING_IDENTITY);

    (void)state;
    client_accepts("gzip");
    for (unsigned i = 0; i < 2; i++) {
        scene.result = results[i];
        cache_acquire(&file->entry);
        choose(file, LOOKUP_MUST_WAIT);
        assert_int_equal(scene.submitted, i + 1);
        assert_string_equal(scene.submitted_path, "/a//gzip");
        assert_ptr_equal(scene.original, file);
        assert_int_equal(scene.coding, CODING_GZIP);
        assert_int_equal(references(file), 2);
    }
    drop(file);
}

static void without_a_job_another_coding_is_sent(void **state)
{
    struct resource *file = find_file(CODING_IDENTITY);

    (void)state;
    scene.result = EBUSY;
    scene.queue_full = true;
    for (int i = 0; i < 2; i++) {
        client_accepts("gzip");
        assert_ptr_equal(choose(file, 0), file);
        client_accepts("gzip, identity;q=0");
        cache_acquire(&file->entry);
        choose(file, EBUSY);
        assert_int_equal(references(file), 2);
        scene.queue_full = false;
        scene.transaction.may_wait = false;
    }
    assert_int_equal(scene.submitted, 0);
    drop(file);
}

static void variant_that_does_not_exist_is_not_acceptable(void **state)
{
    struct resource *file = find_file(CODING_IDENTITY);

    (void)state;
    for (int i = 0; i < 4; i++)
        cache_acquire(&file->entry);
    client_accepts("br, identity;q=0");
    choose(file, LOOKUP_NOT_ACCEPTABLE);
    client_accepts("gzip, identity;q=0");
    scene.result = ENODATA;
    choose(file, LOOKUP_NOT_ACCEPTABLE);
    assert_int_equal(scene.loads, 2);
    atomic_store(&file->gzip_not_smaller, true);
    choose(file, LOOKUP_NOT_ACCEPTABLE);
    atomic_store(&file->gzip_not_smaller, false);
    file->may_gzip = false;
    choose(file, LOOKUP_NOT_ACCEPTABLE);
    assert_int_equal(scene.loads, 2);
    assert_int_equal(references(file), 2);
    file->variants.member[CODING_GZIP].inode = 1; /* beside the file */
    scene.result = 0;
    drop(choose(file, 0));
    assert_int_equal(scene.loads, 3);
}

static void loading_of_a_variant_is_repeated_while_the_cache_shrinks(void **state)
{
    struct resource *file = find_file(CODING_BR);

    (void)state;
    client_accepts("br");
    scene.result = ENOMEM;
    scene.room = MEMORY_FREED;
    scene.loads = 0;
    cache_acquire(&file->entry);
    choose(file, LOOKUP_MUST_WAIT);
    assert_int_equal(scene.loads, MEMORY_EAGER_TRIES);
    assert_int_equal(scene.submitted, 1);
    assert_string_equal(scene.submitted_path, "/a//br");
    assert_ptr_equal(scene.original, file);
    assert_int_equal(scene.coding, CODING_BR);
    scene.room = MEMORY_NONE;
    assert_ptr_equal(choose(file, 0), file); /* identity */
    drop(file);
}

static void path_that_is_too_long_has_no_variant(void **state)
{
    static char path[TARGET_PATH_MAX + 8 - 6 + 1]; /* with "//gzip" it has no room for a NUL */

    (void)state;
    client_accepts("gzip");
    memset(path, 'a', sizeof(path) - 1);
    for (size_t length = sizeof(path) - 2; length <= sizeof(path) - 1; length++) {
        struct resource *chosen;

        make(path, length);
        scene.made->may_gzip = true;
        chosen = choose(scene.made, 0);
        assert_int_equal(chosen->entry.path_length,
                         length == sizeof(path) - 1 ? length : length + 6);
        drop(chosen);
    }
}

/* --- Accept-Encoding --- */

static coding_preference accepted(const char *line)
{
    const struct request request = {.present = REQUEST_ACCEPT_ENCODING,
                                    .accept_encoding = {line, strlen(line)}};

    return lookup_accepted_codings(&scene.context, &request);
}

static void value_of_accept_encoding_decides(void **state)
{
    static const char *const values[] = {"br", "br", "gzip", "gz", "br;q=0.5, gzip", "", "*;q=0"};

    (void)state;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
            client_accepts(values[i]);
            assert_int_equal(accepted(values[i]), scene.transaction.accepts);
        }
}

static void last_value_of_accept_encoding_is_not_parsed_again(void **state)
{
    struct accept_encoding_memo *memo = &scene.context.accept_encoding;
    char value[sizeof(memo->value) + 1] = "gzip";

    (void)state;
    memset(value + 4, ' ', sizeof(memo->value) - 4); /* the longest that is remembered */
    client_accepts("gzip");
    assert_int_equal(accepted(value), scene.transaction.accepts);
    memo->preference = PREFER_IDENTITY; /* as if it had another meaning */
    assert_int_equal(accepted(value), PREFER_IDENTITY);
    assert_int_not_equal(accepted("br"), PREFER_IDENTITY);
}

static void long_value_of_accept_encoding_is_not_remembered(void **state)
{
    static const struct site_memo none; /* it follows the memo */
    char value[200] = "gzip";

    (void)state;
    memset(value + 4, ' ', sizeof(value) - 5);
    client_accepts("gzip");
    assert_int_equal(accepted(value), scene.transaction.accepts);
    value[sizeof(scene.context.accept_encoding.value) + 1] = '\0'; /* one byte too long */
    assert_int_equal(accepted(value), scene.transaction.accepts);
    assert_int_equal(scene.context.accept_encoding.length, 0);
    assert_memory_equal(&scene.context.site, &none, sizeof(none));
}

static void absent_accept_encoding_means_identity(void **state)
{
    const struct request request = {.accept_encoding = SPAN("br")};

    (void)state;
    assert_int_equal(lookup_accepted_codings(&scene.context, &request), PREFER_IDENTITY);
}

static void lines_of_accept_encoding_are_one_list(void **state)
{
    static const char lines[] = "Accept-Encoding: br;q=0.5\r\nAccept-Encoding: gzip\r\n";
    const struct request request = {.present = REQUEST_ACCEPT_ENCODING,
                                    .repeated = REQUEST_ACCEPT_ENCODING,
                                    .fields = {lines, sizeof(lines) - 1},
                                    .accept_encoding = {strchr(lines, 'b'), 8}};

    (void)state;
    client_accepts("br;q=0.5, gzip");
    assert_int_equal(lookup_accepted_codings(&scene.context, &request), scene.transaction.accepts);
}

/* --- The thread cache --- */

static void open_thread_cache(void)
{
    scene.context.thread_cache = thread_cache_new(
        scene.worker.cache, segment_hits_of(&scene.own.segment, 0), scene.context.metrics);
    assert_non_null(scene.context.thread_cache);
    scene.request.target = SPAN("/a?");
    scene.request.target.length = 2;
    scene.transaction.accepts = PREFER_IDENTITY;
}

static void thread_cache_is_asked_by_target_site_scheme_and_codings(void **state)
{
    struct site other = {.number = SITE + 1};
    struct resource *file;

    (void)state;
    open_thread_cache();
    scene.site.redirects.of_scheme = true;
    assert_null(lookup_in_thread_cache(&scene.transaction));
    file = find("/a", OUTCOME_MISS);
    lookup_store_in_thread_cache(&scene.transaction, file);
    assert_ptr_equal(lookup_in_thread_cache(&scene.transaction), file);
    assert_int_equal(references(file), 3); /* the test's, and of two caches */
    scene.client.secure = true;
    assert_null(lookup_in_thread_cache(&scene.transaction));
    scene.client.secure = false;
    scene.transaction.site = &other;
    assert_null(lookup_in_thread_cache(&scene.transaction));
    scene.transaction.site = &scene.site;
    client_accepts("gzip");
    assert_null(lookup_in_thread_cache(&scene.transaction));
    scene.transaction.accepts = PREFER_IDENTITY;
    scene.request.target.length = 3;
    assert_null(lookup_in_thread_cache(&scene.transaction));
    drop(file);
}

/* A processed request looks at what was loaded for it. */
static void thread_cache_does_not_answer_a_request_that_waited(void **state)
{
    struct load_job *job = (struct load_job *)&scene;
    struct resource *file;

    (void)state;
    open_thread_cache();
    file = find("/a", OUTCOME_MISS);
    lookup_store_in_thread_cache(&scene.transaction, file);
    scene.state.loaded = job;
    assert_null(lookup_in_thread_cache(&scene.transaction));
    scene.state.loaded = NULL;
    assert_ptr_equal(lookup_in_thread_cache(&scene.transaction), file);
    drop(file);
}

static void thread_cache_checks_its_files(void **state)
{
    struct resource *file;

    (void)state;
    open_thread_cache();
    file = find("/a", OUTCOME_MISS);
    lookup_store_in_thread_cache(&scene.transaction, file);
    pass(MAX_AGE_MS);
    assert_ptr_equal(lookup_in_thread_cache(&scene.transaction), file);
    assert_int_equal(scene.checks, 1);
    pass(MAX_AGE_MS);
    scene.check_result = EAGAIN;
    assert_null(lookup_in_thread_cache(&scene.transaction)); /* it waits */
    assert_int_equal(scene.submitted, 1);
    scene.check_result = ESTALE;
    assert_null(lookup_in_thread_cache(&scene.transaction));
    assert_true(atomic_load(&file->entry.stale));
    drop(file);
}

static void personal_and_uncached_files_are_not_for_the_thread_cache(void **state)
{
    struct resource *file;

    (void)state;
    open_thread_cache();
    file = find("/a", OUTCOME_MISS);
    scene.transaction.personal = true;
    lookup_store_in_thread_cache(&scene.transaction, file);
    assert_null(lookup_in_thread_cache(&scene.transaction));
    scene.transaction.personal = false;
    make("/a", 2); /* not in the shared cache */
    lookup_store_in_thread_cache(&scene.transaction, scene.made);
    assert_null(lookup_in_thread_cache(&scene.transaction));
    drop(scene.made);
    drop(file);
}

/* The policy tells single requests from repeated ones. */
static void file_that_was_just_loaded_has_no_hit(void **state)
{
    const struct segment_hits *hits = segment_hits_of(&scene.own.segment, 0);

    (void)state;
    open_thread_cache();
    for (unsigned i = 0; i < 2; i++) {
        struct resource *file = find("/a", i == 0 ? OUTCOME_MISS : OUTCOME_HIT);

        lookup_store_in_thread_cache(&scene.transaction, file);
        assert_int_equal(atomic_load(&hits[file->entry.slot].hits), i);
        drop(file);
    }
}

/* The last site of the thread, or that of hosts without a name. */
static void next_request_is_prefetched_for_the_last_site(void **state)
{
    static struct site other = {.number = SITE + 1};

    (void)state;
    open_thread_cache();
    lookup_prefetch_set(&scene.context, scene.request.target);
    lookup_prefetch_entry(&scene.context);
    assert_int_equal(scene.expected, 1);
    assert_int_equal(scene.fetched, 1);
    scene.context.site.site = &scene.site;
    scene.worker.sites.fallback = &other;
    lookup_prefetch_set(&scene.context, scene.request.target);
    assert_int_equal(scene.expected, 2);
}

static void without_a_thread_cache_nothing_is_found(void **state)
{
    struct resource *file = find("/a", OUTCOME_MISS);

    (void)state;
    lookup_prefetch_set(&scene.context, (struct span){"/a", 2});
    lookup_prefetch_entry(&scene.context);
    lookup_store_in_thread_cache(&scene.transaction, file);
    assert_null(lookup_in_thread_cache(&scene.transaction));
    assert_int_equal(scene.expected + scene.fetched, 0);
    drop(file);
}

/* --- Results --- */

static void every_result_has_a_status(void **state)
{
    (void)state;
    assert_int_equal(lookup_status(LOOKUP_NOT_ACCEPTABLE), 406);
    assert_int_equal(lookup_status(EBUSY), 503);
    assert_int_equal(lookup_status(ENOMEM), 503);
    assert_int_equal(lookup_status(ENOENT), 404);
    assert_int_equal(lookup_status(EACCES), 403);
    assert_int_equal(lookup_status(EIO), 500);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(file_is_loaded_once),
        TEST(without_caches_every_lookup_loads),
        TEST(absent_file_is_remembered_until_forgotten),
        TEST(other_errors_are_not_remembered),
        TEST(result_of_an_offload_thread_comes_first),
        TEST(file_that_needs_a_disk_is_loaded_by_a_job),
        TEST(without_a_job_the_loop_opens_but_does_not_read),
        TEST(file_is_checked_when_three_quarters_of_its_age_are_over),
        TEST(either_clock_may_be_late),
        TEST(file_that_another_thread_checks_is_served_meanwhile),
        TEST(changed_file_is_loaded_again),
        TEST(check_that_needs_a_disk_is_left_to_a_job),
        TEST(without_a_job_the_loop_checks_itself),
        TEST(loading_is_repeated_while_the_cache_shrinks),
        TEST(memory_that_others_use_is_awaited_by_a_job),
        TEST(loading_without_memory_fails),
        TEST(client_without_codings_gets_the_file),
        TEST(variant_is_loaded_once),
        TEST(outcome_stays_unless_only_the_variant_is_missing),
        TEST(variant_of_another_version_is_loaded_again),
        TEST(variant_from_an_offload_thread_comes_first),
        TEST(variant_that_needs_time_is_made_by_a_job),
        TEST(without_a_job_another_coding_is_sent),
        TEST(variant_that_does_not_exist_is_not_acceptable),
        TEST(loading_of_a_variant_is_repeated_while_the_cache_shrinks),
        TEST(path_that_is_too_long_has_no_variant),
        TEST(value_of_accept_encoding_decides),
        TEST(last_value_of_accept_encoding_is_not_parsed_again),
        TEST(long_value_of_accept_encoding_is_not_remembered),
        TEST(absent_accept_encoding_means_identity),
        TEST(lines_of_accept_encoding_are_one_list),
        TEST(thread_cache_is_asked_by_target_site_scheme_and_codings),
        TEST(thread_cache_does_not_answer_a_request_that_waited),
        TEST(thread_cache_checks_its_files),
        TEST(personal_and_uncached_files_are_not_for_the_thread_cache),
        TEST(file_that_was_just_loaded_has_no_hit),
        TEST(next_request_is_prefetched_for_the_last_site),
        TEST(without_a_thread_cache_nothing_is_found),
        TEST(every_result_has_a_status),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
