/*
 * Logins with passwords that a thread verifies. Here "hash" and password are the same text, and a
 * test can make the thread wait before it verifies one.
 */
#include "daemon/metrics/verifier.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/http1/request_parser.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <crypt.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

enum { FAILURES_A_MINUTE = 100 };

/* Basic credentials. */
#define ANN_RIGHT "YW5uOnNlY3JldA==" /* ann:secret */
#define ANN_WRONG "YW5uOndyb25n"     /* ann:wrong */
#define BEN_RIGHT "YmVuOnNlY3JldA==" /* ben:secret, who does not exist */

static struct config_user user = {.name = (char[]){"ann"}, .hash = (char[]){"secret"}};
static const struct config_users users = {.file = (char[]){"users"}, .item = &user, .count = 1};
static uint32_t failures;
/* Of all tests: a thread of a verifier ends with the process. */
static struct event_base *base;
static struct verifier *verifier;
static sem_t permits; /* passwords that the thread may verify */
static int thread_error;
static uint64_t now_ns;
static int resumed;

char *__wrap_crypt_r(const char *phrase, const char *hash, struct crypt_data *data)
{
    static char failure[] = "*0";

    (void)data;
    while (sem_wait(&permits) != 0)
        continue;
    return strcmp(phrase, hash) == 0 ? (char *)(uintptr_t)hash : failure;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    now->tv_sec = (time_t)(now_ns / NS_PER_S);
    now->tv_nsec = (long)(now_ns % NS_PER_S);
    return 0;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument)
{
    return thread_error != 0 ? thread_error
                             : __real_pthread_create(thread, attributes, start, argument);
}

static struct verifier *start(uint32_t failures_a_minute)
{
    const struct verifier_setup setup = {.users = &users,
                                         .failures_a_minute = failures_a_minute,
                                         .failures = &failures,
                                         .base = base};

    return verifier_start(&setup);
}

static int begin(void **state)
{
    (void)state;
    failures = 0;
    resumed = 0;
    now_ns = 1000 * NS_PER_S;
    return (verifier = start(FAILURES_A_MINUTE)) != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    verifier_stop(verifier);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static void permit(int count)
{
    for (int i = 0; i < count; i++)
        sem_post(&permits);
}

static void on_resume(struct login *login)
{
    assert_int_not_equal(login->verdict, PASSWORD_UNKNOWN);
    assert_null(login->verification);
    resumed++;
}

static struct login new_login(uint64_t client_key)
{
    return (struct login){.client_key = client_key, .resume = on_resume};
}

static enum login_verdict judge(struct login *login, const char *credentials)
{
    static const struct request_limits limits = {1024, 4096, 16};
    struct request request;
    char text[160];
    size_t scanned = 0;
    int length =
        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic %s\r\n\r\n",
                 credentials);

    assert_int_equal(request_parse(text, (size_t)length, &limits, &scanned, &request), length);
    return verifier_judge(verifier, login, &request);
}

/* Runs the loop until COUNT logins have been resumed. */
static void run_until_resumed(int count)
{
    while (resumed < count)
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
    assert_int_equal(resumed, count);
}

/* The verdict after the thread has verified the password. */
static enum login_verdict verify(const char *credentials)
{
    struct login login = new_login(1);
    int before = resumed;

    assert_int_equal(judge(&login, credentials), LOGIN_WAITING);
    assert_non_null(login.verification);
    permit(1);
    run_until_resumed(before + 1);
    return judge(&login, credentials);
}

TEST(verified_password_is_remembered)
{
    struct login login = new_login(2);

    assert_int_equal(verify(ANN_RIGHT), LOGIN_GOOD);
    assert_int_equal(judge(&login, ANN_RIGHT), LOGIN_GOOD); /* without the thread */
    assert_int_equal(failures, 0);
}

TEST(failed_login_is_counted)
{
    assert_int_equal(verify(ANN_WRONG), LOGIN_NONE);
    assert_int_equal(verify(BEN_RIGHT), LOGIN_NONE); /* another user stands in */
    assert_int_equal(verify(ANN_WRONG), LOGIN_NONE); /* not remembered */
    assert_int_equal(failures, 3);
}

TEST(passwords_that_wait_are_limited)
{
    struct login logins[VERIFIER_WAITING_MAX + 1];

    for (int i = 0; i < VERIFIER_WAITING_MAX; i++) {
        logins[i] = new_login(1);
        assert_int_equal(judge(&logins[i], ANN_WRONG), LOGIN_WAITING);
    }
    logins[VERIFIER_WAITING_MAX] = new_login(1);
    assert_int_equal(judge(&logins[VERIFIER_WAITING_MAX], ANN_WRONG), LOGIN_BUSY);
    assert_int_equal(logins[VERIFIER_WAITING_MAX].retry_after_s, 1);
    assert_null(logins[VERIFIER_WAITING_MAX].verification);
    permit(VERIFIER_WAITING_MAX);
    run_until_resumed(VERIFIER_WAITING_MAX);
    assert_int_equal(failures, VERIFIER_WAITING_MAX);
    assert_int_equal(verify(ANN_RIGHT), LOGIN_GOOD); /* all of them have left their places */
}

TEST(cancelled_login_is_counted_but_not_resumed)
{
    struct login cancelled = new_login(1);

    assert_int_equal(judge(&cancelled, ANN_WRONG), LOGIN_WAITING);
    login_cancel(&cancelled);
    assert_null(cancelled.verification);
    login_cancel(&cancelled);
    permit(1);
    assert_int_equal(verify(ANN_RIGHT), LOGIN_GOOD);
    assert_int_equal(resumed, 1);
    assert_int_equal(cancelled.verdict, PASSWORD_UNKNOWN);
    assert_int_equal(failures, 1);
}

/* With one failure a minute. */
TEST(wait_of_a_limited_client_is_rounded_up)
{
    static const struct {
        uint64_t left_ns; /* of the minute */
        uint32_t seconds;
    } cases[] = {{60 * NS_PER_S, 60}, {NS_PER_S + 1, 2}, {NS_PER_S, 1}, {1, 1}};
    uint64_t failed_ns = now_ns;

    verifier_stop(verifier);
    verifier = start(1);
    assert_non_null(verifier);
    assert_int_equal(verify(ANN_WRONG), LOGIN_NONE);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct login login = new_login(1);

        now_ns = failed_ns + 60 * NS_PER_S - cases[i].left_ns;
        assert_int_equal(judge(&login, ANN_RIGHT), LOGIN_LIMITED);
        assert_int_equal(login.retry_after_s, cases[i].seconds);
        assert_null(login.verification);
    }
    now_ns = failed_ns + 60 * NS_PER_S;
    assert_int_equal(verify(ANN_RIGHT), LOGIN_GOOD);
}

TEST(login_without_a_thread_is_busy)
{
    struct login login = new_login(1);

    thread_error = EAGAIN;
    assert_int_equal(judge(&login, ANN_RIGHT), LOGIN_BUSY);
    assert_null(login.verification);
    thread_error = 0;
    assert_int_equal(verify(ANN_RIGHT), LOGIN_GOOD);
}

static int open_base(void **state)
{
    (void)state;
    base = event_base_new();
    return base != NULL && sem_init(&permits, 0, 0) == 0 ? 0 : -1;
}

const struct test_fixture test_group_fixture = {open_base, NULL};
