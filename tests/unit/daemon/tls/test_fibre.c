/* Calls that pause and continue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/tls/fibre.h"

#include <pthread.h>

struct count {
    int to, at;
};

/* Pauses after each step; its locals must survive. */
static void count_slowly(void *argument)
{
    struct count *count = argument;
    volatile int steps[64] = {0};

    for (int i = 0; i < count->to; i++) {
        steps[i % 64] = i;
        count->at = i + 1;
        fibre_pause();
        assert_int_equal(steps[i % 64], i);
    }
}

static void call_pauses_and_continues(void **state)
{
    struct fibre *fibre = fibre_new();
    struct count count = {.to = 100};

    (void)state;
    assert_non_null(fibre);
    assert_false(fibre_call(fibre, count_slowly, &count));
    for (int i = 1; i < count.to; i++) {
        assert_int_equal(count.at, i);
        assert_false(fibre_continue(fibre));
    }
    assert_true(fibre_continue(fibre));
    fibre_free(fibre);
}

static void fibre_serves_several_calls(void **state)
{
    struct fibre *fibre = fibre_new();

    (void)state;
    for (int to = 0; to < 5; to++) {
        struct count count = {.to = to};
        bool returned = fibre_call(fibre, count_slowly, &count);

        while (!returned)
            returned = fibre_continue(fibre);
        assert_int_equal(count.at, to);
    }
    fibre_free(fibre);
}

static void paused_calls_do_not_disturb_each_other(void **state)
{
    enum { FIBRES = 50, STEPS = 20 };
    struct fibre *fibre[FIBRES];
    struct count count[FIBRES];

    (void)state;
    for (int i = 0; i < FIBRES; i++) {
        fibre[i] = fibre_new();
        count[i] = (struct count){.to = STEPS};
        assert_false(fibre_call(fibre[i], count_slowly, &count[i]));
    }
    for (int step = 1; step <= STEPS; step++)
        for (int i = 0; i < FIBRES; i++) {
            int other = (i * 7) % FIBRES; /* in another order */

            assert_int_equal(count[other].at, step);
            assert_int_equal(fibre_continue(fibre[other]), step == STEPS);
        }
    for (int i = 0; i < FIBRES; i++)
        fibre_free(fibre[i]);
}

static void *use_fibres(void *argument)
{
    paused_calls_do_not_disturb_each_other(argument);
    return NULL;
}

static void threads_have_their_own_fibres(void **state)
{
    pthread_t thread[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use_fibres, *state), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call_pauses_and_continues),
        cmocka_unit_test(fibre_serves_several_calls),
        cmocka_unit_test(paused_calls_do_not_disturb_each_other),
        cmocka_unit_test(threads_have_their_own_fibres),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
