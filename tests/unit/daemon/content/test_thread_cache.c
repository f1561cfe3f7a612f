/* The cache of paths without a file. */
#include "daemon/content/thread_cache.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { PATIENCE = 1000, LONGEST = 106 };

static struct negative_cache *missing;

static int set_up(void **state)
{
    (void)state;
    missing = negative_cache_new(PATIENCE);
    return missing == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    negative_cache_free(missing);
    return 0;
}

static void path_is_cached_until_max_age(void **state)
{
    (void)state;
    assert_false(negative_cache_has(missing, 0, SPAN("/a"), 5));
    negative_cache_add(missing, 0, SPAN("/a"), 5);
    assert_true(negative_cache_has(missing, 0, SPAN("/a"), 5));
    assert_true(negative_cache_has(missing, 0, SPAN("/a"), 5 + PATIENCE - 1));
    assert_false(negative_cache_has(missing, 0, SPAN("/a"), 5 + PATIENCE));
    assert_false(negative_cache_has(missing, 0, SPAN("/"), 5));
    assert_false(negative_cache_has(missing, 0, SPAN("/ab"), 5));
}

static void remove_removes_one_path(void **state)
{
    (void)state;
    negative_cache_add(missing, 0, SPAN("/a"), 5);
    negative_cache_remove(missing, 0, SPAN("/b"));
    assert_true(negative_cache_has(missing, 0, SPAN("/a"), 5));
    negative_cache_remove(missing, 0, SPAN("/a"));
    assert_false(negative_cache_has(missing, 0, SPAN("/a"), 5));
    negative_cache_remove(missing, 0, SPAN("/a"));
}

static void sites_have_their_own_paths(void **state)
{
    (void)state;
    negative_cache_add(missing, 1, SPAN("/a"), 5);
    assert_true(negative_cache_has(missing, 1, SPAN("/a"), 5));
    assert_false(negative_cache_has(missing, 0, SPAN("/a"), 5));
    negative_cache_remove(missing, 0, SPAN("/a"));
    assert_true(negative_cache_has(missing, 1, SPAN("/a"), 5));
    negative_cache_remove(missing, 1, SPAN("/a"));
    assert_false(negative_cache_has(missing, 1, SPAN("/a"), 5));
}

static void clear_removes_all_paths(void **state)
{
    (void)state;
    negative_cache_add(missing, 0, SPAN("/a"), 5);
    negative_cache_clear(missing);
    assert_false(negative_cache_has(missing, 0, SPAN("/a"), 5));
}

/* More paths than places: some are replaced, and no path is found that was not added. */
static void paths_over_capacity_are_replaced(void **state)
{
    char path[32];
    int known = 0;

    (void)state;
    for (int i = 0; i < 5000; i += 2)
        negative_cache_add(missing, 0, (struct span){path, (size_t)sprintf(path, "/%d", i)}, 5);
    for (int i = 0; i < 5000; i++) {
        bool has =
            negative_cache_has(missing, 0, (struct span){path, (size_t)sprintf(path, "/%d", i)}, 5);

        assert_false(has && i % 2 != 0);
        known += has;
    }
    assert_in_range(known, 100, 256);
}

static void long_paths_are_not_kept(void **state)
{
    char path[300];
    size_t kept = 0;

    (void)state;
    memset(path, 'x', sizeof(path));
    for (size_t length = 1; length <= sizeof(path); length++) {
        negative_cache_add(missing, 0, (struct span){path, length}, 5);
        if (!negative_cache_has(missing, 0, (struct span){path, length}, 5))
            break;
        kept = length;
        assert_false(negative_cache_has(missing, 0, (struct span){path, length + 1}, 5));
    }
    assert_int_equal(kept, LONGEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(path_is_cached_until_max_age, set_up, tear_down),
        cmocka_unit_test_setup_teardown(remove_removes_one_path, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sites_have_their_own_paths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(clear_removes_all_paths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paths_over_capacity_are_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_paths_are_not_kept, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
