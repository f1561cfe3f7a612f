/*
 * How a request waits for what an offload thread loads: what a job loads, what happens to its result, and
 * how it is repeated while memory is short. The test is the offload thread.
 */
#include "daemon/transaction/loading.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/http/response.h"
#include "daemon/http/target.h"
#include "daemon/transaction/memory.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/own_cache.h"

#include <errno.h>
#include <time.h>

#define FIELDS "Content-Type: text/plain\r\nVary: x\r\n"

enum { NOW_NS = 1234567, JOBS_MAX = 4, SITE = 3 };

static struct {
    struct own_cache own;
    struct worker_context worker;
    struct transaction_context context;
    struct mailbox mailbox;
    struct client client;
    struct transaction_state state;
    struct site site;
    struct transaction transaction;
    _Atomic uint64_t metrics[METRIC_COUNT];
    int resumed;

    /* What the offload queue gets. */
    bool queue_full;
    struct offload_job *queued;         /* the last one; NULL: it has been run */
    struct offload_job *jobs[JOBS_MAX]; /* all, until they are freed */

    /* What the loading gives. */
    int result;
    struct resource *loaded; /* if the result is 0 */
    const char *loaded_path;
    const struct resource *original;
    enum coding coding;
    unsigned loads, pauses;
    uint64_t pause_ns;

    /* Memory. */
    uint64_t freed, freed_before;
    enum memory_room room;
    bool makes_room;
    int allocations_to_fail, made_room;
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
void *__real_calloc(size_t count, size_t size);
void __real_free(void *memory);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *memory);
bool __wrap_offload_submit(struct offload *offload, struct offload_job *job, uint64_t now_ns);
int __wrap_nanosleep(const struct timespec *duration, struct timespec *left);
int __wrap_resource_load(const struct resource_source *source, const char *path, size_t length,
                         enum files_effort opening, enum files_effort reading, uint64_t now_ns,
                         struct resource **resource);
int __wrap_resource_load_variant(const struct resource_source *source,
                                 const struct resource *original, enum coding coding,
                                 enum files_effort opening, enum files_effort reading,
                                 struct resource **resource);
uint64_t __wrap_memory_freed(const struct worker_context *worker);
enum memory_room __wrap_memory_find_room(struct transaction_context *context,
                                         uint64_t freed_before);
bool __wrap_memory_make_room(struct transaction_context *context);

void *__wrap_calloc(size_t count, size_t size)
{
    if (scene.allocations_to_fail > 0) {
        scene.allocations_to_fail--;
        return NULL;
    }
    return __real_calloc(count, size);
}

void __wrap_free(void *memory)
{
    for (size_t i = 0; i < JOBS_MAX; i++)
        if (memory != NULL && memory == scene.jobs[i])
            scene.jobs[i] = NULL;
    __real_free(memory);
}

bool __wrap_offload_submit(struct offload *offload, struct offload_job *job, uint64_t now_ns)
{
    size_t i = 0;

    assert_ptr_equal(offload, scene.worker.offload);
    assert_int_equal(now_ns, NOW_NS);
    while (scene.jobs[i] != NULL && scene.jobs[i] != job)
        i++;
    assert_true(i < JOBS_MAX);
    scene.jobs[i] = job;
    if (!scene.queue_full)
        scene.queued = job;
    return !scene.queue_full;
}

int __wrap_nanosleep(const struct timespec *duration, struct timespec *left)
{
    (void)left;
    scene.pauses++;
    scene.pause_ns = (uint64_t)duration->tv_sec * NS_PER_S + (uint64_t)duration->tv_nsec;
    return 0;
}

static int load(const struct resource_source *source, enum files_effort opening,
                enum files_effort reading, struct resource **resource)
{
    assert_ptr_equal(source, &scene.site.source);
    assert_int_equal(opening, FILES_MAY_BLOCK);
    assert_int_equal(reading, FILES_MAY_BLOCK);
    scene.loads++;
    scene.freed_before = scene.freed;
    scene.freed++; /* by another thread, meanwhile */
    if (scene.result == 0)
        *resource = scene.loaded;
    return scene.result;
}

