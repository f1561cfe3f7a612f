/* Attacks with time, memory, descriptors and the life of the worker. */
#include "traitor.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/worker/internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct segment_worker *own_block(const struct traitor *traitor)
{
    return segment_worker(traitor->context->segment, traitor->context->worker_slot);
}

const char *attack_doorbell(const struct traitor *traitor, struct chance *chance)
{
    uint64_t end = attack_end_ns();

    while (clock_monotonic_ns() < end)
        eventfd_write(traitor->doorbell, 1 + chance_below(chance, UINT32_MAX));
    return NULL;
}

static void *spin(void *argument)
{
    uint64_t end = clock_monotonic_ns() + NS_PER_S;

    while (clock_monotonic_ns() < end)
        continue;
    return argument;
}

const char *attack_spin(const struct traitor *traitor, struct chance *chance)
{
    pthread_t threads[16];
    size_t count = 0;

    (void)traitor, (void)chance;
    while (count < ARRAY_LENGTH(threads) && pthread_create(&threads[count], NULL, spin, NULL) == 0)
        count++;
    while (count > 0)
        pthread_join(threads[--count], NULL);
    return NULL;
}

static void *sleep_long(void *argument)
{
    sleep(60);
    return argument;
}

/* The master notices within a second or two. */
const char *attack_many_threads(const struct traitor *traitor, struct chance *chance)
{
    enum { MANY = 500, SMALL_STACK = 256 * 1024 };
    pthread_attr_t small;
    pthread_t thread;

    (void)traitor, (void)chance;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, SMALL_STACK);
    for (int i = 0; i < MANY; i++)
        pthread_create(&thread, &small, sleep_long, NULL);
    sleep(30);
    return "the worker lives on with all its threads";
}

const char *attack_much_memory(const struct traitor *traitor, struct chance *chance)
{
    enum { PIECES = 64, PIECE = 4 * 1024 * 1024 };
    char *piece[PIECES];

    (void)traitor;
    for (int i = 0; i < PIECES; i++) {
        piece[i] = malloc(PIECE);
        if (piece[i] != NULL)
            memset(piece[i], (int)chance_number(chance), PIECE);
    }
    for (int i = 0; i < PIECES; i++)
        free(piece[i]);
    return NULL;
}

const char *attack_many_descriptors(const struct traitor *traitor, struct chance *chance)
{
    static int fds[1 << 16];
    size_t count = 0;

    (void)traitor, (void)chance;
    while (count < ARRAY_LENGTH(fds) && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    usleep(200000);
    while (count > 0)
        close(fds[--count]);
    return NULL;
}

/* Runs on the main thread, while the thread of the traitor goes on. */
static void sleep_in_handler(int number)
{
    struct timespec time = {.tv_sec = 2};

    (void)number;
    nanosleep(&time, NULL);
}

static void signal_main_thread(int number)
{
    syscall(SYS_tgkill, getpid(), getpid(), number);
}

const char *attack_deaf(const struct traitor *traitor, struct chance *chance)
{
    const struct sigaction action = {.sa_handler = sleep_in_handler};
    uint64_t end = clock_monotonic_ns() + 2 * NS_PER_S;

    (void)chance;
    sigaction(SIGUSR1, &action, NULL);
    signal_main_thread(SIGUSR1);
    while (clock_monotonic_ns() < end) {
        own_block(traitor)->heartbeat_ns = clock_monotonic_ns();
        usleep(10000);
    }
    return NULL;
}

const char *attack_hang(const struct traitor *traitor, struct chance *chance)
{
    (void)traitor, (void)chance;
    signal_main_thread(SIGSTOP);
    return NULL;
}

const char *attack_hang_in_future(const struct traitor *traitor, struct chance *chance)
{
    own_block(traitor)->heartbeat_ns =
        chance_below(chance, 2) == 0 ? UINT64_MAX : clock_monotonic_ns() + 3600 * NS_PER_S;
    return attack_hang(traitor, chance);
}

/* On a serving thread, which serves nothing from then on. */
static void sleep_for_ever(struct mailbox_item *item, void *receiver)
{
    (void)item, (void)receiver;
    for (;;)
        sleep(60);
}

const char *attack_hung_threads(const struct traitor *traitor, struct chance *chance)
{
    static struct mailbox_item items[64];
    const struct worker *worker =
        (const struct worker *)((const char *)traitor->context - offsetof(struct worker, context));

    (void)chance;
    for (uint32_t i = 0; i < worker->count && i < ARRAY_LENGTH(items); i++)
        mailbox_post(&worker->threads[i]->loop.mailbox, &items[i], sleep_for_ever);
    for (;;) {
        own_block(traitor)->heartbeat_ns = clock_monotonic_ns();
        usleep(10000);
    }
    return NULL;
}

const char *attack_exit(const struct traitor *traitor, struct chance *chance)
{
    (void)traitor, (void)chance;
    _exit(EXIT_SUCCESS);
}

const char *attack_abort(const struct traitor *traitor, struct chance *chance)
{
    (void)traitor, (void)chance;
    abort();
}

const char *attack_half_written(const struct traitor *traitor, struct chance *chance)
{
    const struct segment *segment = traitor->context->segment;
    uint32_t slot = traitor->context->worker_slot;
    uint32_t thread = slot * segment_threads_per_worker(segment);
    const struct log_ring ring = segment_ring(segment, thread);
    const struct event_ring events = segment_event_ring(segment, SEGMENT_RING_WORKERS + slot);

    ring.words->claimed += chance_below(chance, ring.capacity);
    events.shared->next++;
    segment_thread(segment, thread)->activity.sequence |= 1;
    segment_cache(segment, slot)->sequence |= 1;
    segment_rate_bucket(segment, 0)->claimed_ns = clock_monotonic_ns();
    segment_rate_bucket(segment, 0)->entry[0].time_ns = SEGMENT_RATE_CHANGING;
    _exit(EXIT_FAILURE);
}
