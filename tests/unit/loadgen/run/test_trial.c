/* Single trials, several in one process, and signals between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loadgen/base/interrupts.h"
#include "loadgen/run/trials.h"

#include <curl/curl.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int handled;

static void handle(int number)
{
    handled = number;
}

static void interrupts_are_counted_until_taken(void **state)
{
    (void)state;
    signal(SIGTERM, handle);
    assert_int_equal(interrupts_fd(), -1);
    assert_int_equal(interrupts_begin(), 0);
    raise(SIGINT);
    assert_int_equal(interrupts_begin(), 0);
    raise(SIGTERM);
    interrupts_end();
    raise(SIGHUP);
    raise(SIGQUIT);
    assert_int_equal(interrupts_take(), 4);
    assert_int_equal(interrupts_take(), 0);
    assert_int_equal(handled, 0);
    interrupts_end();
    raise(SIGTERM);
    assert_int_equal(handled, SIGTERM);
    signal(SIGTERM, SIG_DFL);
}

static void ignored_sighup_stays_ignored(void **state)
{
    (void)state;
    signal(SIGHUP, SIG_IGN);
    assert_int_equal(interrupts_begin(), 0);
    raise(SIGHUP);
    assert_int_equal(interrupts_take(), 0);
    interrupts_end();
    signal(SIGHUP, SIG_DFL);
}

/* A URL whose port is bound but does not listen: connections are refused. */
static void bind_refusing(int *fd, char *url, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&address, &length), 0);
    snprintf(url, size, "http://127.0.0.1:%u/", ntohs(address.sin_port));
}

static void make_plan(struct plan *plan, const char *url)
{
    plan_begin(plan, 2);
    plan->urls[plan->url_count++] = url;
    plan->method = "GET";
    plan->quiet = true;
    plan->connect_timeout_ms = 60 * 1000; /* the defaults are short for a machine that is busy */
    plan->timeout_ms = plan->connect_timeout_ms;
    plan->requests = 5;
    plan_set_connections(plan, 8);
}

static void plan_sets_dependent_values(void **state)
{
    struct plan plan;

    (void)state;
    make_plan(&plan, "http://127.0.0.1/");
    assert_int_equal(plan.connections_requested, 8);
    assert_int_equal(plan.connections, 5);
    assert_int_equal(plan.threads, 2);
    plan_set_connections(&plan, 1);
    assert_int_equal(plan.connections, 1);
    assert_int_equal(plan.threads, 1);
    plan_set_connections(&plan, 3);
    assert_int_equal(plan.threads, 2);
}

static void trials_run_repeatedly_in_one_process(void **state)
{
    struct result *result = malloc(sizeof(*result));
    struct plan plan;
    char url[64], why[256] = "";
    int fd;

    (void)state;
    assert_non_null(result);
    bind_refusing(&fd, url, sizeof(url));
    make_plan(&plan, url);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(trial_run(&plan, NULL, result, why, sizeof(why)), TRIAL_DONE);
        assert_string_equal(result->url, url);
        assert_int_equal(tally_get(&result->tally, TALLY_begun), 5);
        assert_int_equal(tally_error(&result->tally, ERROR_KIND_REFUSED), 5);
        assert_int_equal(trial_status(TRIAL_DONE, result), RESULT_NOTHING);
        result_free(result);
    }
    plan.urls[0] = "http://nobody.invalid/";
    assert_int_equal(trial_run(&plan, NULL, result, why, sizeof(why)), TRIAL_UNKNOWN_HOST);
    assert_int_equal(trial_status(TRIAL_UNKNOWN_HOST, result), RESULT_NOTHING);
    plan.urls[0] = "gopher://x/";
    assert_int_equal(trial_run(&plan, NULL, result, why, sizeof(why)), TRIAL_INVALID);
    assert_true(strlen(why) > 0);
    free(result);
    close(fd);
}

static void signal_before_a_run_ends_it(void **state)
{
    struct result *result = malloc(sizeof(*result));
    struct plan plan;
    char url[64], why[256];
    int fd;

    (void)state;
    assert_non_null(result);
    bind_refusing(&fd, url, sizeof(url));
    make_plan(&plan, url);
    plan.requests = 0;
    plan.duration_ms = 3600 * 1000;
    assert_int_equal(interrupts_begin(), 0);
    raise(SIGINT);
    assert_int_equal(trial_run(&plan, NULL, result, why, sizeof(why)), TRIAL_DONE);
    assert_true(result->interrupted);
    interrupts_end();
    result_free(result);
    free(result);
    close(fd);
}

/* ---- Events that cannot be added ---- */

static _Atomic int adds_left = -1; /* calls of event_add() before one fails; negative: none fails */

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __real_event_add(struct event *event, const struct timeval *wait);
int __wrap_event_add(struct event *event, const struct timeval *wait);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

int __wrap_event_add(struct event *event, const struct timeval *wait)
{
    if (adds_left >= 0 && adds_left-- == 0) {
        errno = ENOSPC;
        return -1;
    }
    return __real_event_add(event, wait);
}

enum { CHILD_UNTOUCHED = 40, CHILD_REFUSED, CHILD_HURT };

/* Runs PLAN; call number ADDS of event_add() fails. */
static int run_without_event(const struct plan *plan, int adds)
{
    struct result *result = malloc(sizeof(*result));
    char why[256] = "";
    enum trial_outcome outcome;

    if (result == NULL || freopen("/dev/null", "w", stderr) == NULL)
        return CHILD_HURT;
    adds_left = adds;
    outcome = trial_run(plan, NULL, result, why, sizeof(why));
    if (outcome != TRIAL_DONE)
        return why[0] != '\0' ? CHILD_REFUSED : CHILD_HURT;
    return adds_left >= 0 ? CHILD_UNTOUCHED : CHILD_HURT;
}

static int status_without_event(const struct plan *plan, int adds)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(run_without_event(plan, adds));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Fails each event_add() of a run in turn: no run hangs, and none continues without the event. */
static int check_each_event(const struct plan *plan)
{
    int adds = 0, fatal = 0, status;

    while ((status = status_without_event(plan, adds)) != CHILD_UNTOUCHED) {
        if (status != EXIT_FAILURE && status != CHILD_REFUSED)
            fail_msg("event_add() number %d: exit status %d", adds, status);
        fatal += status == EXIT_FAILURE;
        adds++;
    }
    return fatal;
}

static void missing_event_ends_program(void **state)
{
    struct plan plan;
    char url[64];
    int fd;

    (void)state;
    bind_refusing(&fd, url, sizeof(url));
    make_plan(&plan, url);
    plan.connections = 1;
    plan.threads = 1;
    plan.requests = 2;
    plan.duration_ms = 3600 * 1000;
    plan.think_min_ms = plan.think_max_ms = 1;
    assert_true(check_each_event(&plan) >= 3); /* tick, deadline, think time */
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupts_are_counted_until_taken),
        cmocka_unit_test(ignored_sighup_stays_ignored),
        cmocka_unit_test(plan_sets_dependent_values),
        cmocka_unit_test(trials_run_repeatedly_in_one_process),
        cmocka_unit_test(signal_before_a_run_ends_it),
        cmocka_unit_test(missing_event_ends_program),
    };

    curl_global_init(CURL_GLOBAL_DEFAULT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
