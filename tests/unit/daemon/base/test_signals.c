/* Which signals the processes ignore and block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/base/signals.h"

#include <signal.h>
#include <stdbool.h>

/*
 * Those that an operator, a terminal or a service manager sends, and those of the program itself.
 */
static const int all[] = {SIGTERM, SIGINT,  SIGQUIT, SIGCHLD, SIGHUP, SIGUSR1,
                          SIGUSR2, SIGPIPE, SIGSEGV, SIGABRT, SIGALRM};

static bool is_among(int number, const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (numbers[i] == number)
            return true;
    return false;
}

static bool is_ignored(int number)
{
    struct sigaction action;

    assert_int_equal(sigaction(number, NULL, &action), 0);
    return action.sa_handler == SIG_IGN;
}

static bool is_blocked(int number)
{
    sigset_t blocked;

    assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &blocked), 0);
    return sigismember(&blocked, number) == 1;
}

/* Only those of NUMBERS are ignored. */
static void expect_ignored(const int *numbers, size_t count)
{
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        assert_int_equal(is_ignored(all[i]), is_among(all[i], numbers, count));
}

static int restore(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        if (is_ignored(all[i]))
            signal(all[i], SIG_DFL);
    return 0;
}

static void master_ignores_a_broken_pipe(void **state)
{
    static const int ignored[] = {SIGPIPE};

    (void)state;
    restore(NULL);
    signals_ignore_in_master();
    expect_ignored(ignored, ARRAY_LENGTH(ignored));
}

static void child_ignores_signals_sent_to_the_process_group(void **state)
{
    static const int ignored[] = {SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGQUIT};

    (void)state;
    restore(NULL);
    signals_ignore_in_child();
    expect_ignored(ignored, ARRAY_LENGTH(ignored));
}

static void handled_signals_are_blocked_and_unblocked(void **state)
{
    sigset_t none;

    (void)state;
    sigemptyset(&none);
    assert_int_equal(sigprocmask(SIG_SETMASK, &none, NULL), 0); /* the caller may block some */
    signals_block();
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        assert_int_equal(is_blocked(all[i]), is_among(all[i], signals_handled, SIGNALS_HANDLED));
    signals_unblock();
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        assert_false(is_blocked(all[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(master_ignores_a_broken_pipe, restore),
        cmocka_unit_test_teardown(child_ignores_signals_sent_to_the_process_group, restore),
        cmocka_unit_test(handled_signals_are_blocked_and_unblocked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
