/*
 * Four faults of programs with threads, to look at in wsconsole:
 *
 *     locks [-0] [-s SEED] [-t SECONDS] [-n NAME] lost-update | convoy | deadlock | false-sharing
 *
 *   lost-update    4 threads read a counter and write it back plus 1, without a mutex
 *   convoy         4 threads hold one mutex while they work
 *   deadlock       2 threads take two mutexes, each in its own order
 *   false-sharing  2 threads, each on a core of its own, write words of one cache line
 *
 * A unit of work is shown as a request; its line says what the thread has and what it waits for.
 * `wsctl -n NAME fault off` mends the program while it runs, `fault on` breaks it again; -0 begins
 * without the fault. SEED makes the same choices again.
 */
#define WSBOARD_IMPLEMENTATION
#include "wsboard.h"

#include <sched.h>
#include <stdbool.h>

enum { THREADS_MAX = 4, ROUND = 200000, LINE = 64 };

static pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static uint64_t counter, exact, done, last_done_ns;
static uint64_t near_words[2] __attribute__((aligned(64)));
static struct {
    uint64_t word __attribute__((aligned(64)));
} far_words[2];
static int faulty = 1, ended;
static unsigned seed = 1;

static bool is_faulty(void)
{
    return __atomic_load_n(&faulty, __ATOMIC_RELAXED) != 0;
}

/* Shows what the thread does in a unit of work that began at BEGIN_NS. */
static void show(const char *line, uint64_t begin_ns, enum board_state state)
{
    board_begin_at(line, strlen(line), begin_ns);
    board_state(state);
}

static void finish(int status)
{
    board_end(status, 0);
    __atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&last_done_ns, board_now(), __ATOMIC_RELAXED);
}

/* From LEAST to twice as many microseconds. */
static void pause_us(unsigned least, unsigned *random)
{
    usleep(least + (unsigned)rand_r(random) % least);
}

/* Answered 409 if another thread has written since this one has read: its update is lost. */
static void add_one(int number, unsigned *random)
{
    bool locks = !is_faulty(), lost;
    char line[LINE];
    uint64_t read;

    (void)number;
    if (locks)
        board_lock(&mutexes[0]);
    read = __atomic_load_n(&counter, __ATOMIC_RELAXED);
    snprintf(line, sizeof(line), "%llu, exact %llu", (unsigned long long)read,
             (unsigned long long)__atomic_load_n(&exact, __ATOMIC_RELAXED));
    show(line, board_now(), BOARD_COMPUTE);
    pause_us(200, random);
    lost = __atomic_load_n(&counter, __ATOMIC_RELAXED) != read;
    __atomic_store_n(&counter, read + 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&exact, 1, __ATOMIC_RELAXED);
    if (locks)
        pthread_mutex_unlock(&mutexes[0]);
    finish(lost ? 409 : 200);
}

static void form_convoy(int number, unsigned *random)
{
    uint64_t begin_ns = board_now();

    if (is_faulty()) {
        show("waits for the mutex", begin_ns, BOARD_COMPUTE);
        board_lock(&mutexes[0]);
        show("holds the mutex", begin_ns, BOARD_COMPUTE);
        pause_us(1000, random); /* work that needs no mutex */
    } else {
        show("works", begin_ns, BOARD_COMPUTE);
        pause_us(1000, random);
        board_lock(&mutexes[0]);
    }
    counter++;
    pthread_mutex_unlock(&mutexes[0]);
    (void)number;
    finish(200);
}

static void take_both(int number, unsigned *random)
{
    static const char *const lines[2][3] = {{"waits for a", "has a", "has a, waits for b"},
                                            {"waits for b", "has b", "has b, waits for a"}};
    int first = is_faulty() ? number : 0;
    uint64_t begin_ns = board_now();

    show(lines[first][0], begin_ns, BOARD_COMPUTE);
    board_lock(&mutexes[first]);
    show(lines[first][1], begin_ns, BOARD_COMPUTE);
    pause_us(1000, random);
    show(lines[first][2], begin_ns, BOARD_COMPUTE);
    board_lock(&mutexes[1 - first]);
    show("has a and b", begin_ns, BOARD_COMPUTE);
    pthread_mutex_unlock(&mutexes[1 - first]);
    pthread_mutex_unlock(&mutexes[first]);
    finish(200);
    pause_us(1000, random);
}

