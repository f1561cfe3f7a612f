/*
 * The life cycles of the master and its workers: their tables, the dispatcher, and the pictures in
 * the README.
 */
#include "tests/unit/daemon/master/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* The tables, from the lists */

struct named {
    const char *name, *help;
    int next; /* of an action: a state; the number of states: it does not change */
};

struct table {
    const char *owner; /* for the picture */
    const struct named *states, *events, *actions;
    const int *cells; /* [event * number of states + state]: an action */
    int state_count, event_count, action_count;
};

#define LIFE_ACTION(name, next, help) ACTION_##name,
enum {
#include "daemon/master/lifecycle.def"
    ACTION_COUNT,
    LIFE_SAME = LIFE_STATES
};

#define ROW(a, b, c, d, e, f, g, h, i, j)                                                          \
    ACTION_##a, ACTION_##b, ACTION_##c, ACTION_##d, ACTION_##e, ACTION_##f, ACTION_##g,            \
        ACTION_##h, ACTION_##i, ACTION_##j,

static const struct table master_table = {.owner = "it",
                                          .states =
                                              (const struct named[]){
#define LIFE_STATE(name, help) {#name, help, 0},
#include "daemon/master/lifecycle.def"
                                              },
                                          .events =
                                              (const struct named[]){
#define LIFE_EVENT(name, help, ...) {#name, help, 0},
#include "daemon/master/lifecycle.def"
                                              },
                                          .actions =
                                              (const struct named[]){
#define LIFE_ACTION(name, next, help) {#name, help, LIFE_##next},
#include "daemon/master/lifecycle.def"
                                              },
                                          .cells =
                                              (const int[]){
#define LIFE_EVENT(name, help, ...) ROW(__VA_ARGS__)
#include "daemon/master/lifecycle.def"
                                              },
                                          .state_count = LIFE_STATES,
                                          .event_count = LIFE_EVENTS,
                                          .action_count = ACTION_COUNT};

#define WORKER_LIFE_ACTION(name, next, help) WORKER_ACTION_##name,
enum {
#include "daemon/master/worker_lifecycle.def"
    WORKER_ACTION_COUNT,
    WORKER_SAME = WORKER_STATE_COUNT
};

#define WORKER_ROW(a, b, c, d)                                                                     \
    WORKER_ACTION_##a, WORKER_ACTION_##b, WORKER_ACTION_##c, WORKER_ACTION_##d,

static const struct table worker_table = {.owner = "the worker",
                                          .states =
                                              (const struct named[]){
#define WORKER_STATE(id, name, help) {name, help, 0},
#include "common/enums.def"
                                              },
                                          .events =
                                              (const struct named[]){
#define WORKER_LIFE_EVENT(name, help, ...) {#name, help, 0},
#include "daemon/master/worker_lifecycle.def"
                                              },
                                          .actions =
                                              (const struct named[]){
#define WORKER_LIFE_ACTION(name, next, help) {#name, help, WORKER_##next},
#include "daemon/master/worker_lifecycle.def"
                                              },
                                          .cells =
                                              (const int[]){
#define WORKER_LIFE_EVENT(name, help, ...) WORKER_ROW(__VA_ARGS__)
#include "daemon/master/worker_lifecycle.def"
                                              },
                                          .state_count = WORKER_STATE_COUNT,
                                          .event_count = WORKER_EVENTS,
                                          .action_count = WORKER_ACTION_COUNT};

static int action_at(const struct table *table, int state, int event)
{
    return table->cells[event * table->state_count + state];
}

static int next_state(const struct table *table, int state, int event)
{
    int next = table->actions[action_at(table, state, event)].next;

    return next == table->state_count ? state : next;
}

/* Marks the states that follow STATE after some events. */
static void mark_reachable(const struct table *table, bool *reached, int state)
{
    if (reached[state])
        return;
    reached[state] = true;
    for (int event = 0; event < table->event_count; event++)
        mark_reachable(table, reached, next_state(table, state, event));
}

static void check_states(const struct table *table, int first, int last)
{
    for (int state = 0; state < table->state_count; state++) {
        bool from_first[LIFE_STATES] = {false}, from_here[LIFE_STATES] = {false};

        mark_reachable(table, from_first, first);
        mark_reachable(table, from_here, state);
        assert_true(from_first[state] && from_here[last]);
    }
}