int __wrap_resource_load(const struct resource_source *source, const char *path, size_t length,
                         enum files_effort opening, enum files_effort reading, uint64_t now_ns,
                         struct resource **resource)
{
    assert_int_equal(strlen(path), length);
    assert_true(now_ns > 0);
    scene.loaded_path = path;
    return load(source, opening, reading, resource);
}

int __wrap_resource_load_variant(const struct resource_source *source,
                                 const struct resource *original, enum coding coding,
                                 enum files_effort opening, enum files_effort reading,
                                 struct resource **resource)
{
    scene.original = original;
    scene.coding = coding;
    return load(source, opening, reading, resource);
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
    return scene.room;
}

bool __wrap_memory_make_room(struct transaction_context *context)
{
    assert_ptr_equal(context, &scene.context);
    scene.made_room++;
    return scene.makes_room;
}
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static void resume(struct transaction_state *state)
{
    assert_ptr_equal(state, &scene.state);
    scene.resumed++;
}

static int set_up(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    own_cache_open(&scene.own, resource_destroy);
    scene.worker = (struct worker_context){.cache = scene.own.cache};
    scene.site.number = SITE;
    scene.state.resume = resume;
    scene.context.worker = &scene.worker;
    scene.context.mailbox = &scene.mailbox;
    scene.context.loop_now_ns = NOW_NS;
    scene.context.metrics = scene.metrics;
    scene.transaction = (struct transaction){.context = &scene.context,
                                             .client = &scene.client,
                                             .state = &scene.state,
                                             .site = &scene.site};
    return 0;
}

/* The end of the request, after which nothing refers to a job or its results. */
static int tear_down(void **state)
{
    (void)state;
    loading_discard(&scene.state, scene.worker.cache);
    own_cache_close(&scene.own);
    assert_null(scene.state.loaded);
    for (size_t i = 0; i < JOBS_MAX; i++)
        assert_null(scene.jobs[i]);
    assert_int_equal(scene.client.jobs_out, 0);
    assert_int_equal(scene.context.jobs_out, 0);
    return 0;
}

/* --- Helpers --- */

static struct span text(const char *of)
{
    return (struct span){of, strlen(of)};
}

/* What a loading of PATH results in. The test has a second reference. */
static struct resource *make(const char *path)
{
    struct resource *resource = NULL;

    assert_int_equal(page_new(text(path), FIELDS, "body", 4, &resource), 0);
    resource->entry.site = SITE;
    cache_acquire(&resource->entry);
    return resource;
}

static void drop(struct resource *resource)
{
    resource_release(scene.worker.cache, resource);
}

static unsigned references(struct resource *resource)
{
    return atomic_load(&resource->entry.references);
}

static struct cache_entry *cached(const char *path)
{
    struct cache_entry *entry = cache_find(scene.own.cache, SITE, path, strlen(path));

    if (entry != NULL)
        cache_release(scene.own.cache, entry);
    return entry;
}

/* The offload thread takes the job and posts it back. */
static void run(void)
{
    struct offload_job *job = scene.queued;

    assert_non_null(job);
    assert_ptr_equal(job->owner, &scene.mailbox);
    scene.queued = NULL;
    job->run(job);
    job->finish(job);
}

static void submit(const char *path)
{
    assert_true(loading_submit(&scene.transaction, text(path), NULL, CODING_IDENTITY));
}

static void expect_jobs_out(uint32_t count)
{
    assert_int_equal(scene.client.jobs_out, count);
    assert_int_equal(scene.context.jobs_out, count);
}

/* Returns what has been loaded for PATH; the caller has a reference. NULL: it failed with RESULT. */
static struct resource *take(const char *path, int result)
{
    struct resource *found = NULL;
    int failed = -1;

    scene.transaction.outcome = OUTCOME_ERROR;
    assert_true(loading_take(&scene.transaction, text(path), &found, &failed));
    assert_int_equal(failed, result);
    assert_int_equal(scene.transaction.outcome, OUTCOME_OFFLOAD);
    return found;
}

