/*
 * Basic authentication of requests: what is verified, by whom, and what is remembered. The test is the
 * offload thread. Here "hash" and password are the same text.
 */
#include "daemon/transaction/authentication.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/http/logins.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define BASIC(base64) "Authorization: Basic " base64 "\r\n"
#define ANN_RIGHT     BASIC("YW5uOnNlY3JldA==") /* ann:secret */
#define ANN_WRONG     BASIC("YW5uOndyb25n")     /* ann:wrong */
#define BEN_RIGHT     BASIC("YmVuOnNlY3JldA==") /* ben:secret, who does not exist */

enum { FAILURES_A_MINUTE = 2 };
#define NOW_NS (1000 * NS_PER_S)

static struct config_user user = {.name = (char[]){"ann"}, .hash = (char[]){"secret"}};
static const struct config_access rule = {
    .scope = {.prefix = (char[]){"/private"}},
    .users = {.file = (char[]){"users"}, .item = &user, .count = 1}};

static struct {
    struct worker_context worker;
    struct transaction_context context;
    struct mailbox mailbox;
    struct client client;
    struct transaction_state state;
    struct request request;
    struct transaction transaction;
    _Atomic uint64_t metrics[METRIC_COUNT];
    uint8_t address[CLIENT_ADDRESS_BYTES];
    int resumed;

    bool queue_full, out_of_memory;
    struct offload_job *queued;
    const char *job; /* until it is freed */
    size_t job_bytes;
    bool existed; /* the user whose password was verified */
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
void *__real_calloc(size_t count, size_t size);
void __real_free(void *memory);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *memory);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
bool __wrap_offload_submit(struct offload *offload, struct offload_job *job, uint64_t now_ns);
void __wrap_password_check_run(struct password_check *check);

void *__wrap_calloc(size_t count, size_t size)
{
    if (scene.out_of_memory)
        return NULL;
    scene.job_bytes = count * size;
    return __real_calloc(count, size);
}

/* The memory of a job has no password any more. */
void __wrap_free(void *memory)
{
    if (memory != NULL && memory == scene.job) {
        for (size_t i = 0; i < scene.job_bytes; i++)
            assert_int_equal(scene.job[i], 0);
        scene.job = NULL;
    }
    __real_free(memory);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    assert_int_equal(id, CLOCK_MONOTONIC);
    *now = (struct timespec){.tv_sec = NOW_NS / NS_PER_S};
    return 0;
}

bool __wrap_offload_submit(struct offload *offload, struct offload_job *job, uint64_t now_ns)
{
    assert_ptr_equal(offload, scene.worker.offload);
    assert_int_equal(now_ns, NOW_NS);
    assert_null(scene.job);
    scene.job = (const char *)job;
    scene.queued = scene.queue_full ? NULL : job;
    return !scene.queue_full;
}

void __wrap_password_check_run(struct password_check *check)
{
    scene.existed = check->exists;
    check->good = check->exists && strcmp(check->password, check->expected) == 0;
}
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static void resume(struct transaction_state *state)
{
    assert_ptr_equal(state, &scene.state);
    scene.resumed++;
}

static int set_up(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    scene.worker.logins = logins_new(FAILURES_A_MINUTE);
    assert_non_null(scene.worker.logins);
    scene.context.worker = &scene.worker;
    scene.context.mailbox = &scene.mailbox;
    scene.context.metrics = scene.metrics;
    scene.context.loop_now_ns = NOW_NS;
    scene.state.resume = resume;
    scene.address[0] = 0x20;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_null(scene.job);
    assert_int_equal(scene.client.jobs_out, 0);
    assert_int_equal(scene.context.jobs_out, 0);
    logins_free(scene.worker.logins);
    return 0;
}

/* --- Helpers --- */

static uint64_t metric(enum metric which)
{
    return metric_get(scene.metrics, which);
}

static enum authentication_verdict process(const char *lines, bool may_wait)
{
    scene.request.fields = (struct span){lines, strlen(lines)};
    scene.transaction = (struct transaction){.context = &scene.context,
                                             .client = &scene.client,
                                             .state = &scene.state,
                                             .request = &scene.request,
                                             .address = scene.address,
                                             .may_wait = may_wait};
    return authentication_verify(&scene.transaction, &rule);
}

/* A new request with the field LINES. */
static enum authentication_verdict request(const char *lines)
{
    scene.state.login = 0;
    return process(lines, true);
}

/* The offload thread verifies, and the job comes back. */
static void run(void)
{
    struct offload_job *job = scene.queued;

    assert_non_null(job);
    assert_ptr_equal(job->owner, &scene.mailbox);
    scene.queued = NULL;
    job->run(job);
    assert_int_equal(scene.client.jobs_out, 1);
    job->finish(job);
    assert_null(scene.job);
    assert_int_equal(scene.client.jobs_out, 0);
}

/* A request whose password must be verified. Returns the verdict after that. */
static enum authentication_verdict verify(const char *lines)
{
    assert_int_equal(request(lines), AUTHENTICATION_WAITING);
    run();
    return process(lines, true);
}

/* --- Tests --- */

