/* When the watchdog kills a worker. Its clock is that of the test. */
#include "common/clock.h"
#include "common/macros.h"
#include "daemon/master/watchdog.h"
#include "daemon/master/workers.h"
#include "tests/unit/own_segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { HEARTBEAT_S = 3, DRAIN_S = 1, GRACE_S = WATCHDOG_GRACE_MS / 1000, SECONDS = 12 };

/* A worker as the master sees it. Its process only waits. */
struct scene {
    struct segment segment;
    struct config config;
    struct server server;
    struct worker_process worker;
    struct workers workers;
    struct auxiliary auxiliary;
    struct watchdog watchdog;
    struct event_base *base;
    int ends[2]; /* the worker's ends of its channels */
};

static struct channel *open_channel(struct scene *scene, enum message_route route, int *end)
{
    const struct channel_owner owner = {.closed = child_ignore_closed};
    struct channel *channel;
    int fds[2];

    assert_int_equal(channel_pair(fds), 0);
    channel = channel_open(scene->base, fds[0], route, &owner);
    assert_non_null(channel);
    *end = fds[1];
    return channel;
}

static void open_scene(struct scene *scene, enum worker_state state)
{
    const struct segment_plan plan = {.max_workers = 1};

    *scene = (struct scene){.base = event_base_new()};
    assert_non_null(scene->base);
    scene->worker.pid = fork(); /* it does not inherit the channels */
    if (scene->worker.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if a check fails */
        pause();
        _exit(0);
    }
    assert_true(scene->worker.pid > 0);
    assert_int_equal(own_segment_create(&scene->segment, plan), 0);
    assert_int_equal(segment_reserve_worker(&scene->segment, 0), 0);
    scene->config.workers_heartbeat_timeout = HEARTBEAT_S * 1000;
    scene->config.workers_drain_timeout = DRAIN_S * 1000;
    scene->server.config = &scene->config;
    scene->server.segment = scene->segment;
    scene->auxiliary.server = &scene->server;
    scene->auxiliary.logger.segment = &scene->segment;
    scene->workers = (struct workers){.worker = &scene->worker, .count = 1};
    scene->worker.state = state;
    scene->worker.commands = open_channel(scene, ROUTE_REPORTS, &scene->ends[0]);
    scene->worker.connections = open_channel(scene, ROUTE_RETURNS, &scene->ends[1]);
}

static void close_scene(struct scene *scene)
{
    int status;

    if (scene->worker.killed_for == NULL)
        kill(scene->worker.pid, SIGKILL);
    assert_int_equal(waitpid(scene->worker.pid, &status, 0), scene->worker.pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    channel_close(scene->worker.commands);
    channel_close(scene->worker.connections);
    for (int i = 0; i < 2; i++)
        if (scene->ends[i] >= 0)
            close(scene->ends[i]);
    event_base_free(scene->base);
    segment_destroy(&scene->segment);
}

/*
 * Checks every STEP_S seconds. Returns the second in which the worker was killed; 0: it was not. The last
 * second is now, because a heartbeat from the future does not count.
 */
static uint64_t killed_after(struct scene *scene, unsigned step_s, bool beats)
{
    uint64_t begin_ns = clock_monotonic_ns() - (uint64_t)SECONDS * NS_PER_S;

    scene->worker.started_ns = begin_ns;
    if (scene->worker.state == WORKER_LEAVING)
        scene->worker.leaving_ns = begin_ns;
    for (uint64_t second = 0; second < SECONDS; second += step_s) {
        uint64_t now_ns = begin_ns + second * NS_PER_S;

        if (beats || second == 0)
            atomic_store(&segment_worker(&scene->segment, 0)->heartbeat_ns, now_ns);
        watchdog_check(&scene->watchdog, &scene->server, &scene->workers, &scene->auxiliary,
                       now_ns);
        if (scene->worker.killed_for != NULL)
            return second;
    }
    return 0;
}

static void hung_worker_is_killed(void **state)
{
    static const struct {
        const char *what;
        enum worker_state state;
        bool beats, closes;
        uint64_t killed_after;
    } cases[] = {
        {"serves", WORKER_SERVING, true, false, 0},
        {"serves without a heartbeat", WORKER_SERVING, false, false, HEARTBEAT_S + 1},
        {"closes a channel", WORKER_SERVING, true, true, HEARTBEAT_S + 1},
        {"does not begin to serve", WORKER_STARTING, true, false, HEARTBEAT_S + GRACE_S + 1},
        {"does not exit", WORKER_LEAVING, true, false, DRAIN_S + GRACE_S + 1},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct scene scene;
        uint64_t second;

        open_scene(&scene, cases[i].state);
        if (cases[i].closes) {
            close(scene.ends[0]);
            scene.ends[0] = -1;
            event_base_loop(scene.base, EVLOOP_ONCE);
        }
        second = killed_after(&scene, 1, cases[i].beats);
        if (second != cases[i].killed_after)
            fail_msg("a worker that %s is killed after %lu s, not %lu", cases[i].what,
                     (unsigned long)second, (unsigned long)cases[i].killed_after);
        close_scene(&scene);
    }
}

static void timeout_of_0_kills_no_worker(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene, WORKER_STARTING);
    scene.config.workers_heartbeat_timeout = 0;
    assert_int_equal(killed_after(&scene, 1, false), 0);
    close_scene(&scene);
}

/* More than five seconds between two checks: the master was suspended. */
static void time_of_a_suspension_does_not_count(void **state)
{
    enum { STEP_S = 6 };
    struct scene scene;

    (void)state;
    open_scene(&scene, WORKER_STARTING);
    assert_int_equal(killed_after(&scene, STEP_S, false), 0);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hung_worker_is_killed),
        cmocka_unit_test(timeout_of_0_kills_no_worker),
        cmocka_unit_test(time_of_a_suspension_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
