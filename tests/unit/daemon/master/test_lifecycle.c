/* The life cycles of the master and its workers: each cell of the tables, and the pictures in CONTRIBUTING.md. */
#include "daemon/master/lifecycle.h"
#include "daemon/master/worker_lifecycle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* What the actions do: record themselves, fail, or report an event. */
struct owner {
    struct lifecycle life;
    int runs[LIFE_ACTIONS];
    enum life_state state_within; /* of the last action */
    int result;
    int report; /* an event, or NONE */
};

enum { NONE = -1 };

static int run(struct owner *owner, enum life_action action)
{
    int report = owner->report;

    owner->runs[action]++;
    owner->state_within = owner->life.state;
    owner->report = NONE;
    if (report != NONE)
        lifecycle_report(&owner->life, (enum life_event)report);
    assert_int_equal(owner->life.state, owner->state_within);
    return owner->result;
}

#define LIFE_ACTION(name, next, help)                                                              \
    static int run_##name(void *owner)                                                             \
    {                                                                                              \
        return run(owner, ACTION_##name);                                                          \
    }
#include "daemon/master/lifecycle.def"

static life_function *const functions[LIFE_ACTIONS] = {
#define LIFE_ACTION(name, next, help) [ACTION_##name] = run_##name,
#include "daemon/master/lifecycle.def"
};

static struct event_base *base;

static void begin(struct owner *owner, enum life_state state)
{
    *owner = (struct owner){.report = NONE};
    assert_int_equal(lifecycle_init(&owner->life, base, functions, owner), 0);
    owner->life.state = state;
}

#define FOR_EACH_CELL(state, event)                                                                \
    for (enum life_state state = 0; state < LIFE_STATES; state++)                                  \
        for (enum life_event event = 0; event < LIFE_EVENTS; event++)

static enum life_action action_of(enum life_state state, enum life_event event)
{
    return (enum life_action)state_table_action(&master_lifecycle, (int)state, (int)event);
}

static enum life_state next_of(enum life_state state, enum life_action action)
{
    return (enum life_state)state_table_next(&master_lifecycle, (int)state, (int)action);
}

static void each_cell_runs_its_action_once_in_the_next_state(void **unused)
{
    (void)unused;
    FOR_EACH_CELL(state, event)
    {
        enum life_action action = action_of(state, event);
        struct owner owner;
        int runs = 0;

        begin(&owner, state);
        lifecycle_report(&owner.life, event);
        for (int i = 0; i < LIFE_ACTIONS; i++)
            runs += owner.runs[i];
        assert_int_equal(runs, 1);
        assert_int_equal(owner.runs[action], 1);
        assert_int_equal(owner.state_within, next_of(state, action));
        assert_int_equal(owner.life.state, next_of(state, action));
        lifecycle_free(&owner.life);
    }
}

static void failed_action_leaves_the_state(void **unused)
{
    (void)unused;
    FOR_EACH_CELL(state, event)
    {
        struct owner owner;

        begin(&owner, state);
        owner.result = -1;
        lifecycle_report(&owner.life, event);
        assert_int_equal(owner.life.state, state);
        lifecycle_free(&owner.life);
    }
}

static void report_within_an_action_is_handled_after_it(void **unused)
{
    struct owner owner;

    (void)unused;
    begin(&owner, LIFE_serving);
    owner.report = EVENT_all_gone;
    lifecycle_report(&owner.life, EVENT_stop);
    assert_int_equal(owner.runs[ACTION_begin_stop], 1);
    assert_int_equal(owner.runs[ACTION_flush], 1);
    assert_int_equal(owner.life.state, LIFE_flushing);
    lifecycle_free(&owner.life);
}

static void deadline_ends_with_its_state(void **unused)
{
    struct owner owner;

    (void)unused;
    begin(&owner, LIFE_upgrading);
    lifecycle_set_deadline(&owner.life, 0);
    event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(owner.runs[ACTION_kill_successor], 1);
    lifecycle_set_deadline(&owner.life, 0);
    lifecycle_report(&owner.life, EVENT_successor_ended);
    assert_int_equal(owner.life.state, LIFE_starting);
    event_base_loop(base, EVLOOP_ONCE);
    assert_int_equal(owner.runs[ACTION_impossible], 0);
    lifecycle_free(&owner.life);
}

static void end_begins_with_the_retirement(void **unused)
{
    (void)unused;
    for (enum life_state state = 0; state < LIFE_STATES; state++) {
        struct owner owner;

        begin(&owner, state);
        assert_int_equal(lifecycle_is_stopping(&owner.life),
                         state == LIFE_retiring || state == LIFE_stopping ||
                             state == LIFE_draining || state == LIFE_flushing ||
                             state == LIFE_ended);
        lifecycle_free(&owner.life);
    }
}

/* Marks the states that a master can be in after some events, from its start. */
static void mark_reachable(bool reached[LIFE_STATES], enum life_state state)
{
    if (reached[state])
        return;
    reached[state] = true;
    for (enum life_event event = 0; event < LIFE_EVENTS; event++)
        mark_reachable(reached, next_of(state, action_of(state, event)));
}

static void each_state_is_reached_and_can_end(void **unused)
{
    bool from_start[LIFE_STATES] = {false};

    (void)unused;
    mark_reachable(from_start, LIFE_starting);
    for (enum life_state state = 0; state < LIFE_STATES; state++) {
        bool from_here[LIFE_STATES] = {false};

        assert_true(from_start[state]);
        mark_reachable(from_here, state);
        assert_true(from_here[LIFE_ended]);
    }
}

/* The worker's table. */

static void mark_reachable_by_worker(bool reached[WORKER_STATE_COUNT], int state)
{
    if (reached[state])
        return;
    reached[state] = true;
    for (int event = 0; event < WORKER_EVENTS; event++)
        mark_reachable_by_worker(
            reached, state_table_next(&worker_lifecycle, state,
                                      state_table_action(&worker_lifecycle, state, event)));
}

static void each_worker_state_is_reached_and_can_end(void **unused)
{
    (void)unused;
    for (int state = 0; state < WORKER_STATE_COUNT; state++) {
        bool from_none[WORKER_STATE_COUNT] = {false}, from_here[WORKER_STATE_COUNT] = {false};

        mark_reachable_by_worker(from_none, WORKER_NONE);
        assert_true(from_none[state]);
        mark_reachable_by_worker(from_here, state);
        assert_true(from_here[WORKER_NONE]);
    }
}

/* Whatever happened before, the slot of a process that has ended is free. */
static void slot_of_an_ended_worker_is_free(void **unused)
{
    (void)unused;
    for (int state = 0; state < WORKER_STATE_COUNT; state++) {
        int action = state_table_action(&worker_lifecycle, state, WORKER_EVENT_exit);

        assert_int_equal(state_table_next(&worker_lifecycle, state, action), WORKER_NONE);
    }
}

/* The pictures */

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void write_picture(const char *before, size_t length, const char *picture, const char *after)
{
    FILE *file = fopen(CONTRIBUTING, "w");

    assert_non_null(file);
    fprintf(file, "%.*s%s%s", (int)length, before, picture, after);
    fclose(file);
}

/* Checks or writes the part of CONTRIBUTING.md between the marks of NAME. */
static void compare_picture(const char *name, const struct state_table *table)
{
    char mark[64], *page = read_all(CONTRIBUTING), *picture = NULL, *begin, *end;
    const char *wanted = getenv("LIFECYCLE");
    size_t length;
    FILE *memory = open_memstream(&picture, &length);

    snprintf(mark, sizeof(mark), "<!-- %s -->\n", name);
    begin = strstr(page, mark);
    assert_non_null(begin);
    begin += strlen(mark);
    end = strstr(begin, "<!-- /");
    assert_non_null(end);
    state_table_print(table, memory);
    fclose(memory);
    if (wanted != NULL && strcmp(wanted, "write") == 0)
        write_picture(page, (size_t)(begin - page), picture, end);
    else if ((size_t)(end - begin) != length || strncmp(begin, picture, length) != 0)
        fail_msg("CONTRIBUTING.md does not show this table; run with LIFECYCLE=write:\n%s",
                 picture);
    free(picture);
    free(page);
}

static void pictures_in_contributing_are_the_tables(void **unused)
{
    (void)unused;
    compare_picture("lifecycle", &master_lifecycle);
    compare_picture("worker lifecycle", &worker_lifecycle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cell_runs_its_action_once_in_the_next_state),
        cmocka_unit_test(failed_action_leaves_the_state),
        cmocka_unit_test(report_within_an_action_is_handled_after_it),
        cmocka_unit_test(deadline_ends_with_its_state),
        cmocka_unit_test(end_begins_with_the_retirement),
        cmocka_unit_test(each_state_is_reached_and_can_end),
        cmocka_unit_test(each_worker_state_is_reached_and_can_end),
        cmocka_unit_test(slot_of_an_ended_worker_is_free),
        cmocka_unit_test(pictures_in_contributing_are_the_tables),
    };
    int failed;

    base = event_base_new();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    event_base_free(base);
    return failed;
}
