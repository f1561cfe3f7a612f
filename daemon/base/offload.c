#include "daemon/base/offload.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/probes.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct offload_thread {
    struct offload *offload;
    pthread_t id;
    bool running; /* the slot has a thread; guarded by lock */
    bool ended;   /* the thread waits to be joined; guarded by lock */
};

struct offload {
    sem_t places; /* free places in the ring */
    sem_t jobs;   /* counts the jobs in the ring, and wake-ups of threads that should end */
    struct segment_worker *block;
    bool in_submitter; /* jobs run in the thread that submits them */

    pthread_mutex_t lock; /* guards the members below and the block's offload metrics; innermost */
    struct offload_job **ring;
    uint32_t length, first, count;
    uint32_t min, max;
    bool stopping;
    struct offload_thread thread[SEGMENT_OFFLOAD_THREADS];

    _Atomic uint32_t actual;
};

static void *offload_thread_main(void *argument);

uint32_t offload_actual(const struct offload *offload)
{
    return atomic_load_explicit(&offload->actual, memory_order_relaxed);
}

static void set_actual(struct offload *offload, uint32_t actual)
{
    atomic_store_explicit(&offload->actual, actual, memory_order_relaxed);
    atomic_store_explicit(&offload->block->offload_actual, actual, memory_order_relaxed);
}

/* Starts a thread in a free slot, after joining one that ended there. The caller holds the lock. */
static int start_one(struct offload *offload)
{
    for (uint32_t i = 0; i < SEGMENT_OFFLOAD_THREADS; i++) {
        struct offload_thread *thread = &offload->thread[i];
        int failed;

        if (thread->running && !thread->ended)
            continue;
        if (thread->ended)
            pthread_join(thread->id, NULL);
        thread->offload = offload;
        thread->ended = false;
        failed = pthread_create(&thread->id, NULL, offload_thread_main, thread);
        thread->running = failed == 0;
        if (failed == 0)
            set_actual(offload, offload_actual(offload) + 1);
        return failed;
    }
    return EAGAIN;
}

/* True if this thread should end. The caller holds the lock. */
static bool should_leave(const struct offload *offload, bool idle)
{
    uint32_t actual = offload_actual(offload);

    if (offload->stopping)
        return offload->count == 0;
    return actual > offload->max || (idle && actual > offload->min);
}

/*
 * If a job queued at QUEUED_NS waits too long, starts one more thread. The caller holds the lock.
 */
static void start_if_late(struct offload *offload, uint64_t queued_ns, uint64_t now_ns)
{
    if (now_ns > queued_ns + OFFLOAD_GROW_WAIT_NS && !offload->stopping &&
        offload_actual(offload) < offload->max)
        start_one(offload); /* on failure the others continue */
}

/*
 * Checks the oldest job, because blocked threads take no job and so cannot call start_if_late().
 * The caller holds the lock.
 */
static void check_oldest_job(struct offload *offload, uint64_t now_ns)
{
    if (offload->count > 0)
        start_if_late(offload, offload->ring[offload->first]->queued_ns, now_ns);
}

/*
 * Takes the oldest job; NULL if the ring is empty: the semaphore was posted as a wake-up. The
 * caller holds the lock.
 */
static struct offload_job *take_job(struct offload *offload, uint64_t now_ns)
{
    _Atomic uint64_t *metrics = offload->block->metrics;
    struct offload_job *job;

    if (offload->count == 0)
        return NULL;
    job = offload->ring[offload->first];
    offload->first = (offload->first + 1) % offload->length;
    offload->count--;
    sem_post(&offload->places);
    metric_set(metrics, METRIC_offload_queue_depth, offload->count);
    metric_add(metrics, METRIC_offload_wait, now_ns - job->queued_ns);
    metric_add(metrics, METRIC_offload_jobs, 1);
    start_if_late(offload, job->queued_ns, now_ns);
    return job;
}