static bool has(const char *path)
{
    struct resource *found;
    int failed;

    scene.transaction.outcome = OUTCOME_ERROR;
    if (loading_take(&scene.transaction, text(path), &found, &failed))
        return true;
    assert_int_equal(scene.transaction.outcome, OUTCOME_ERROR);
    return false;
}

/* --- Files --- */

static void request_waits_until_its_file_is_loaded(void **state)
{
    struct resource *file = make("/a");

    (void)state;
    submit("/a");
    assert_true(scene.transaction.waiting);
    expect_jobs_out(1);
    assert_int_equal(atomic_load(&scene.metrics[METRIC_offloaded]), 1);
    assert_int_equal(scene.queued->state, THREAD_STATE_FILE);
    assert_true(span_is(scene.queued->work, SPAN("/a")));
    assert_false(has("/a"));
    assert_int_equal(scene.resumed, 0);
    scene.loaded = file;
    run();
    assert_string_equal(scene.loaded_path, "/a");
    assert_int_equal(scene.pauses, 0);
    assert_int_equal(scene.resumed, 1);
    expect_jobs_out(0);
    drop(file);
}

static void loaded_file_is_cached_and_can_be_taken_again(void **state)
{
    struct resource *file = make("/a");

    (void)state;
    scene.loaded = file;
    submit("/a");
    run();
    assert_ptr_equal(cached("/a"), &file->entry);
    assert_int_equal(references(file), 3); /* the test's, the job's and that of the cache */
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(take("/a", 0), file);
        assert_int_equal(references(file), 4);
        drop(file);
    }
    loading_discard(&scene.state, scene.worker.cache);
    assert_int_equal(references(file), 2);
    assert_false(has("/a"));
    drop(file);
}

static void results_are_found_by_their_paths(void **state)
{
    struct resource *one = make("/a"), *other = make("/ab");

    (void)state;
    scene.loaded = one;
    submit("/a");
    run();
    scene.loaded = other;
    submit("/ab");
    run();
    assert_ptr_equal(take("/a", 0), one);
    assert_ptr_equal(take("/ab", 0), other);
    assert_false(has("/b"));
    assert_false(has("/"));
    drop(one);
    drop(one);
    drop(other);
    drop(other);
}

static void without_a_cache_only_the_request_has_the_file(void **state)
{
    struct resource *file = make("/a");

    (void)state;
    scene.worker.cache = NULL;
    scene.loaded = file;
    submit("/a");
    run();
    assert_int_equal(references(file), 2);
    scene.result = EACCES;
    submit("/b");
    run();
    assert_null(take("/b", EACCES));
    loading_discard(&scene.state, NULL);
    assert_int_equal(references(file), 1);
    drop(file);
}

static void file_that_cannot_be_loaded_leaves_the_cache(void **state)
{
    struct resource *old = make("/a"), *other = make("/b");

    (void)state;
    cache_insert(scene.own.cache, &old->entry);
    cache_insert(scene.own.cache, &other->entry);
    scene.result = ENOENT;
    submit("/a");
    run();
    assert_int_equal(scene.resumed, 1);
    assert_null(take("/a", ENOENT));
    assert_null(cached("/a"));
    assert_non_null(cached("/b"));
    assert_int_equal(references(old), 2); /* the test's */
    for (int i = 0; i < 2; i++) {
        drop(old);
        drop(other);
    }
}

/* --- Variants --- */

static void variant_is_loaded_from_its_original(void **state)
{
    struct resource *original = make("/a"), *variant = make("/a//br");

    (void)state;
    original->variants.member[CODING_BR].inode = 1;
    scene.loaded = variant;
    assert_true(loading_submit(&scene.transaction, text("/a//br"), original, CODING_BR));
    assert_int_equal(references(original), 3);
    assert_int_equal(scene.queued->state, THREAD_STATE_FILE);
    assert_true(span_is(scene.queued->work, SPAN("/a")));
    run();
    assert_ptr_equal(scene.original, original);
    assert_int_equal(scene.coding, CODING_BR);
    assert_ptr_equal(take("/a//br", 0), variant);
    assert_ptr_equal(cached("/a//br"), &variant->entry);
    loading_discard(&scene.state, scene.worker.cache);
    assert_int_equal(references(original), 2);
    for (int i = 0; i < 2; i++) {
        drop(variant);
        drop(original);
    }
}

