/* The summary of a server in one line. */
#include "common/clock.h"
#include "console/scene/scene.h"
#include "tests/test.h"

TEST(item_that_does_not_fit_is_left_out)
{
    char line[32] = "";

    summary_append(line, sizeof(line), 20, "threads %d", 4);
    summary_append(line, sizeof(line), 20, "a very long item that does not fit");
    summary_append(line, sizeof(line), 20, "pid %d", 123);
    assert_string_equal(line, "threads 4  pid 123");
}

TEST(items_left_out_are_counted)
{
    char line[32] = "", exact[32] = "", narrow[32] = "";

    summary_add(line, sizeof(line), 20, "threads %d", 4);
    summary_add(line, sizeof(line), 20, "pid %d", 123);
    assert_string_equal(line, "threads 4  pid 123");
    summary_add(line, sizeof(line), 20, "up 3m"); /* "pid 123" makes room for the count */
    assert_string_equal(line, "threads 4  +2");
    summary_add(line, sizeof(line), 20, "x");
    assert_string_equal(line, "threads 4  +3");
    summary_add(exact, sizeof(exact), 9, "threads %d", 4);
    assert_string_equal(exact, "threads 4");
    summary_add(exact, sizeof(exact), 9, "x");
    assert_string_equal(exact, "+2");
    summary_add(narrow, sizeof(narrow), 4, "threads %d", 4);
    assert_string_equal(narrow, "+1");
}

TEST(longer_count_takes_the_place_of_an_item)
{
    char line[32] = "";

    summary_add(line, sizeof(line), 13, "threads %d", 4);
    for (int i = 0; i < 9; i++)
        summary_add(line, sizeof(line), 13, "pid %d", i);
    assert_string_equal(line, "threads 4  +9");
    summary_add(line, sizeof(line), 13, "pid %d", 9);
    assert_string_equal(line, "+11");
}

TEST(uptime_survives_a_clock_set_back)
{
    static struct snapshot now; /* too large for the stack */
    char line[64];

    now.wall_ns = 1000 * NS_PER_S;
    now.time_ns = 500 * NS_PER_S;
    now.server.started_ns = 4500 * NS_PER_S;
    now.server.start_ns = 400 * NS_PER_S;
    summary_identity(&now, line, sizeof(line), 20);
    assert_string_equal(line, "up 1m 40s  pid 0");
    now.server.start_ns = 0; /* unknown */
    summary_identity(&now, line, sizeof(line), 6);
    assert_string_equal(line, "pid 0");
}

static void push_second(struct history *history, uint64_t second)
{
    struct sample_copy sample = {.time_ns = second * NS_PER_S};

    history_push(history, &sample, NULL);
}

/* The first second after a gap has the marks of the gap, but none from before it. */
TEST(marks_stand_at_their_second)
{
    static struct marks marks;
    struct graph_mark found[GRAPH_MARKS_MAX];
    struct scene scene = {.history = history_create(), .marks = &marks};
    struct history *history = (struct history *)scene.history;

    assert_non_null(history);
    for (uint64_t second = 100; second < 110; second++)
        push_second(history, second);
    history_begin(history, 7, 115 * NS_PER_S, 115 * NS_PER_S);
    push_second(history, 116);
    push_second(history, 117);
    marks_add(&marks, MARK_threads, 50 * NS_PER_S, "long before");
    assert_int_equal(scene_marks(&scene, 60, found), 0);
    marks_add(&marks, MARK_threads, 105 * NS_PER_S, "before the gap");
    assert_int_equal(scene_marks(&scene, 60, found), 1);
    assert_int_equal(found[0].index, 60 - 1 - 12);
    marks_add(&marks, MARK_master, 115 * NS_PER_S, "in the gap");
    assert_int_equal(scene_marks(&scene, 60, found), 2);
    assert_int_equal(found[0].index, 60 - 1 - 1);
    assert_int_equal(found[0].letter, 'M');
    history_destroy(history);
}