static void request_without_valid_credentials_is_refused(void **state)
{
    (void)state;
    assert_int_equal(request(""), AUTHENTICATION_NONE);
    assert_int_equal(request("Authorization: Bearer YW5uOnNlY3JldA==\r\n"), AUTHENTICATION_NONE);
    assert_int_equal(request(BASIC("YW5u")), AUTHENTICATION_NONE);
    assert_int_equal(request(ANN_RIGHT ANN_RIGHT), AUTHENTICATION_NONE);
    assert_null(scene.queued);
}

static void request_waits_until_its_password_is_verified(void **state)
{
    (void)state;
    assert_int_equal(request(ANN_RIGHT), AUTHENTICATION_WAITING);
    assert_int_equal(scene.context.jobs_out, 1);
    assert_int_equal(scene.queued->state, THREAD_STATE_COMPUTE);
    assert_true(span_is(scene.queued->work, SPAN("/private"))); /* and not the name */
    assert_int_equal(metric(METRIC_offloaded), 1);
    assert_int_equal(scene.resumed, 0);
    run();
    assert_int_equal(scene.resumed, 1);
    assert_int_equal(process(ANN_RIGHT, true), AUTHENTICATION_GOOD);
    assert_true(span_is(scene.transaction.user, SPAN("ann")));
    assert_ptr_equal(scene.transaction.user.start, user.name); /* lives as long as the rule */
    assert_int_equal(metric(METRIC_logins), 1);
    assert_int_equal(metric(METRIC_logins_failed), 0);
}

static void right_password_is_remembered(void **state)
{
    (void)state;
    assert_int_equal(verify(ANN_RIGHT), AUTHENTICATION_GOOD);
    assert_int_equal(request(ANN_RIGHT), AUTHENTICATION_GOOD);
    assert_true(span_is(scene.transaction.user, SPAN("ann")));
    assert_int_equal(request(ANN_WRONG), AUTHENTICATION_WAITING);
    run();
    assert_int_equal(metric(METRIC_offloaded), 2);
}

static void wrong_password_is_refused_and_not_remembered(void **state)
{
    (void)state;
    assert_int_equal(verify(ANN_WRONG), AUTHENTICATION_NONE);
    assert_int_equal(scene.transaction.user.length, 0);
    assert_true(scene.existed);
    assert_int_equal(metric(METRIC_logins), 0);
    assert_int_equal(metric(METRIC_logins_failed), 1);
    assert_int_equal(scene.resumed, 1);
    assert_int_equal(verify(ANN_WRONG), AUTHENTICATION_NONE);
}

/* It takes the same time: the password of another user is verified. */
static void user_who_does_not_exist_is_refused_after_the_same_work(void **state)
{
    (void)state;
    assert_int_equal(verify(BEN_RIGHT), AUTHENTICATION_NONE);
    assert_false(scene.existed);
    assert_int_equal(metric(METRIC_logins_failed), 1);
}

static void client_with_many_failures_must_wait(void **state)
{
    (void)state;
    assert_int_equal(verify(ANN_RIGHT), AUTHENTICATION_GOOD);
    for (int i = 0; i < FAILURES_A_MINUTE; i++)
        assert_int_equal(verify(ANN_WRONG), AUTHENTICATION_NONE);
    assert_int_equal(metric(METRIC_logins_limited), 0);
    assert_int_equal(request(ANN_WRONG), AUTHENTICATION_LIMITED);
    assert_int_equal(scene.transaction.retry_after_s, 60 / FAILURES_A_MINUTE);
    assert_int_equal(metric(METRIC_logins_limited), 1);
    assert_null(scene.queued);
    assert_int_equal(request(ANN_RIGHT), AUTHENTICATION_GOOD); /* it was right before */
    scene.address[0]++;
    assert_int_equal(verify(ANN_WRONG), AUTHENTICATION_NONE);
}

/* Its address may be named by each request, and so be another when the job is done. */
static void failure_counts_for_the_client_of_its_request(void **state)
{
    (void)state;
    for (int i = 0; i < FAILURES_A_MINUTE; i++) {
        assert_int_equal(request(ANN_WRONG), AUTHENTICATION_WAITING);
        scene.address[0]++;
        run();
        scene.address[0]--;
    }
    assert_int_equal(request(ANN_WRONG), AUTHENTICATION_LIMITED);
}

static void without_a_job_the_server_is_busy(void **state)
{
    (void)state;
    scene.queue_full = true;
    assert_int_equal(request(ANN_RIGHT), AUTHENTICATION_BUSY);
    scene.queue_full = false;
    scene.out_of_memory = true;
    assert_int_equal(request(ANN_RIGHT), AUTHENTICATION_BUSY);
    scene.out_of_memory = false;
    assert_int_equal(process(ANN_RIGHT, false), AUTHENTICATION_BUSY);
    assert_null(scene.queued);
    assert_int_equal(metric(METRIC_offloaded), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(request_without_valid_credentials_is_refused),
        TEST(request_waits_until_its_password_is_verified),
        TEST(right_password_is_remembered),
        TEST(wrong_password_is_refused_and_not_remembered),
        TEST(user_who_does_not_exist_is_refused_after_the_same_work),
        TEST(client_with_many_failures_must_wait),
        TEST(failure_counts_for_the_client_of_its_request),
        TEST(without_a_job_the_server_is_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
