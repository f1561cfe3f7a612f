/* When the watchdog kills a worker. Its clock is that of the test. */
#include "tests/unit/daemon/master/scene.h"

#include "common/clock.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { HEARTBEAT_S = 3, DRAIN_S = 1, GRACE_S = WATCHDOG_GRACE_MS / 1000, SECONDS = 12 };

/* The worker in slot 0, whose process only waits. */
static struct worker_process *worker;

static void *wait_for_end(void *argument)
{
    pause();
    return argument;
}

static pid_t fork_with_threads(uint32_t threads)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork(); /* it does not inherit the channels */
    if (pid == 0) {
        pthread_t thread;

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if a check fails */
        for (uint32_t i = 1; i < threads; i++)
            if (pthread_create(&thread, NULL, wait_for_end, NULL) != 0)
                _exit(1);
        close(ready[1]);
        pause();
        _exit(0);
    }
    assert_true(pid > 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0);
    close(ready[0]);
    return pid;
}

static void open_scene(enum worker_state state, uint32_t threads)
{
    pid_t pid = fork_with_threads(threads);

    assert_int_equal(scene_begin(WORKER_NONE), 0);
    master.config->workers_heartbeat_timeout = HEARTBEAT_S * 1000;
    master.config->workers_drain_timeout = DRAIN_S * 1000;
    worker = &master.workers.worker[0];
    worker->pid = pid;
    worker->state = state;
}

static void close_scene(void)
{
    pid_t pid = worker->pid;
    int status;

    if (worker->killed_for == NULL)
        kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    scene_end(NULL);
}

/* What a worker does every second with the questions of the master. */
enum answers {
    ALL_ANSWER,
    NONE_ANSWERS,
    MAIN_IS_SILENT,
    THREAD_IS_SILENT,
    FIRST_ONLY,
    HEARTBEAT_ONLY
};

static void answer(enum answers answers, uint64_t second, uint64_t now_ns)
{
    struct segment_worker *block = segment_worker(&master.segment, 0);
    uint64_t question = atomic_load(&segment_master(&master.segment)->question);

    if (answers == NONE_ANSWERS || (answers == FIRST_ONLY && second > 1))
        return;
    atomic_store(&block->heartbeat_ns, now_ns);
    if (answers == HEARTBEAT_ONLY)
        question++;
    if (answers != MAIN_IS_SILENT)
        atomic_store(&block->answer, question);
    for (uint32_t i = 0; i < SCENE_THREADS; i++)
        if (answers != THREAD_IS_SILENT || i == 0)
            atomic_store(&segment_thread(&master.segment, i)->answer, question);
}

/* Checks every STEP_S seconds. Returns the second in which the worker was killed; 0: it was not. */
static uint64_t killed_after(unsigned step_s, enum answers answers)
{
    uint64_t begin_ns = clock_monotonic_ns() - (uint64_t)SECONDS * NS_PER_S;

    worker->started_ns = worker->answered_ns = begin_ns;
    worker->threads_sent = worker->threads_actual = SCENE_THREADS;
    if (worker->state == WORKER_LEAVING)
        worker->leaving_ns = begin_ns;
    for (uint64_t second = 0; second < SECONDS; second += step_s) {
        uint64_t now_ns = begin_ns + second * NS_PER_S;

        answer(answers, second, now_ns);
        supervisor_check(&master, now_ns);
        if (worker->killed_for != NULL)
            return second;
    }
    return 0;
}

