/* Marks in time: which events they are made of, their order, their bound. */
#include "common/macros.h"
#include "console/data/marks.h"
#include "tests/test.h"

#include <stdio.h>

static struct marks marks;

static int begin(void **state)
{
    (void)state;
    marks.count = 0;
    return 0;
}

const struct test_fixture test_fixture = {begin, NULL};

/* The texts are those of the daemon. */
TEST(events_have_kinds)
{
    static const struct {
        const char *text;
        enum mark_kind kind;
    } cases[] = {
        {"worker 1 (pid 9) was killed by signal 11 (Segmentation fault): starting another",
         MARK_crash},
        {"worker 0 (pid 9) ended with status 1 soon after its start (3 consecutive failures): "
         "starting another in 2.0 s",
         MARK_crash},
        {"worker 0 (pid 9) hung for 10 s: killing it", MARK_crash},
        {"the logger (pid 5) has given no sign of life for 10 s: killing it", MARK_crash},
        {"the logger (pid 5) was killed by signal 9: starting another", MARK_crash},
        {"the keys process (pid 6) was killed by signal 9: starting another", MARK_crash},
        {"upgrade: starting /usr/sbin/webserverd", MARK_upgrade},
        {"the new master (pid 8) serves: this one shuts down", MARK_upgrade},
        {"configuration reloaded, generation 2; changed: cache.size", MARK_reload},
        {"reload failed, configuration unchanged: no", MARK_reload},
        {"workers changed from 2 to 3, by uid 0 pid 1", MARK_workers},
        {"drain of worker 1, by uid 0 pid 1", MARK_workers},
        {"restart of all workers, by uid 0 pid 1", MARK_workers},
        {"serving threads per worker changed from 2 to 4, by uid 0 pid 1", MARK_threads},
        {"offload threads per worker changed from 2-8 to 2-9, by uid 0 pid 1", MARK_threads},
        {"cache size changed from 64M to 1M, by uid 0 pid 1", MARK_change},
        {"cache flushed, by uid 0 pid 1", MARK_change},
        {"cache purged: /a, by uid 0 pid 1", MARK_change},
        {"maintenance on for all hosts, by uid 0 pid 1", MARK_change},
        {"document root /srv replaced, generation 4", MARK_reload},
        {"document root /srv is back", MARK_reload},
        {"worker 1: serving threads changed from 3 to 2", MARK_KINDS}, /* its effect */
        {"worker 1 (pid 9) exited", MARK_KINDS},
        {"summary of 1m 00s: connections 4", MARK_KINDS},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(marks_kind_of(cases[i].text), cases[i].kind);
}

TEST(marks_are_in_order_and_once)
{
    marks_add(&marks, MARK_load, 30, "c");
    marks_add(&marks, MARK_alert, 10, "a");
    marks_add(&marks, MARK_reload, 20, "b");
    marks_add(&marks, MARK_reload, 20, "b");
    assert_int_equal(marks.count, 3);
    assert_string_equal(marks_next(&marks, 10, false)->text, "b");
    assert_string_equal(marks_next(&marks, 30, true)->text, "b");
    assert_null(marks_next(&marks, 30, false));
    assert_null(marks_next(&marks, 10, true));
}

TEST(more_important_mark_hides_others)
{
    marks_add(&marks, MARK_crash, 11, "crash");
    marks_add(&marks, MARK_reload, 12, "reload");
    marks_add(&marks, MARK_master, 12, "master");
    marks_add(&marks, MARK_upgrade, 13, "upgrade");
    marks_add(&marks, MARK_load, 20, "load");
    assert_string_equal(marks_between(&marks, marks.count, 10, 19)->text, "crash");
    assert_string_equal(marks_between(&marks, marks.count, 11, 19)->text, "upgrade");
    assert_string_equal(marks_between(&marks, marks.count, 11, 12)->text, "master");
    assert_null(marks_between(&marks, marks.count, 13, 19));
    assert_null(marks_between(&marks, 4, 13, 20));
}

TEST(newest_marks_are_kept)
{
    char text[32];

    for (uint64_t i = 1; i <= MARKS_MAX + 10; i++) {
        snprintf(text, sizeof(text), "%u", (unsigned)i);
        marks_add(&marks, MARK_change, i, text);
    }
    marks_add(&marks, MARK_change, 1, "older than all");
    assert_int_equal(marks.count, MARKS_MAX);
    assert_int_equal(marks.mark[0].time_ns, 11);
    assert_int_equal(marks.mark[MARKS_MAX - 1].time_ns, MARKS_MAX + 10);
}
