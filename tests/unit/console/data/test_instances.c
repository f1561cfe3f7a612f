/* The list of servers: the rates of one between two looks. */
#define WSBOARD_IMPLEMENTATION
#include "include/wsboard.h"

#include "common/clock.h"
#include "common/process.h"
#include "console/data/instances.h"
#include "tests/test.h"

#include <math.h>

static char name[32];

static int open_board(void **state)
{
    (void)state;
    snprintf(name, sizeof(name), "instances-%d", (int)getpid());
    return board_open(name, 8080);
}

static int close_board(void **state)
{
    (void)state;
    board_close();
    return 0;
}

const struct test_fixture test_group_fixture = {open_board, close_board};

static const struct instance *find(void)
{
    static struct instance list[INSTANCES_MAX];
    size_t count = instances_find(list), i = 0;

    while (i < count && strcmp(list[i].name, name) != 0)
        i++;
    if (i == INSTANCES_MAX)
        skip(); /* more servers run here than are listed */
    assert_true(i < count);
    return &list[i];
}

static void request(int status)
{
    board_begin("GET / HTTP/1.1", 14);
    board_end(status, 0);
}

TEST(server_is_measured_between_two_looks)
{
    const struct instance *found;

    request(200);
    found = find();
    assert_string_equal(found->listening, "*:8080");
    assert_true(isnan(found->load.requests) && isnan(found->load.p99_ns) &&
                isnan(found->load.cores));
    assert_int_equal(found->load.workers, 1);
    assert_int_equal(found->load.workers_wanted, 0);
    request(200);
    request(404);
    found = find();
    assert_true(found->load.requests > 0 && found->load.p99_ns > 0 && found->load.cores > 0);
    assert_true(fabs(found->load.requests / found->load.errors - 2) < 1e-6);
    found = find();
    assert_true(!(found->load.requests > 0) && isnan(found->load.p99_ns));
}

/* A start in the future: the clock was set back. */
TEST(age_survives_a_clock_set_back)
{
    uint64_t now_ns = clock_wall_ns();

    assert_true(process_age_ns(1, now_ns + 3600 * NS_PER_S) > 0);
    assert_true(process_age_ns(getpid(), now_ns - 3600 * NS_PER_S) >= 3600 * NS_PER_S);
    assert_true(process_age_ns(-1, now_ns + 3600 * NS_PER_S) == 0);
}