TEST(hung_worker_is_killed)
{
    static const struct {
        const char *what;
        enum worker_state state;
        enum answers answers;
        bool closes;
        uint64_t killed_after;
    } cases[] = {
        {"serves", WORKER_SERVING, ALL_ANSWER, false, 0},
        {"does not answer", WORKER_SERVING, NONE_ANSWERS, false, HEARTBEAT_S + 1},
        {"has a hung main thread", WORKER_SERVING, MAIN_IS_SILENT, false, HEARTBEAT_S + 1},
        {"has a hung thread", WORKER_SERVING, THREAD_IS_SILENT, false, HEARTBEAT_S + 1},
        {"repeats an old answer", WORKER_SERVING, FIRST_ONLY, false, HEARTBEAT_S + 1},
        {"forges heartbeats", WORKER_SERVING, HEARTBEAT_ONLY, false, HEARTBEAT_S + 1},
        {"closes a channel", WORKER_SERVING, ALL_ANSWER, true, HEARTBEAT_S + 1},
        {"does not begin to serve", WORKER_STARTING, ALL_ANSWER, false, HEARTBEAT_S + GRACE_S + 1},
        {"does not begin to leave", WORKER_LEAVING, ALL_ANSWER, false, DRAIN_S + GRACE_S + 1},
        {"leaves thread by thread", WORKER_LEAVING, THREAD_IS_SILENT, false, DRAIN_S + GRACE_S + 1},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t second;

        open_scene(cases[i].state, 1);
        if (cases[i].closes) {
            channel_close(ends[0].commands);
            ends[0].commands = NULL;
            event_base_loop(master.base, EVLOOP_ONCE);
        }
        second = killed_after(1, cases[i].answers);
        if (second != cases[i].killed_after)
            fail_msg("a worker that %s is killed after %lu s, not %lu", cases[i].what,
                     (unsigned long)second, (unsigned long)cases[i].killed_after);
        close_scene();
    }
}

TEST(worker_with_too_many_threads_is_killed)
{
    enum { MOST = SCENE_THREADS + SEGMENT_OFFLOAD_THREADS + 8 };

#ifdef __SANITIZE_THREAD__ /* it adds a thread to each process */
    skip();
#endif
    for (uint32_t extra = 0; extra < 2; extra++) {
        open_scene(WORKER_SERVING, MOST + extra);
        worker->started_ns = worker->answered_ns = clock_monotonic_ns();
        supervisor_check(&master, clock_monotonic_ns());
        assert_int_equal(worker->killed_for != NULL, extra > 0);
        close_scene();
    }
}

TEST(timeout_of_0_kills_no_worker)
{
    open_scene(WORKER_STARTING, 1);
    master.config->workers_heartbeat_timeout = 0;
    assert_int_equal(killed_after(1, NONE_ANSWERS), 0);
    close_scene();
}

/* More than five seconds between two checks: the master was suspended. */
TEST(time_of_a_suspension_does_not_count)
{
    enum { STEP_S = 6 };

    open_scene(WORKER_STARTING, 1);
    assert_int_equal(killed_after(STEP_S, NONE_ANSWERS), 0);
    close_scene();
}

/* A worker that has left its connections finishes responses, with a limit only if there is one. */
TEST(worker_that_left_may_finish)
{
    static const struct {
        uint32_t reload_timeout_s;
        int finishes; /* messages */
        bool late;    /* after an hour there is a warning */
    } cases[] = {{0, 0, false}, {0, 0, true}, {SECONDS + 1, 0, false}, {SECONDS - 2, 1, false}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        open_scene(WORKER_LEAVING, 1);
        worker->left = true;
        master.config->workers_reload_timeout = cases[i].reload_timeout_s * 1000;
        assert_int_equal(killed_after(1, ALL_ANSWER), 0);
        if (cases[i].late) {
            uint64_t later_ns = worker->leaving_ns + UINT64_C(3600) * NS_PER_S;

            master.config->workers_heartbeat_timeout = 0;
            master.monitor.checked_ns = later_ns; /* it was not suspended */
            master.monitor.resumed_ns = 0;
            supervisor_check(&master, later_ns);
            assert_non_null(strstr(scene_last_event(), "has been finishing responses for an hour"));
        }
        assert_int_equal(scene_read(0)->received[MESSAGE_FINISH], cases[i].finishes);
        assert_int_equal(worker->finishing, cases[i].finishes > 0);
        close_scene();
    }
}
