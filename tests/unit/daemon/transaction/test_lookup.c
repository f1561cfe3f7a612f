/*
 * How a file and its variants are found, from outside: in the caches, by an offload thread or in
 * the file system; when they are checked again; and what happens if the loading must wait or fails.
 */
#include "tests/unit/own_site.h"

#include "daemon/transaction/shortage.h"

#define GZIP "Accept-Encoding: gzip\r\n"

enum { MAX_AGE_MS = 1000, MANY = 1000000 };

static int set_up_with(const char *text)
{
    own_site_make();
    own_site_put_text("a", "body of a");
    own_site_open(text);
    return 0;
}

/* Without error pages and precompressed files, whose absence needs calls as well. */
static int set_up(void **state)
{
    (void)state;
    return set_up_with("[files]\nerror_pages =\n[cache]\nprecompressed = off\n"
                       "[host b]\nroot = www\n[redirect]\nhttp /tls = 308 https:\n");
}

static int set_up_without_cache(void **state)
{
    (void)state;
    return set_up_with("[files]\nerror_pages =\n[cache]\nenabled = off\nprecompressed = off\n");
}

static int set_up_with_variants(void **state)
{
    char dense[4096];

    (void)state;
    own_site_make();
    own_site_put_text("a.txt", "body of a");
    own_site_put_text("a.txt.br", "a in br");
    own_site_put_text("a.txt.gz", "a in gzip");
    for (size_t i = 0; i < sizeof(dense); i++)
        dense[i] = (char)random();
    own_site_put("dense.txt", dense, sizeof(dense));
    own_site_open("[files]\nerror_pages =\n");
    return 0;
}

static int set_up_with_lone_variant(void **state)
{
    char path[64];

    (void)state;
    own_site_make();
    snprintf(path, sizeof(path), "%s/www/errors", own_directory);
    assert_int_equal(mkdir(path, 0755), 0);
    own_site_put_text("errors/406.html.br", "coded page");
    own_site_put_text("a.txt.br", "a in br");
    own_site_open("[cache]\nprecompressed = alone\n");
    return 0;
}

const struct test_fixture test_fixture = {set_up, own_site_close};

static void pass(unsigned ms)
{
    own_system.late_ns += ms * NS_PER_MS;
}

static void expect_with(const char *target, const char *lines, int status, enum outcome outcome,
                        unsigned waits)
{
    own_site_get(target, lines);
    if (answer.status != status || answer.outcome != outcome || answer.waits != waits)
        fail_msg("%s: status %d, outcome %d, %u waits", target, answer.status, answer.outcome,
                 answer.waits);
}

static void expect(const char *target, int status, enum outcome outcome, unsigned waits)
{
    expect_with(target, "", status, outcome, waits);
}

/* The file "a" as it is in the cache; the caller releases it. */
static struct cache_entry *cached(void)
{
    return cache_find(own_site.worker.cache, 0, "/a", 2);
}

static void release(struct cache_entry *entry)
{
    cache_release(own_site.worker.cache, entry);
}

/* --- Files --- */

TEST(file_is_loaded_once)
{
    expect("/a", 200, OUTCOME_MISS, 0);
    assert_string_equal(answer.body, "body of a");
    for (int i = 0; i < 3; i++) {
        expect(i == 2 ? "/./a" : "/a", 200, OUTCOME_HIT, 0); /* L1; L2 by another target */
        assert_int_equal(answer.opens, 0);
        assert_string_equal(answer.body, "body of a");
    }
    assert_int_equal(own_site_metric(METRIC_cache_hits), 3);
    assert_int_equal(own_site_metric(METRIC_cache_misses), 1);
    assert_int_equal(own_site_metric(METRIC_requests_keepalive), 3);
    own_site_request("GET /a HTTP/1.1\r\nHost: b\r\n");
    assert_int_equal(answer.outcome, OUTCOME_MISS); /* of another site */
}

TEST_WITH(without_caches_every_request_loads, set_up_without_cache, own_site_close)
{
    lookup_prefetch_set(&own_site.context, (struct span){"/a", 2});
    lookup_prefetch_entry(&own_site.context);
    for (int i = 0; i < 2; i++) {
        expect("/a", 200, OUTCOME_MISS, 0);
        own_system.cold = true;
        expect("/b", 404, OUTCOME_ERROR, 1);
        own_system.cold = false;
    }
}

TEST(absent_file_is_remembered_until_max_age)
{
    own_site_get("/b", "");
    expect("/b", 404, OUTCOME_ERROR, 0);
    assert_int_equal(answer.opens, 0);
    own_site_put_text("b", "new");
    expect("/b", 404, OUTCOME_ERROR, 0);
    pass(MAX_AGE_MS);
    expect("/b", 200, OUTCOME_MISS, 0);
}