/* A thread that compresses is shown as such. */
static void failed_compression_is_not_repeated(void **state)
{
    struct resource *original = make("/a");

    (void)state;
    for (int failed = 0; failed < 2; failed++) {
        scene.result = failed == 0 ? EIO : ENODATA;
        assert_true(loading_submit(&scene.transaction, text("/a//gzip"), original, CODING_GZIP));
        assert_int_equal(scene.queued->state, THREAD_STATE_COMPRESS);
        run();
        assert_null(take("/a//gzip", scene.result));
        assert_int_equal(atomic_load(&original->gzip_not_smaller), failed);
    }
    submit("/a"); /* a file without an original */
    run();
    assert_null(take("/a", ENODATA));
    loading_discard(&scene.state, scene.worker.cache);
    drop(original);
    drop(original);
}

/* --- Pages --- */

static struct {
    int result;
    struct resource *made;
    bool called;
} page;

static int make_page(const struct site *site, const struct page_spec *spec, struct span path,
                     struct resource **made)
{
    assert_ptr_equal(site, &scene.site);
    assert_true(spec->json);
    assert_true(span_is(path, SPAN("/d/")));
    page.called = true;
    if (page.result == 0)
        *made = page.made;
    return page.result;
}

static const struct page_spec page_spec = {
    .make = make_page, .state = THREAD_STATE_COMPUTE, .json = true};

/* Returns what has been loaded for PATH, without a reference of the caller. */
static struct resource *take_page(const char *path, int result)
{
    struct resource *found = NULL;
    int failed = -1;

    assert_true(loading_take_page(&scene.transaction, text(path), &found, &failed));
    assert_int_equal(failed, result);
    if (found != NULL)
        drop(found);
    return found;
}

static void page_is_generated_and_not_cached(void **state)
{
    struct resource *found;
    int failed;

    (void)state;
    page.result = 0;
    page.made = make("/d/");
    assert_true(loading_submit_page(&scene.transaction, SPAN("/d/"), &page_spec));
    assert_true(scene.transaction.waiting);
    assert_int_equal(scene.queued->state, THREAD_STATE_COMPUTE);
    assert_true(span_is(scene.queued->work, SPAN("/d/")));
    run();
    assert_int_equal(scene.loads, 0);
    assert_int_equal(scene.resumed, 1);
    assert_ptr_equal(take_page("/d/", 0), page.made);
    assert_int_equal(references(page.made), 2);
    assert_null(cached("/d/"));
    assert_false(has("/d/")); /* it is no file */
    assert_false(loading_take_page(&scene.transaction, SPAN("/d"), &found, &failed));
    loading_discard(&scene.state, scene.worker.cache);
    assert_int_equal(references(page.made), 1);
    drop(page.made);
}

static void file_is_not_taken_as_a_page(void **state)
{
    struct resource *found;
    int failed;

    (void)state;
    scene.result = EACCES;
    submit("/d/");
    run();
    assert_true(has("/d/"));
    assert_false(loading_take_page(&scene.transaction, SPAN("/d/"), &found, &failed));
}

static void page_that_fails_leaves_the_cache_alone(void **state)
{
    struct resource *file = make("/d/");

    (void)state;
    cache_insert(scene.own.cache, &file->entry);
    page.result = ENODATA;
    assert_true(loading_submit_page(&scene.transaction, SPAN("/d/"), &page_spec));
    run();
    assert_null(take_page("/d/", ENODATA));
    assert_non_null(cached("/d/"));
    drop(file);
    drop(file);
}

static void longest_path_can_be_that_of_a_page(void **state)
{
    static char path[TARGET_PATH_MAX];
    struct resource *found;
    int failed;

    (void)state;
    memset(path, 'a', sizeof(path) - 1);
    assert_false(loading_take_page(&scene.transaction, text(path), &found, &failed));
}

/* --- Shortages --- */