TEST(each_state_is_reached_and_can_end)
{
    check_states(&master_table, LIFE_starting, LIFE_ended);
    check_states(&worker_table, WORKER_NONE, WORKER_NONE);
}

/* Whatever happened before, the slot of a process that has ended is free. */
TEST(slot_of_an_ended_worker_is_free)
{
    for (int before = 0; before < WORKER_STATE_COUNT; before++)
        assert_int_equal(next_state(&worker_table, before, WORKER_EVENT_exit), WORKER_NONE);
}

/* The dispatcher */

const struct test_fixture test_fixture = {scene_begin_serving, scene_end};

/* With actions that do nothing else. */
TEST(event_changes_the_state)
{
    lifecycle_report(&master, EVENT_old_workers);
    assert_int_equal(master.life.state, LIFE_replacing);
    lifecycle_report(&master, EVENT_old_workers);
    assert_int_equal(master.life.state, LIFE_replacing);
    lifecycle_report(&master, EVENT_no_old_workers);
    assert_int_equal(master.life.state, LIFE_starting);
    lifecycle_report(&master, EVENT_all_serve);
    assert_int_equal(master.life.state, LIFE_serving);
    assert_int_equal(scene_events(), 0);
}

TEST(impossible_event_is_logged)
{
    lifecycle_report(&master, EVENT_timeout);
    assert_int_equal(master.life.state, LIFE_serving);
    assert_string_equal(scene_last_event(), "life cycle: 'timeout' is impossible when serving");
}

/* A reload of a configuration with an error. */
TEST(failed_action_leaves_the_state)
{
    static const char *const overrides[] = {"connections.max=x"};
    const struct options options = {.overrides = overrides, .override_count = 1};

    master.options = &options;
    lifecycle_report(&master, EVENT_reload);
    assert_int_equal(master.life.state, LIFE_serving);
    assert_non_null(strstr(master.reload.refusal, "connections.max"));
}

/* The action for `stop` reports `flushed`, for which the loop ends. */
TEST(report_within_an_action_is_handled_after_it)
{
    master.life.state = LIFE_flushing;
    lifecycle_report(&master, EVENT_stop);
    assert_int_equal(master.life.state, LIFE_ended);
    assert_false(master.life.acting);
}

TEST(deadline_ends_with_its_state)
{
    lifecycle_set_deadline(&master, 0);
    lifecycle_report(&master, EVENT_old_workers);
    event_base_loop(master.base, EVLOOP_NONBLOCK);
    assert_int_equal(scene_events(), 0);
    lifecycle_set_deadline(&master, 0);
    event_base_loop(master.base, EVLOOP_NONBLOCK);
    assert_string_equal(scene_last_event(), "life cycle: 'timeout' is impossible when replacing");
}

TEST(end_begins_with_the_retirement)
{
    for (int each = 0; each < LIFE_STATES; each++) {
        master.life.state = (enum life_state)each;
        assert_int_equal(lifecycle_is_stopping(&master),
                         each == LIFE_retiring || each == LIFE_stopping || each == LIFE_draining ||
                             each == LIFE_flushing || each == LIFE_ended);
    }
}

/*
 * After an upgrade, the link to the old master stays open, so that a stop of one reaches the other.
 */
TEST(stop_of_the_old_master_reaches_the_new_one)
{
    int link[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link), 0);
    master.config->workers_stop_grace = 3600000;
    master.upgrade.inheritance.link = link[1];
    assert_int_equal(upgrade_watch_old_master(&master), 0);
    assert_int_equal(send(link[0], &(char){INHERITANCE_STOP}, 1, 0), 1);
    event_base_loop(master.base, EVLOOP_NONBLOCK);
    assert_int_equal(master.life.state, LIFE_stopping);
    assert_int_equal(send(link[0], &(char){INHERITANCE_FORCE}, 1, 0), 1);
    event_base_loop(master.base, EVLOOP_NONBLOCK);
    assert_int_equal(master.life.state, LIFE_draining);
    close(link[0]);
    event_base_loop(master.base, EVLOOP_NONBLOCK);
    assert_int_equal(master.upgrade.inheritance.link, -1);
    assert_null(master.upgrade.inheritance_readable);
}

