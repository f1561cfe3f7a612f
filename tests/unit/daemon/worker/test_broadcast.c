/* Commands of the master to all threads of a worker: the entries they remove, and when the worker reports completion. */
#include "daemon/worker/broadcast.h"

#include "common/macros.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serving_threads.h"
#include "tests/unit/own_cache.h"

enum { NUMBER = 77 };

static struct {
    struct own_cache own;
    struct mailbox main;
    struct worker_context worker;
    struct message_command_done report; /* the last one */
    unsigned reports;
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTNEXTLINE(clang-diagnostic-reserved-identifier): a name of the linker */
int __wrap_channel_send(struct channel *channel, int kind, const void *data, size_t length, int fd,
                        bool give);

int __wrap_channel_send(struct channel *channel, int kind, const void *data, size_t length, int fd,
                        bool give)
{
    (void)channel, (void)give;
    assert_int_equal(kind, MESSAGE_COMMAND_DONE);
    assert_int_equal(length, sizeof(scene.report));
    assert_int_equal(fd, -1);
    memcpy(&scene.report, data, length);
    scene.reports++;
    return 0;
}

/* The cache has /a, /b/1 and /b/2. */
static void open_scene(void)
{
    memset(&scene, 0, sizeof(scene));
    own_cache_open(&scene.own, own_cache_forget);
    scene.worker.cache = scene.own.cache;
    scene.worker.main = &scene.main;
    assert_int_equal(mailbox_open(&scene.main, 0, NULL), 0);
    assert_true(own_cache_put(&scene.own, "/a", KIB));
    assert_true(own_cache_put(&scene.own, "/b/1", KIB));
    assert_true(own_cache_put(&scene.own, "/b/2", KIB));
    open_threads(&scene.worker);
}

static void close_scene(void)
{
    close_threads();
    mailbox_close(&scene.main);
    own_cache_close(&scene.own);
}

static void begin(uint32_t count, enum worker_command what, uint64_t value, const char *path)
{
    struct message_command *message = calloc(1, sizeof(*message) + strlen(path) + 1);

    assert_non_null(message);
    message->number = NUMBER;
    message->value = value;
    message->what = what;
    memcpy(message->path, path, strlen(path) + 1);
    broadcast_begin(&scene.worker, threads, count, message, NULL);
    free(message);
}

static void sweep(uint32_t number)
{
    mailbox_deliver(&thread[number].loop.mailbox, &thread[number].loop);
    mailbox_deliver(&scene.main, NULL);
}

static void expect_report(uint64_t affected)
{
    assert_int_equal(scene.reports, 1);
    assert_int_equal(scene.report.number, NUMBER);
    assert_int_equal(scene.report.affected, affected);
    scene.reports = 0;
}

static void report_follows_the_last_thread(void **state)
{
    (void)state;
    open_scene();
    begin(THREADS, COMMAND_CACHE_FLUSH, 0, "");
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(scene.reports, 0);
        sweep(i);
    }
    expect_report(3);
    close_scene();
}

static void without_threads_it_follows_at_once(void **state)
{
    (void)state;
    open_scene();
    begin(0, COMMAND_CACHE_PURGE, 0, "/b/");
    expect_report(2);
    close_scene();
}

static void each_command_changes_the_cache(void **state)
{
    (void)state;
    open_scene();
    begin(0, COMMAND_CACHE_PURGE, 0, "/a");
    expect_report(1);
    begin(0, COMMAND_CACHE_SIZE, 3 * KIB / 2, "");
    expect_report(1);
    begin(0, COMMAND_CACHE_POLICY, POLICY_SIEVE, "");
    expect_report(0);
    begin(0, COMMAND_CACHE_FLUSH, 0, "");
    expect_report(1);
    close_scene();
}

static void worker_without_a_cache_only_sweeps(void **state)
{
    struct cache *cache;

    (void)state;
    open_scene();
    cache = scene.worker.cache;
    scene.worker.cache = NULL;
    begin(1, COMMAND_CACHE_FLUSH, 0, "");
    assert_int_equal(scene.reports, 0);
    sweep(0);
    expect_report(0);
    scene.worker.cache = cache;
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_follows_the_last_thread),
        cmocka_unit_test(without_threads_it_follows_at_once),
        cmocka_unit_test(each_command_changes_the_cache),
        cmocka_unit_test(worker_without_a_cache_only_sweeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