static void full_queue_refuses_the_job(void **state)
{
    struct resource *original = make("/a");

    (void)state;
    scene.queue_full = true;
    assert_false(loading_submit(&scene.transaction, SPAN("/a"), NULL, CODING_IDENTITY));
    assert_false(loading_submit(&scene.transaction, SPAN("/a//gzip"), original, CODING_GZIP));
    assert_false(loading_submit_page(&scene.transaction, SPAN("/d/"), &page_spec));
    assert_false(scene.transaction.waiting);
    assert_int_equal(atomic_load(&scene.metrics[METRIC_offloaded]), 0);
    assert_int_equal(references(original), 2);
    drop(original);
    drop(original);
}

static void job_without_memory_is_tried_once_more_if_the_cache_shrinks(void **state)
{
    (void)state;
    scene.allocations_to_fail = 1;
    assert_false(loading_submit(&scene.transaction, SPAN("/a"), NULL, CODING_IDENTITY));
    assert_int_equal(scene.made_room, 1);
    scene.allocations_to_fail = 1;
    assert_false(loading_submit_page(&scene.transaction, SPAN("/d/"), &page_spec));
    scene.makes_room = true;
    scene.allocations_to_fail = 2;
    assert_false(loading_submit(&scene.transaction, SPAN("/a"), NULL, CODING_IDENTITY));
    assert_int_equal(scene.made_room, 3);
    assert_false(scene.transaction.waiting);
    scene.allocations_to_fail = 1;
    submit("/a");
    assert_int_equal(scene.made_room, 4);
    assert_true(span_is(scene.queued->work, SPAN("/a")));
    scene.result = ENOENT;
    run();
    assert_string_equal(scene.loaded_path, "/a");
}

static void loading_without_memory_is_repeated(void **state)
{
    struct resource *file = make("/a");

    (void)state;
    scene.result = ENOMEM;
    scene.room = MEMORY_FREED;
    submit("/a");
    run();
    assert_int_equal(scene.resumed, 0);
    expect_jobs_out(1);
    assert_false(has("/a"));
    scene.loaded = file;
    scene.result = 0;
    run();
    assert_int_equal(scene.loads, 2);
    assert_int_equal(scene.pauses, 0);
    assert_int_equal(scene.resumed, 1);
    expect_jobs_out(0);
    assert_ptr_equal(take("/a", 0), file);
    assert_int_equal(atomic_load(&scene.metrics[METRIC_offloaded]), 1);
    drop(file);
    drop(file);
}

static void memory_that_others_use_is_awaited_with_pauses(void **state)
{
    (void)state;
    scene.result = ENOMEM;
    scene.room = MEMORY_AWAITED;
    submit("/a");
    run();
    assert_int_equal(scene.pauses, 0);
    scene.room = MEMORY_FREED;
    run();
    assert_int_equal(scene.pauses, 1);
    assert_int_equal(scene.pause_ns, 10 * NS_PER_MS);
    scene.result = ENOENT;
    run();
    assert_int_equal(scene.pauses, 2);
    assert_int_equal(scene.resumed, 1);
}

static void loading_fails_if_there_is_no_room(void **state)
{
    (void)state;
    scene.result = ENOMEM;
    scene.room = MEMORY_NONE;
    submit("/a");
    run();
    assert_int_equal(scene.resumed, 1);
    assert_null(take("/a", ENOMEM));
}

static void loading_fails_if_it_cannot_be_repeated(void **state)
{
    (void)state;
    scene.result = ENOMEM;
    scene.room = MEMORY_FREED;
    submit("/a");
    scene.queue_full = true;
    run();
    assert_int_equal(scene.resumed, 1);
    expect_jobs_out(0);
    assert_null(take("/a", ENOMEM));
}

/* Five seconds at most: 500 pauses of 10 ms. */
static void repetition_pauses_after_some_attempts_and_ends(void **state)
{
    (void)state;
    scene.result = ENOMEM;
    scene.room = MEMORY_FREED;
    submit("/a");
    while (scene.queued != NULL) {
        run();
        assert_int_equal(scene.pauses,
                         scene.loads > MEMORY_EAGER_TRIES ? scene.loads - MEMORY_EAGER_TRIES : 0);
    }
    assert_int_equal(scene.loads, 1 + 500);
    assert_int_equal(scene.resumed, 1);
    assert_null(take("/a", ENOMEM));
}

