#include "common/clock.h"
#include "common/macros.h"
#include "daemon/base/offload.h"
#include "tests/test.h"

#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 2000, DEADLINE_MS = 60000 };

static struct segment_worker block;
static struct mailbox mailbox;
static int finished; /* jobs that have come back */
static sem_t gate;   /* jobs that wait for it block their thread */
static _Atomic int running;

struct work {
    struct offload_job job;
    int number;
    bool done;
};

static void run_at_once(struct offload_job *job)
{
    CONTAINER_OF(job, struct work, job)->done = true;
}

static void run_at_the_gate(struct offload_job *job)
{
    atomic_fetch_add(&running, 1);
    sem_wait(&gate);
    atomic_fetch_sub(&running, 1);
    run_at_once(job);
}

static void count_finished(struct offload_job *job)
{
    assert_true(CONTAINER_OF(job, struct work, job)->done);
    finished++;
}

static void prepare(struct work *work, void (*run)(struct offload_job *job), int number)
{
    *work = (struct work){.job = {.run = run,
                                  .finish = count_finished,
                                  .work = SPAN("/some/file"),
                                  .state = THREAD_STATE_FILE,
                                  .owner = &mailbox},
                          .number = number};
}

static int set_up(void **state)
{
    (void)state;
    memset(&block, 0, sizeof(block));
    atomic_store(&running, 0);
    return sem_init(&gate, 0, 0) == 0 && mailbox_open(&mailbox, 0, NULL) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    mailbox_close(&mailbox);
    return sem_destroy(&gate);
}

const struct test_fixture test_fixture = {set_up, tear_down};

/* Receives COUNT finished jobs by the mailbox; each must have run. */
static void collect(int count)
{
    finished = 0;
    while (finished < count) {
        struct pollfd wait = {.fd = mailbox.eventfd, .events = POLLIN};

        assert_int_equal(poll(&wait, 1, DEADLINE_MS), 1);
        mailbox_deliver(&mailbox, NULL);
    }
    assert_int_equal(finished, count);
}

static void wait_until_running(int count)
{
    uint64_t deadline = clock_monotonic_ns() + DEADLINE_MS * NS_PER_MS;

    while (atomic_load(&running) != count) {
        assert_true(clock_monotonic_ns() < deadline);
        usleep(1000);
    }
}

static void wait_until_threads(const struct offload *offload, uint32_t count)
{
    uint64_t deadline = clock_monotonic_ns() + DEADLINE_MS * NS_PER_MS;

    while (offload_actual(offload) != count) {
        assert_true(clock_monotonic_ns() < deadline);
        usleep(1000);
    }
}

TEST(job_runs_once_and_comes_back)
{
    struct offload *offload = offload_start(16, 2, 4, &block);
    struct work *work = calloc(MANY, sizeof(*work));

    assert_non_null(offload);
    for (int i = 0; i < MANY; i++) {
        prepare(&work[i], run_at_once, i);
        while (!offload_submit(offload, &work[i].job, clock_monotonic_ns()))
            usleep(100);
    }
    collect(MANY);
    offload_stop(offload);
    assert_int_equal(metric_get(block.metrics, METRIC_offload_jobs), MANY);
    assert_int_equal(metric_get(block.metrics, METRIC_offload_queue_depth), 0);
    free(work);
}

TEST(full_queue_rejects_job)
{
    struct offload *offload = offload_start(3, 1, 1, &block);
    struct work work[5];

    for (int i = 0; i < 5; i++)
        prepare(&work[i], run_at_the_gate, i);
    assert_true(offload_submit(offload, &work[0].job, clock_monotonic_ns()));
    wait_until_running(1); /* no longer queued: three places are free */
    for (int i = 1; i <= 3; i++)
        assert_true(offload_submit(offload, &work[i].job, clock_monotonic_ns()));
    assert_int_equal(metric_get(block.metrics, METRIC_offload_queue_depth), 3);
    assert_false(offload_submit(offload, &work[4].job, clock_monotonic_ns()));
    for (int i = 0; i < 4; i++)
        sem_post(&gate);
    collect(4);
    sem_post(&gate);
    assert_true(offload_submit(offload, &work[4].job, clock_monotonic_ns()));
    collect(1);
    offload_stop(offload);
}