static void expect_told(int successor, char what)
{
    char byte = '\0';

    assert_int_equal(recv(successor, &byte, 1, MSG_DONTWAIT), what == '\0' ? -1 : 1);
    assert_int_equal(byte, what);
}

/* A second one forces only a new master that a first one has stopped. */
TEST(stops_of_the_new_one_are_passed_on)
{
    int link[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link), 0);
    master.upgrade.successor_link = link[0];
    upgrade_force(&master);
    expect_told(link[1], '\0');
    upgrade_stop(&master);
    expect_told(link[1], INHERITANCE_STOP);
    upgrade_force(&master);
    expect_told(link[1], INHERITANCE_FORCE);
    upgrade_pass_reload(&master);
    expect_told(link[1], INHERITANCE_RELOAD);
    expect_told(link[1], '\0');
    close(link[0]);
    close(link[1]);
}

/* The pictures: cells of the action `nothing` are empty, those of `impossible` a dash. */

static void print_events(const struct table *table, FILE *output)
{
    fputs("| event | |", output);
    for (int s = 0; s < table->state_count; s++)
        fprintf(output, " %s |", table->states[s].name);
    fputs("\n|---|---|", output);
    for (int s = 0; s < table->state_count; s++)
        fputs("---|", output);
    for (int e = 0; e < table->event_count; e++) {
        fprintf(output, "\n| `%s` | %s |", table->events[e].name, table->events[e].help);
        for (int s = 0; s < table->state_count; s++) {
            const char *name = table->actions[action_at(table, s, e)].name;

            if (strcmp(name, "nothing") == 0)
                fputs(" |", output);
            else
                fprintf(output, " %s |", strcmp(name, "impossible") == 0 ? "–" : name);
        }
    }
    fputs("\n\n", output);
}

static void print_table(const struct table *table, FILE *output)
{
    print_events(table, output);
    fputs("| state | |\n|---|---|\n", output);
    for (int s = 0; s < table->state_count; s++)
        fprintf(output, "| %s | %s |\n", table->states[s].name, table->states[s].help);
    fprintf(output, "\n| action | what the master does | then %s is |\n|---|---|---|\n",
            table->owner);
    for (int a = 0; a < table->action_count; a++) {
        const struct named *action = &table->actions[a];

        if (strcmp(action->name, "nothing") != 0 && strcmp(action->name, "impossible") != 0)
            fprintf(output, "| %s | %s | %s |\n", action->name, action->help,
                    action->next == table->state_count ? "" : table->states[action->next].name);
    }
}

static char *read_readme(void)
{
    FILE *file = fopen(README, "r");
    char *text = calloc(1, 1 << 20);

    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void write_picture(const char *before, size_t length, const char *picture, const char *after)
{
    FILE *file = fopen(README, "w");

    assert_non_null(file);
    fprintf(file, "%.*s%s%s", (int)length, before, picture, after);
    fclose(file);
}

/* Checks or writes the part of the README between the marks of NAME. */
static void compare_picture(const char *name, const struct table *table)
{
    char mark[64], *page = read_readme(), *picture = NULL, *begin, *end;
    const char *wanted = getenv("LIFECYCLE");
    size_t length;
    FILE *memory = open_memstream(&picture, &length);

    snprintf(mark, sizeof(mark), "<!-- %s -->\n", name);
    begin = strstr(page, mark);
    assert_non_null(begin);
    begin += strlen(mark);
    end = strstr(begin, "<!-- /");
    assert_non_null(end);
    print_table(table, memory);
    fclose(memory);
    if (wanted != NULL && strcmp(wanted, "write") == 0)
        write_picture(page, (size_t)(begin - page), picture, end);
    else if ((size_t)(end - begin) != length || strncmp(begin, picture, length) != 0)
        fail_msg("the README does not show this table; run with LIFECYCLE=write:\n%s", picture);
    free(picture);
    free(page);
}

TEST(pictures_in_the_readme_are_the_tables)
{
    compare_picture("lifecycle", &master_table);
    compare_picture("worker lifecycle", &worker_table);
}