/* --- The form of a page --- */

static void expect_span(struct span span, const char *expected)
{
    assert_int_equal(span.length, strlen(expected));
    assert_memory_equal(span.start, expected, span.length);
}

static void page_has_heads_of_both_versions(void **state)
{
    static const char head[] = "Content-Length: 4\r\n" FIELDS "\r\n";
    char block[HPACK_LINES_MAX(sizeof(head))];
    struct resource *made = NULL;
    const char *end;

    (void)state;
    assert_int_equal(page_new((struct span){"/d/x", 3}, FIELDS, "body and more", 4, &made), 0);
    assert_string_equal(made->entry.path, "/d/");
    assert_int_equal(made->entry.path_length, 3);
    assert_string_equal(made->file_path.start, "/d/");
    assert_int_equal(made->file_path.length, 3);
    assert_int_equal(references(made), 1);
    assert_int_equal(made->fd, -1);
    assert_int_equal(made->body_length, 4);
    assert_memory_equal(made->body, "body", 4);

    expect_span(made->head[HTTP_1], head);
    expect_span(made->pieces[HTTP_1].validators, "Vary: x\r\n");

    end = hpack_put_lines(block, (struct span){head, sizeof(head) - 1 - 2});
    assert_int_equal(made->head[HTTP_2].length, end - block);
    assert_memory_equal(made->head[HTTP_2].start, block, made->head[HTTP_2].length);
    end = hpack_put_lines(block, SPAN("Vary: x\r\n"));
    assert_int_equal(made->pieces[HTTP_2].validators.length, end - block);
    assert_memory_equal(made->pieces[HTTP_2].validators.start, block, (size_t)(end - block));

    end = made->head[HTTP_2].start + made->head[HTTP_2].length;
    assert_true(made->entry.bytes >= (size_t)(end - (const char *)made));
    drop(made);
}

static void page_without_validators_has_none(void **state)
{
    struct resource *made = NULL;

    (void)state;
    assert_int_equal(page_new(SPAN("/d/"), "Content-Type: a/b\r\n", "", 0, &made), 0);
    expect_span(made->head[HTTP_1], "Content-Length: 0\r\nContent-Type: a/b\r\n\r\n");
    assert_int_equal(made->pieces[HTTP_1].validators.length, 0);
    assert_int_equal(made->pieces[HTTP_2].validators.length, 0);
    drop(made);
}

static void page_without_memory_fails(void **state)
{
    struct resource *made = NULL;

    (void)state;
    scene.allocations_to_fail = 1;
    assert_int_equal(page_new(SPAN("/d/"), FIELDS, "", 0, &made), ENOMEM);
    assert_null(made);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(request_waits_until_its_file_is_loaded),
        TEST(loaded_file_is_cached_and_can_be_taken_again),
        TEST(results_are_found_by_their_paths),
        TEST(without_a_cache_only_the_request_has_the_file),
        TEST(file_that_cannot_be_loaded_leaves_the_cache),
        TEST(variant_is_loaded_from_its_original),
        TEST(failed_compression_is_not_repeated),
        TEST(page_is_generated_and_not_cached),
        TEST(file_is_not_taken_as_a_page),
        TEST(page_that_fails_leaves_the_cache_alone),
        TEST(longest_path_can_be_that_of_a_page),
        TEST(full_queue_refuses_the_job),
        TEST(job_without_memory_is_tried_once_more_if_the_cache_shrinks),
        TEST(loading_without_memory_is_repeated),
        TEST(memory_that_others_use_is_awaited_with_pauses),
        TEST(loading_fails_if_there_is_no_room),
        TEST(loading_fails_if_it_cannot_be_repeated),
        TEST(repetition_pauses_after_some_attempts_and_ends),
        TEST(page_has_heads_of_both_versions),
        TEST(page_without_validators_has_none),
        TEST(page_without_memory_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