static int set_up_with_extensions(void **state)
{
    (void)state;
    return set_up_with(
        "[files]\nerror_pages =\nextensions = x html\n[cache]\nprecompressed = off\n");
}

/* A file at the path of the request would come first, so the thread cache keeps it as long. */
TEST_WITH(file_for_an_absent_path_is_cached_until_max_age, set_up_with_extensions, own_site_close)
{
    own_site_put_text("b.html", "with extension");
    expect("/b", 200, OUTCOME_MISS, 0);
    assert_string_equal(answer.body, "with extension");
    pass(MAX_AGE_MS / 4);
    segment_activity_state(own_site.context.activity, THREAD_STATE_READ, 0);
    expect("/b", 200, OUTCOME_HIT, 0);
    assert_int_equal(atomic_load(&own_site.context.activity->state), THREAD_STATE_READ);
    assert_int_equal(answer.opens, 0);
    own_site_put_text("b", "exact");
    expect("/b", 200, OUTCOME_HIT, 0);
    assert_string_equal(answer.body, "with extension");
    pass(MAX_AGE_MS - MAX_AGE_MS / 4);
    expect("/b", 200, OUTCOME_MISS, 0);
    assert_string_equal(answer.body, "exact");
    own_site_remove("b");
    pass(MAX_AGE_MS);
    own_system.cold = true;
    expect("/b", 200, OUTCOME_OFFLOAD, 3); /* as many paths */
    assert_string_equal(answer.body, "with extension");
}

TEST(other_errors_are_not_remembered)
{
    char path[64];

    snprintf(path, sizeof(path), "%s/www/b", own_directory);
    assert_int_equal(mkfifo(path, 0644), 0);
    expect("/b", 403, OUTCOME_ERROR, 0);
    own_site_put_text("b", "new");
    expect("/b", 200, OUTCOME_MISS, 0);
}

TEST(file_that_needs_a_disk_is_loaded_by_a_job)
{
    own_system.cold = true;
    expect("/a", 200, OUTCOME_OFFLOAD, 1);
    assert_string_equal(answer.body, "body of a");
    expect("/a", 200, OUTCOME_HIT, 0);
    assert_int_equal(own_site_metric(METRIC_offloaded), 1);
    own_system.leased = true;
    own_system.cold = false;
    expect("/b", 503, OUTCOME_ERROR, 1);
    assert_int_equal(own_site_metric(METRIC_offload_rejected), 0);
}

TEST(without_a_job_the_loop_opens_the_file_itself)
{
    own_system.cold = true;
    own_system.failing_allocations = 1;
    expect("/a", 200, OUTCOME_MISS, 0);
    own_site_put_text("b", "body of b");
    own_site_fill_queue();
    expect("/b", 200, OUTCOME_MISS, 0);
    assert_int_equal(own_site_metric(METRIC_offload_rejected), 0);
    own_system.leased = true;
    expect("/c", 503, OUTCOME_ERROR, 0);
    assert_int_equal(own_site_metric(METRIC_offload_rejected), 1);
    assert_int_equal(own_site_metric(METRIC_offloaded), 0);
    own_site_empty_queue();
}

/* --- Files that are checked --- */

TEST(file_is_checked_when_three_quarters_of_its_age_are_over)
{
    expect("/a", 200, OUTCOME_MISS, 0);
    for (int i = 0; i < 2; i++) {
        pass(MAX_AGE_MS / 2);
        expect("/a", 200, OUTCOME_HIT, 0);
        assert_int_equal(answer.opens, 0);
        pass(MAX_AGE_MS / 4 + 5);
        expect("/a", 200, OUTCOME_HIT, 0);
        assert_true(answer.opens > 0);
    }
}

TEST(file_that_another_thread_checks_is_served_meanwhile)
{
    struct cache_entry *entry;

    expect("/a", 200, OUTCOME_MISS, 0);
    pass(MAX_AGE_MS - 100);
    entry = cached();
    assert_true(cache_claim_check(entry, clock_monotonic_ns(), MAX_AGE_MS * NS_PER_MS));
    release(entry);
    expect("/a", 200, OUTCOME_HIT, 0);
    assert_int_equal(answer.opens, 0);
    pass(100);
    expect("/a", 200, OUTCOME_HIT, 0);
    assert_true(answer.opens > 0);
}

TEST(changed_file_is_loaded_again)
{
    expect("/a", 200, OUTCOME_MISS, 0);
    own_site_put_text("a", "new");
    expect("/a", 200, OUTCOME_HIT, 0);
    assert_string_equal(answer.body, "body of a");
    pass(MAX_AGE_MS);
    expect("/a", 200, OUTCOME_MISS, 0);
    assert_string_equal(answer.body, "new");
    own_site_remove("a");
    pass(MAX_AGE_MS);
    own_system.cold = true;
    expect("/a", 404, OUTCOME_ERROR, 1); /* the job takes it out of the cache */
    assert_null(cached());
}

