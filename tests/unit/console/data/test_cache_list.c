/* The list of cache entries: merging copies, sort orders, reading the segment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/segment_writer.h"
#include "console/data/lists.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct cache_list list;

static int end(void **state)
{
    (void)state;
    cache_list_release(&list);
    return 0;
}

static void add(const char *path, uint64_t bytes, uint64_t hits, uint64_t stored_ns)
{
    struct cache_copy copy = {
        .id = 1, .stored_ns = stored_ns, .bytes = bytes, .state = CACHE_SLOT_LIVE};

    snprintf(copy.path, sizeof(copy.path), "%s", path);
    assert_int_equal(cache_list_add(&list, &copy, hits), 0);
}

static void assert_order(enum cache_order order, bool reversed, const char *expected)
{
    const struct cache_row *rows[8];
    char paths[8 * sizeof(rows[0]->path)] = "";

    cache_list_sort(&list, order, reversed, rows);
    for (size_t i = 0; i < list.count; i++)
        strcat(paths, rows[i]->path);
    assert_string_equal(paths, expected);
}

static void copies_of_a_path_are_merged_and_sorted(void **state)
{
    (void)state;
    add("/b", 100, 5, 30);
    add("/a", 300, 1, 10);
    add("/c", 50, 9, 20);
    add("/b", 150, 6, 25);
    cache_list_finish(&list);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.bytes, 600);
    assert_int_equal(list.rows[1].copies, 2);
    assert_int_equal(list.rows[1].hits, 11);
    assert_int_equal(list.rows[1].stored_ns, 25);
    assert_order(CACHE_BY_HITS, false, "/b/c/a");
    assert_order(CACHE_BY_SIZE, false, "/a/b/c");
    assert_order(CACHE_BY_AGE, false, "/b/c/a");
    assert_order(CACHE_BY_PATH, false, "/a/b/c");
    assert_order(CACHE_BY_PATH, true, "/c/b/a");
}

static void empty_cache_is_an_empty_list(void **state)
{
    (void)state;
    cache_list_finish(&list);
    assert_int_equal(list.count, 0);
    cache_list_sort(&list, CACHE_BY_HITS, false, NULL);
}

static void store(struct segment *segment, uint32_t slot, uint32_t state, const char *path)
{
    struct segment_cache_entry *entry = &segment_cache(segment, 0)[slot];

    atomic_store(&entry->id, slot + 1);
    atomic_store(&entry->bytes, 10);
    atomic_store(&entry->state, state);
    segment_store_text(entry->path, SEGMENT_CACHE_PATH_WORDS, path, strlen(path));
}

static void tables_of_a_segment_are_read(void **state)
{
    struct segment segment;
    struct segment_reader reader;
    char name[48], why[256];
    struct segment_plan plan = {.name = name,
                                .socket_path = "",
                                .listening = "",
                                .max_workers = 2,
                                .max_threads = 2,
                                .cache_entries = 16,
                                .ring_bytes = 16 * 1024};

    (void)state;
    snprintf(name, sizeof(name), "scr-cache-%d", (int)getpid());
    assert_int_equal(segment_create(&segment, &plan, why, sizeof(why)), 0);
    segment_reserve_worker(&segment, 0);
    segment_publish(&segment);
    store(&segment, 3, CACHE_SLOT_LIVE, "/caf\xc3\xa9");
    store(&segment, 9, CACHE_SLOT_STALE, "/y\x01");
    assert_int_equal(segment_attach(&reader, name, why, sizeof(why)), SEGMENT_ATTACHED);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cache_list_take(&list, &reader, 7), 0);
        assert_int_equal(list.count, 2);
        assert_string_equal(list.rows[1].path, "/y\x01");
        assert_string_equal(list.rows[1].text, "/y\\x01");
        assert_string_equal(list.rows[0].text, "/caf\xc3\xa9");
        assert_int_equal(list.rows[1].stale, 1);
        assert_int_equal(list.bytes, 20);
    }
    segment_detach(&reader);
    segment_destroy(&segment);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(copies_of_a_path_are_merged_and_sorted, end),
        cmocka_unit_test_teardown(empty_cache_is_an_empty_list, end),
        cmocka_unit_test_teardown(tables_of_a_segment_are_read, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
