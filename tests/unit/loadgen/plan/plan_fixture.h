/* A request plan made from the two files of scratch_file.h. */
#ifndef TESTS_PLAN_FIXTURE_H
#define TESTS_PLAN_FIXTURE_H

#include "scratch_file.h"

#include "loadgen/plan/request_plan.h"
#include "tests/test.h"

const struct test_fixture test_group_fixture = {make_files, remove_files};

static struct request_plan request_plan;
static struct plan plan;
static char why[512];

/* Requests to http://a.test:81/base. */
static void reset_plan(void)
{
    plan = (struct plan){
        .urls = {"http://a.test:81/base"},
        .url_count = 1,
        .method = "GET",
        .keepalive = true,
        .replay_speed = 1,
    };
}

static inline void prepare(void)
{
    if (request_plan_prepare(&request_plan, &plan, why, sizeof(why)) != 0)
        fail_msg("%s", why);
}

/* The plan is rejected with a message that contains WORDS. */
static inline void check_rejected(const char *words)
{
    assert_int_equal(request_plan_prepare(&request_plan, &plan, why, sizeof(why)), -1);
    if (strstr(why, words) == NULL)
        fail_msg("no '%s' in '%s'", words, why);
    request_plan_free(&request_plan);
}

#endif