static void write_words(int number, unsigned *random)
{
    bool near = is_faulty();
    volatile uint64_t *word = near ? &near_words[number] : &far_words[number].word;
    int round = ROUND + rand_r(random) % 1000;

    show(near ? "writes the shared line" : "writes its own line", board_now(), BOARD_COMPUTE);
    for (int i = 0; i < round; i++)
        *word = *word + 1;
    finish(200);
}

static const struct {
    const char *name;
    void (*work)(int number, unsigned *random);
    int threads;
} faults[] = {{"lost-update", add_one, 4},
              {"convoy", form_convoy, 4},
              {"deadlock", take_both, 2},
              {"false-sharing", write_words, 2}};

static size_t fault;

/* Keeps the calling thread on core NUMBER of those that this program may use, if there are as many. */
static void use_core(int number)
{
    cpu_set_t all, one;

    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) <= number)
        return;
    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all) && number-- == 0)
            CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static void *work_until_the_end(void *number)
{
    unsigned random = seed + (unsigned)(uintptr_t)number;

    if (faults[fault].work == write_words)
        use_core((int)(uintptr_t)number);
    while (!__atomic_load_n(&ended, __ATOMIC_RELAXED))
        faults[fault].work((int)(uintptr_t)number, &random);
    return NULL;
}

/* "fault on" and "fault off", from wsconsole and wsctl */
static int handle_command(const char *command, const char *argument, char *text, size_t size)
{
    bool on = strcmp(argument, "on") == 0;

    (void)command;
    if (!on && strcmp(argument, "off") != 0) {
        snprintf(text, size, "invalid word '%s' (valid: on, off)", argument);
        return -1;
    }
    __atomic_store_n(&faulty, on, __ATOMIC_RELAXED);
    board_event(BOARD_INFO, "the fault is %s", argument);
    return 0;
}

static void take_options(int argc, char **argv, const char **name, unsigned *seconds)
{
    int option;

    while ((option = getopt(argc, argv, "0s:t:n:")) != -1)
        switch (option) {
        case '0':
            faulty = 0;
            break;
        case 's':
            seed = (unsigned)atoi(optarg);
            break;
        case 't':
            *seconds = (unsigned)atoi(optarg);
            break;
        case 'n':
            *name = optarg;
            break;
        }
    while (fault < 4 && (optind != argc - 1 || strcmp(faults[fault].name, argv[optind]) != 0))
        fault++;
}

static void report(uint64_t end_ns)
{
    uint64_t last_ns = __atomic_load_n(&last_done_ns, __ATOMIC_RELAXED);

    printf("%s: %llu units of work in %.2f s of CPU time, the last %.2f s before the end",
           faults[fault].name, (unsigned long long)__atomic_load_n(&done, __ATOMIC_RELAXED),
           (double)clock() / CLOCKS_PER_SEC, (double)(end_ns - last_ns) / 1e9);
    if (fault == 0)
        printf(", the counter is %llu",
               (unsigned long long)__atomic_load_n(&counter, __ATOMIC_RELAXED));
    printf("\n");
}

int main(int argc, char **argv)
{
    const char *name = NULL;
    unsigned seconds = 60;
    pthread_t thread;
    sigset_t signals;
    int received;

    take_options(argc, argv, &name, &seconds);
    if (fault == 4) {
        fprintf(stderr, "usage: locks [-0] [-s SEED] [-t SECONDS] [-n NAME] "
                        "lost-update | convoy | deadlock | false-sharing\n");
        return 2;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (board_open(name != NULL ? name : faults[fault].name, 0) != 0)
        perror("locks: no board");
    board_control(handle_command, "fault");
    board_name("main");
    last_done_ns = board_now();
    for (uintptr_t i = 0; i < (uintptr_t)faults[fault].threads; i++) {
        if (pthread_create(&thread, NULL, work_until_the_end, (void *)i) != 0)
            return 1;
        pthread_detach(thread); /* one in a deadlock does not end */
    }
    alarm(seconds);
    sigwait(&signals, &received); /* sigtimedwait() would end when the process is continued (fg) */
    __atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
    report(board_now());
    board_close();
    return 0;
}