TEST(check_that_needs_a_disk_is_left_to_a_job)
{
    expect("/a", 200, OUTCOME_MISS, 0);
    own_system.cold = true;
    for (int i = 0; i < 2; i++) {
        pass(MAX_AGE_MS);
        expect(i == 0 ? "/a" : "/./a", 200, OUTCOME_OFFLOAD, 1);
        expect("/a", 200, OUTCOME_HIT, 0);
        assert_int_equal(answer.opens, 0);
    }
}

TEST(without_a_job_the_loop_checks_itself)
{
    expect("/a", 200, OUTCOME_MISS, 0);
    own_system.cold = true;
    own_site_fill_queue();
    pass(MAX_AGE_MS);
    expect("/a", 200, OUTCOME_HIT, 0);
    assert_true(answer.opens > 0);
    pass(MAX_AGE_MS);
    own_site_put_text("a", "new");
    expect("/a", 200, OUTCOME_MISS, 0);
    assert_string_equal(answer.body, "new");
    own_site_empty_queue();
}

/* The thread cache lends the file; without memory for a job it is emptied. */
TEST(file_that_is_checked_without_memory_stays_valid)
{
    expect("/a", 200, OUTCOME_MISS, 0);
    pass(MAX_AGE_MS);
    own_system.cold = true;
    own_system.failing_allocations = 2;
    expect("/a", 200, OUTCOME_OFFLOAD, 1);
    assert_string_equal(answer.body, "body of a");
}

/* --- Shortage of memory --- */

static uint64_t shed(void)
{
    return metric_get(segment_worker(&own_site.segment, 0)->metrics, METRIC_cache_shed);
}

static void fill_cache(void)
{
    char name[8], target[8];

    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        snprintf(target, sizeof(target), "/f%d", i);
        own_site_put_text(name, "text");
        expect(target, 200, OUTCOME_MISS, 0);
    }
}

TEST(loading_is_repeated_while_the_cache_shrinks)
{
    fill_cache();
    own_system.failing_allocations = 3;
    expect("/a", 200, OUTCOME_MISS, 0);
    assert_int_equal(own_system.failing_allocations, 0);
    assert_true(shed() > 0);
    own_system.failing_allocations = MANY;
    expect("/f0", 503, OUTCOME_ERROR, 0);
    assert_true(own_system.failing_allocations > MANY - 40);
}

TEST(without_a_cache_to_shrink_loading_fails)
{
    own_system.failing_allocations = MANY;
    expect("/a", 503, OUTCOME_ERROR, 0);
    assert_int_equal(own_system.failing_allocations, MANY - 1);
    own_system.failing_allocations = 0;
    own_system.failing_in_offload = MANY;
    own_system.cold = true;
    expect("/a", 503, OUTCOME_ERROR, 1);
    assert_int_equal(own_system.failing_in_offload, MANY - 1);
    assert_int_equal(own_system.pauses, 0);
}

/* What others use of the cache becomes free soon: an offload thread waits for it. */
TEST(memory_that_others_use_is_awaited_by_a_job)
{
    struct cache_entry *entry;

    own_site_put_text("b", "body of b");
    own_site_put_text("c", "body of c");
    expect("/a", 200, OUTCOME_MISS, 0);
    entry = cached();
    own_system.failing_allocations = 2;
    own_system.failing_in_offload = 3;
    expect("/b", 200, OUTCOME_OFFLOAD, 1);
    assert_string_equal(answer.body, "body of b");
    assert_int_equal(own_system.pauses, 3);
    own_system.cold = true;
    own_system.failing_in_offload = MANY;
    expect("/c", 503, OUTCOME_ERROR, 1);
    assert_true(own_system.pauses > 400);
    release(entry);
}

/* A protocol that finds no memory to keep the rest of a response makes room, too. */
TEST(body_that_the_thread_cache_has_lent_is_kept)
{
    struct body_source *body = &own_site.context.output.body;
    struct cache_entry *entry;

    expect("/a", 200, OUTCOME_MISS, 0);
    entry = cached();
    body->resource = CONTAINER_OF(entry, struct resource, entry);
    body->memory = body->resource->body;
    release(entry);
    assert_true(memory_make_room(&own_site.context));
    assert_memory_equal(body->memory, "body of a", 9);
    body_source_release(body, own_site.worker.cache);
}

TEST(job_is_repeated_while_the_cache_shrinks)
{
    fill_cache();
    own_system.cold = true;
    own_system.failing_in_offload = 3;
    expect("/a", 200, OUTCOME_OFFLOAD, 1);
    assert_int_equal(own_system.pauses, 0);
}

/* --- Variants --- */