/* A job that waits too long starts another thread, up to the maximum. */
TEST(long_wait_starts_thread)
{
    struct offload *offload = offload_start(16, 1, 3, &block);
    struct work work[6];

    for (int i = 0; i < 6; i++) {
        prepare(&work[i], run_at_the_gate, i);
        /* according to its queued_ns it has waited long */
        assert_true(offload_submit(offload, &work[i].job,
                                   clock_monotonic_ns() - 10 * OFFLOAD_GROW_WAIT_NS));
    }
    wait_until_running(3);
    assert_int_equal(offload_actual(offload), 3);
    for (int i = 0; i < 6; i++)
        sem_post(&gate);
    collect(6);
    offload_stop(offload);
}

/*
 * All threads are blocked, so none takes the job and sees its waiting time; the next submit or
 * refill does.
 */
TEST(blocked_threads_do_not_prevent_growth)
{
    for (int looks = 0; looks < 2; looks++) {
        struct offload *offload = offload_start(16, 1, 2, &block);
        struct work work[3];
        int count = looks ? 2 : 3;

        assert_non_null(offload);
        for (int i = 0; i < count; i++)
            prepare(&work[i], run_at_the_gate, i);
        /* The first job never counts as waiting: its queued_ns is in the future. */
        assert_true(offload_submit(offload, &work[0].job, clock_monotonic_ns() + 3600 * NS_PER_S));
        wait_until_running(1);
        assert_true(
            offload_submit(offload, &work[1].job, clock_monotonic_ns() - 2 * OFFLOAD_GROW_WAIT_NS));
        assert_int_equal(offload_actual(offload), 1);
        if (looks)
            offload_refill(offload, clock_monotonic_ns());
        else
            assert_true(offload_submit(offload, &work[2].job, clock_monotonic_ns()));
        wait_until_running(2);
        for (int i = 0; i < count; i++)
            sem_post(&gate);
        collect(count);
        offload_stop(offload);
    }
}

TEST(resize_changes_number_of_threads)
{
    struct offload *offload = offload_start(16, 2, 2, &block);

    assert_int_equal(offload_actual(offload), 2);
    offload_resize(offload, 5, 8);
    assert_int_equal(offload_actual(offload), 5);
    offload_resize(offload, 1, 1);
    wait_until_threads(offload, 1);
    offload_resize(offload, 3, 3);
    assert_int_equal(offload_actual(offload), 3);
    offload_stop(offload);
    for (int i = 0; i < SEGMENT_OFFLOAD_THREADS; i++)
        assert_int_equal(block.offload[i].state, THREAD_STATE_NONE);
}

/* The work of an offload thread is visible to consoles. */
TEST(work_is_published)
{
    struct offload *offload = offload_start(4, 1, 1, &block);
    struct work work;
    char text[SEGMENT_WORK_WORDS * 8];

    prepare(&work, run_at_the_gate, 0);
    assert_true(offload_submit(offload, &work.job, clock_monotonic_ns()));
    wait_until_running(1);
    segment_load_text(block.offload[0].work, SEGMENT_WORK_WORDS, text);
    assert_string_equal(text, "/some/file");
    assert_int_equal(block.offload[0].state, THREAD_STATE_FILE);
    sem_post(&gate);
    collect(1);
    offload_stop(offload);
}

TEST(stop_finishes_queued_jobs)
{
    struct offload *offload = offload_start(100, 2, 2, &block);
    struct work work[100];

    for (int i = 0; i < 100; i++) {
        prepare(&work[i], run_at_once, i);
        assert_true(offload_submit(offload, &work[i].job, clock_monotonic_ns()));
    }
    offload_stop(offload);
    collect(100);
}
