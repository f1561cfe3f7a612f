/*
 * The actions that end a master: what each asks of workers, logger and metrics process, and when nothing
 * is awaited any more. The modules that they call are replaced; each call is recorded.
 */
#include "daemon/master/shutdown.h"
#include "tests/unit/logged_event.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/recorded_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

enum { DRAIN_MS = 30000, STOP_GRACE_MS = 3000 };

static struct {
    bool logger_finished;
    bool metrics_left;
    uint64_t unwritten; /* lines */
    void (*arrived)(void *context);
    struct server server;
    struct config config;
    struct shutdown shutdown;
} scene;

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
#define RECORD(function, type, call)                                                               \
    void __wrap_##function(type *unused);                                                          \
    void __wrap_##function(type *unused)                                                           \
    {                                                                                              \
        (void)unused;                                                                              \
        record("%s", call);                                                                        \
    }

RECORD(rebalance_stop, struct rebalance, "stop moves")
RECORD(dispatch_flush, struct dispatch, "pass on the queue")
RECORD(dispatch_take_all, struct dispatch, "take all")
RECORD(dispatch_stop_accepting, struct dispatch, "accept no more")
RECORD(listeners_close, struct listeners, "close listeners")
RECORD(supervisor_stop_workers, struct supervisor, "stop workers")
RECORD(supervisor_finish_workers, struct supervisor, "finish workers")
RECORD(supervisor_retire_workers, struct supervisor, "retire workers")
RECORD(workers_kill, const struct workers, "kill workers")
RECORD(auxiliary_release_metrics, struct auxiliary, "release metrics")
RECORD(auxiliary_give_up_logger, struct auxiliary, "give up logger")

int __wrap_event_base_loopbreak(struct event_base *base);
void __wrap_rebalance_await(struct rebalance *rebalance, uint64_t most_ms,
                            void (*arrived)(void *context), void *context);
void __wrap_lifecycle_set_deadline(struct lifecycle *life, uint64_t ms);
void __wrap_lifecycle_report(struct lifecycle *life, enum life_event event);
void __wrap_auxiliary_end_metrics(struct auxiliary *auxiliary);
bool __wrap_auxiliary_metrics_has_left(const struct auxiliary *auxiliary);
void __wrap_auxiliary_stop_logger(struct auxiliary *auxiliary, uint32_t wait_ms);
bool __wrap_auxiliary_logger_has_finished(const struct auxiliary *auxiliary);
uint64_t __wrap_auxiliary_unwritten_lines(const struct auxiliary *auxiliary);

int __wrap_event_base_loopbreak(struct event_base *base)
{
    (void)base;
    record("end the loop");
    return 0;
}

void __wrap_rebalance_await(struct rebalance *rebalance, uint64_t most_ms,
                            void (*arrived)(void *context), void *context)
{
    (void)rebalance;
    assert_ptr_equal(context, &scene.shutdown);
    record("await moves %u ms", (unsigned)most_ms);
    scene.arrived = arrived;
}

void __wrap_lifecycle_set_deadline(struct lifecycle *life, uint64_t ms)
{
    (void)life;
    record("deadline %u ms", (unsigned)ms);
}

void __wrap_lifecycle_report(struct lifecycle *life, enum life_event event)
{
    (void)life;
    assert_int_equal(event, EVENT_flushed);
    record("flushed");
}

void __wrap_auxiliary_end_metrics(struct auxiliary *auxiliary)
{
    (void)auxiliary;
    record("end metrics");
    scene.metrics_left = true;
}

bool __wrap_auxiliary_metrics_has_left(const struct auxiliary *auxiliary)
{
    (void)auxiliary;
    return scene.metrics_left;
}

void __wrap_auxiliary_stop_logger(struct auxiliary *auxiliary, uint32_t wait_ms)
{
    (void)auxiliary;
    record("stop logger within %u ms", (unsigned)wait_ms);
}

bool __wrap_auxiliary_logger_has_finished(const struct auxiliary *auxiliary)
{
    (void)auxiliary;
    return scene.logger_finished;
}

uint64_t __wrap_auxiliary_unwritten_lines(const struct auxiliary *auxiliary)
{
    (void)auxiliary;
    return scene.unwritten;
}
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    forget_calls();
    scene.config.workers_drain_timeout = DRAIN_MS;
    scene.config.workers_stop_grace = STOP_GRACE_MS;
    scene.server.config = &scene.config;
    scene.shutdown.server = &scene.server;
    return own_segment_create(&scene.server.segment, (struct segment_plan){0});
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&scene.server.segment);
    return 0;
}

static bool is_stopping(void)
{
    return atomic_load(&segment_master(&scene.server.segment)->stopping) == 1;
}

/* Calls what waits until all connections on their way have arrived. */
static void arrive(void)
{
    assert_non_null(scene.arrived);
    scene.arrived(&scene.shutdown);
}

/* --- Workers --- */

static void stop_waits_for_requests_on_their_way(void **state)
{
    (void)state;
    assert_int_equal(shutdown_begin(&scene.shutdown), 0);
    expect_calls("stop moves, stop workers, deadline 3000 ms");
    assert_true(is_stopping());
    assert_string_equal(logged, "stopping: finishing open requests");
    assert_int_equal(shutdown_finish(&scene.shutdown), 0);
    expect_calls("await moves 5000 ms");
    arrive();
    expect_calls("take all, accept no more, close listeners, finish workers, deadline 32000 ms");
    assert_null(scene.server.listeners);
}