TEST_WITH(variant_is_loaded_once, set_up_with_variants, own_site_close)
{
    own_site_get("/a.txt", "");
    own_site_get("/a.txt", GZIP);
    assert_int_equal(answer.outcome, OUTCOME_MISS); /* only the variant is missing */
    for (int i = 0; i < 3; i++) {
        expect_with(i < 2 ? "/a.txt" : "/./a.txt", GZIP, 200, OUTCOME_HIT, 0);
        assert_int_equal(answer.opens, 0);
    }
    pass(MAX_AGE_MS);
    own_site_put_text("a.txt.gz", "new in gzip");
    own_site_get("/a.txt", GZIP);
    assert_string_equal(answer.body, "new in gzip");
}

/* Also when it appears, and disappears again, while its variant is cached. */
TEST_WITH(variant_alone_is_found_until_there_is_a_file, set_up_with_lone_variant, own_site_close)
{
    static const char br[] = "Accept-Encoding: br\r\n";

    for (int i = 0; i < 2; i++) {
        own_system.cold = i == 0;
        assert_int_equal(own_site_get("/a.txt", br), 200);
        assert_string_equal(answer.body, "a in br");
        assert_string_equal(own_site_field("Content-Encoding"), "br");
        own_system.cold = false;
        expect("/a.txt", 406, OUTCOME_ERROR, 0);
        assert_string_equal(own_site_field("Content-Encoding"), "");
        assert_non_null(strstr(answer.body, "<html")); /* not the coded page */
        own_site_put_text("a.txt", "original");
        pass(MAX_AGE_MS);
        expect("/a.txt", 200, OUTCOME_MISS, 0);
        assert_string_equal(answer.body, "original");
        own_site_remove("a.txt");
        pass(MAX_AGE_MS);
    }
    assert_int_equal(own_site_get("/a.txt", br), 200);
    own_site_remove("a.txt.br");
    pass(MAX_AGE_MS);
    assert_int_equal(own_site_get("/a.txt", br), 404);
}

TEST_WITH(without_a_job_another_coding_is_sent, set_up_with_variants, own_site_close)
{
    own_site_get("/dense.txt", "");
    own_site_fill_queue();
    own_site_get("/dense.txt", GZIP);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_length, 4096);
    own_site_get("/dense.txt", "Accept-Encoding: gzip, identity;q=0\r\n");
    assert_int_equal(answer.status, 503);
    own_site_empty_queue();
}

TEST_WITH(variant_that_needs_a_disk_is_loaded_by_a_job, set_up_with_variants, own_site_close)
{
    own_site_get("/a.txt", "");
    own_system.cold = true;
    expect_with("/a.txt", GZIP, 200, OUTCOME_OFFLOAD, 1);
    assert_string_equal(answer.body, "a in gzip");
}

TEST_WITH(loading_of_a_variant_is_repeated_while_the_cache_shrinks, set_up_with_variants,
          own_site_close)
{
    own_site_get("/dense.txt", "");
    own_site_get("/a.txt", "");
    own_system.failing_allocations = 2;
    own_site_get("/a.txt", GZIP);
    assert_string_equal(answer.body, "a in gzip");
    assert_true(shed() > 0);
}

/* --- The thread cache --- */

TEST(thread_cache_knows_site_scheme_and_target)
{
    static const char request[] = "GET /tls HTTP/1.1\r\nHost: own\r\n";

    own_site_put_text("tls", "over TLS");
    own_site.client.secure = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(own_site_request(request), 200);
        own_site.client.secure = false;
        assert_int_equal(own_site_request(request), 308);
        own_site.client.secure = true;
    }
    own_site.client.secure = false;
    own_site.context.site.site = &own_site.worker.sites.site[1]; /* that of the last request */
    lookup_prefetch_set(&own_site.context, (struct span){"/a", 2});
    lookup_prefetch_entry(&own_site.context);
}

/* The policy tells single requests from repeated ones. */
TEST(file_that_was_just_loaded_has_no_hit)
{
    const struct segment_hits *hits = segment_hits_of(&own_site.segment, 0);

    for (unsigned i = 0; i < 3; i++) {
        struct cache_entry *entry;

        own_site_get("/a", "");
        entry = cached();
        assert_int_equal(atomic_load(&hits[entry->slot].hits), i);
        release(entry);
    }
}

/* Only what is in the shared cache may be in that of a thread. */
TEST(file_that_is_too_large_to_be_cached_is_loaded_each_time)
{
    static char text[64 * 1024];

    cache_resize(own_site.worker.cache, 1024);
    own_site_put("large", text, sizeof(text));
    for (int i = 0; i < 2; i++) {
        own_site_get("/large", "");
        assert_int_equal(answer.outcome, OUTCOME_MISS);
        assert_int_equal(answer.body_length, sizeof(text));
    }
}