/* Sleeps until there is a job or a wake-up. Returns false after OFFLOAD_IDLE_NS. */
static bool wait_for_job(struct offload *offload)
{
    struct timespec deadline;
    int result;

    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += (time_t)(OFFLOAD_IDLE_NS / NS_PER_S);
    do
        result = sem_clockwait(&offload->jobs, CLOCK_MONOTONIC, &deadline);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

static void finish_job(struct mailbox_item *item, void *receiver)
{
    struct offload_job *job = CONTAINER_OF(item, struct offload_job, item);

    (void)receiver;
    job->finish(job);
}

static void run_job(struct offload_job *job)
{
    PROBE_OFFLOAD_RUN(job, job->work, job->queued_ns);
    job->run(job);
    PROBE_OFFLOAD_DONE(job);
    mailbox_post(job->owner, &job->item, finish_job);
}

static void run_jobs(struct offload *offload, struct segment_activity *activity)
{
    for (;;) {
        struct offload_job *job;
        bool woken, leave;

        segment_activity_work(activity, THREAD_STATE_QUEUE, clock_monotonic_ns(), "", 0);
        woken = wait_for_job(offload);
        pthread_mutex_lock(&offload->lock);
        /* a thread too many takes none */
        job = woken && (offload->stopping || offload_actual(offload) <= offload->max)
                  ? take_job(offload, clock_monotonic_ns())
                  : NULL;
        leave = job == NULL && should_leave(offload, !woken);
        if (woken && leave)
            sem_post(&offload->jobs); /* the consumed post may have been for a job */
        if (leave)
            set_actual(offload, offload_actual(offload) - 1);
        pthread_mutex_unlock(&offload->lock);
        if (leave)
            return;
        if (job == NULL)
            continue;
        segment_activity_work(activity, job->state, clock_monotonic_ns(), job->work.start,
                              job->work.length);
        run_job(job);
    }
}

static void *offload_thread_main(void *argument)
{
    struct offload_thread *thread = argument;
    struct offload *offload = thread->offload;
    struct segment_activity *activity = &offload->block->offload[thread - offload->thread];

    pthread_setname_np(pthread_self(), "offload");
    atomic_store_explicit(&activity->tid, gettid(), memory_order_relaxed);
    run_jobs(offload, activity);
    segment_activity_clear(activity, clock_monotonic_ns());
    pthread_mutex_lock(&offload->lock);
    thread->ended = true;
    pthread_mutex_unlock(&offload->lock);
    return NULL;
}

/* Returns 0 or an errno. The caller holds the lock. */
static int start_missing(struct offload *offload)
{
    int failed = 0;

    while (failed == 0 && offload_actual(offload) < offload->min)
        failed = start_one(offload);
    return failed;
}

struct offload *offload_start(uint32_t queue_length, uint32_t min, uint32_t max,
                              struct segment_worker *block)
{
    struct offload *offload = calloc(1, sizeof(*offload));
    int failed;

    if (offload == NULL)
        return NULL;
    offload->ring = calloc(queue_length, sizeof(struct offload_job *));
    if (offload->ring == NULL) {
        free(offload);
        return NULL;
    }
    offload->length = queue_length;
    offload->block = block;
    offload->in_submitter = max == 0;
    sem_init(&offload->places, 0, queue_length);
    sem_init(&offload->jobs, 0, 0);
    pthread_mutex_init(&offload->lock, NULL);
    offload->min = min;
    offload->max = max;
    pthread_mutex_lock(&offload->lock);
    failed = start_missing(offload);
    pthread_mutex_unlock(&offload->lock);
    if (failed != 0) {
        offload_stop(offload);
        errno = failed;
        return NULL;
    }
    return offload;
}

bool offload_submit(struct offload *offload, struct offload_job *job, uint64_t now_ns)
{
    job->queued_ns = now_ns;
    if (offload->in_submitter) {
        segment_activity_state(job->activity, job->state, now_ns);
        run_job(job);
        return true;
    }
    if (sem_trywait(&offload->places) != 0)
        return false;
    PROBE_OFFLOAD_QUEUE(job, job->work);
    pthread_mutex_lock(&offload->lock);
    check_oldest_job(offload, now_ns);
    offload->ring[(offload->first + offload->count) % offload->length] = job;
    offload->count++;
    metric_set(offload->block->metrics, METRIC_offload_queue_depth, offload->count);
    pthread_mutex_unlock(&offload->lock);
    sem_post(&offload->jobs);
    return true;
}

void offload_refill(struct offload *offload, uint64_t now_ns)
{
    pthread_mutex_lock(&offload->lock);
    start_missing(offload);
    check_oldest_job(offload, now_ns);
    pthread_mutex_unlock(&offload->lock);
}

void offload_resize(struct offload *offload, uint32_t min, uint32_t max)
{
    uint32_t actual;

    pthread_mutex_lock(&offload->lock);
    offload->min = min;
    offload->max = max;
    start_missing(offload);
    actual = offload_actual(offload);
    pthread_mutex_unlock(&offload->lock);
    for (; actual > max; actual--)
        sem_post(&offload->jobs);
}

void offload_stop(struct offload *offload)
{
    pthread_mutex_lock(&offload->lock);
    offload->stopping = true;
    pthread_mutex_unlock(&offload->lock);
    for (uint32_t i = 0; i < SEGMENT_OFFLOAD_THREADS; i++)
        sem_post(&offload->jobs);
    for (uint32_t i = 0; i < SEGMENT_OFFLOAD_THREADS; i++)
        if (offload->thread[i].running)
            pthread_join(offload->thread[i].id, NULL);
    sem_destroy(&offload->places);
    sem_destroy(&offload->jobs);
    pthread_mutex_destroy(&offload->lock);
    free(offload->ring);
    free(offload);
}