static void retirement_passes_on_the_queue(void **state)
{
    (void)state;
    assert_int_equal(shutdown_retire(&scene.shutdown), 0);
    expect_calls("await moves 30000 ms");
    assert_true(is_stopping());
    arrive();
    expect_calls("pass on the queue, accept no more, close listeners, retire workers, "
                 "deadline 32000 ms");
    scene.config.workers_drain_timeout = 0;
    shutdown_retire(&scene.shutdown);
    expect_calls("await moves 5000 ms");
}

static void workers_are_killed_when_they_are_late_or_forced(void **state)
{
    (void)state;
    assert_int_equal(shutdown_kill_workers(&scene.shutdown), 0);
    expect_calls("kill workers");
    assert_non_null(strstr(logged, "within workers.drain_timeout"));
    assert_int_equal(shutdown_force(&scene.shutdown), 0);
    expect_calls("stop moves, accept no more, close listeners, finish workers, kill workers");
    assert_non_null(strstr(logged, "stopping now"));
}

/* --- Logger and metrics process --- */

static void logger_may_wait_unless_the_stop_is_forced(void **state)
{
    (void)state;
    assert_int_equal(shutdown_flush(&scene.shutdown), 0);
    expect_calls("stop moves, accept no more, close listeners, release metrics, "
                 "stop logger within 30000 ms, deadline 35000 ms");
    assert_string_equal(logged, "stopped");
    shutdown_force(&scene.shutdown);
    forget_calls();
    assert_int_equal(shutdown_flush(&scene.shutdown), 0);
    expect_calls("stop moves, accept no more, close listeners, release metrics, "
                 "stop logger within 0 ms, deadline 5000 ms");
    assert_int_equal(shutdown_hasten_logger(&scene.shutdown), 0);
    expect_calls("end metrics, stop logger within 0 ms, deadline 5000 ms");
    scene.logger_finished = true;
    assert_int_equal(shutdown_hasten_logger(&scene.shutdown), 0);
    expect_calls("end metrics, flushed");
}

static void stop_does_not_wait_for_requests_for_metrics(void **state)
{
    (void)state;
    assert_false(shutdown_is_flushed(&scene.shutdown));
    scene.logger_finished = true;
    assert_true(shutdown_is_flushed(&scene.shutdown));
}

static void retirement_waits_for_requests_for_metrics(void **state)
{
    (void)state;
    shutdown_retire(&scene.shutdown);
    scene.metrics_left = true;
    assert_false(shutdown_is_flushed(&scene.shutdown));
    scene.metrics_left = false;
    scene.logger_finished = true;
    assert_false(shutdown_is_flushed(&scene.shutdown));
    scene.metrics_left = true;
    assert_true(shutdown_is_flushed(&scene.shutdown));
}

static void stop_ends_the_wait_for_requests_for_metrics(void **state)
{
    (void)state;
    scene.logger_finished = true;
    shutdown_retire(&scene.shutdown);
    shutdown_begin(&scene.shutdown);
    assert_true(shutdown_is_flushed(&scene.shutdown));
    shutdown_retire(&scene.shutdown);
    shutdown_force(&scene.shutdown);
    assert_true(shutdown_is_flushed(&scene.shutdown));
    shutdown_retire(&scene.shutdown);
    forget_calls();
    assert_int_equal(shutdown_end_metrics(&scene.shutdown), 0);
    expect_calls("end metrics, flushed");
}

/* The logger's end is reported when the master learns of it. */
static void end_of_metrics_does_not_end_the_wait_for_the_logger(void **state)
{
    (void)state;
    shutdown_retire(&scene.shutdown);
    forget_calls();
    assert_int_equal(shutdown_end_metrics(&scene.shutdown), 0);
    expect_calls("end metrics");
    assert_int_equal(shutdown_kill_both(&scene.shutdown), 0);
    expect_calls("end metrics, give up logger");
    scene.logger_finished = true;
    assert_int_equal(shutdown_kill_both(&scene.shutdown), 0);
    expect_calls("end metrics, give up logger, flushed");
}

/* --- The end --- */

static void end_reports_lines_that_are_lost(void **state)
{
    (void)state;
    events = 0;
    assert_int_equal(shutdown_end(&scene.shutdown), 0);
    expect_calls("end metrics, end the loop");
    assert_false(scene.shutdown.lost_lines);
    assert_int_equal(events, 0);
    scene.unwritten = 1;
    assert_int_equal(shutdown_end(&scene.shutdown), 0);
    assert_true(scene.shutdown.lost_lines);
    assert_string_equal(logged, "stopped without 1 line of the access log");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(stop_waits_for_requests_on_their_way),
        TEST(retirement_passes_on_the_queue),
        TEST(workers_are_killed_when_they_are_late_or_forced),
        TEST(logger_may_wait_unless_the_stop_is_forced),
        TEST(stop_does_not_wait_for_requests_for_metrics),
        TEST(retirement_waits_for_requests_for_metrics),
        TEST(stop_ends_the_wait_for_requests_for_metrics),
        TEST(end_of_metrics_does_not_end_the_wait_for_the_logger),
        TEST(end_reports_lines_that_are_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
