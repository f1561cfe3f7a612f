/*
 * Four faults of programs with threads, to look at in wsconsole:
 *
 *     locks [-s SEED] [-t SECONDS] [-n NAME] lost-update | convoy | deadlock | false-sharing
 *
 *   lost-update    threads add to a counter without a mutex: some of their additions are lost
 *   convoy         each thread holds one mutex while it works: only one of them works at a time
 *   deadlock       threads take two mutexes in either order: in the end all wait in state M
 *   false-sharing  threads write words of one cache line, then words of lines of their own
 *
 * A unit of work is shown as a request. SEED makes the same choices again.
 */
#define WSBOARD_IMPLEMENTATION
#include "wsboard.h"

#include <stdbool.h>

enum { THREADS = 4, ROUND = 200000 };

static pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static volatile uint64_t counter, done[THREADS];
static volatile uint64_t near_words[THREADS];
static struct {
    volatile uint64_t word;
    char padding[56];
} far_words[THREADS];
static volatile bool ended;
static unsigned seed = 1;

static void finish(const char *line, uint64_t begin_ns)
{
    board_begin_at(line, strlen(line), begin_ns);
    board_end(200, 0);
}

static void lose_updates(int number, unsigned *random)
{
    uint64_t begin_ns = board_now();

    board_state(BOARD_COMPUTE);
    for (int i = 0; i < ROUND; i++)
        counter = counter + 1;
    done[number] += ROUND;
    usleep((unsigned)rand_r(random) % 2000);
    finish("ADD /counter", begin_ns);
}

static void form_convoy(int number, unsigned *random)
{
    uint64_t begin_ns = board_now();

    board_lock(&mutexes[0]);
    board_state(BOARD_COMPUTE);
    usleep(500 + (unsigned)rand_r(random) % 1000); /* work that needs no mutex */
    pthread_mutex_unlock(&mutexes[0]);
    done[number]++;
    finish("WORK /with-the-mutex", begin_ns);
}

static void take_in_any_order(int number, unsigned *random)
{
    int first = rand_r(random) % 2;
    uint64_t begin_ns = board_now();

    board_lock(&mutexes[first]);
    board_state(BOARD_COMPUTE);
    usleep((unsigned)rand_r(random) % 200);
    board_lock(&mutexes[1 - first]);
    done[number]++;
    pthread_mutex_unlock(&mutexes[1 - first]);
    pthread_mutex_unlock(&mutexes[first]);
    finish(first == 0 ? "MOVE /a/b" : "MOVE /b/a", begin_ns);
    board_state(BOARD_IDLE);
    usleep((unsigned)rand_r(random) % 2000);
}

static void share_a_line(int number, unsigned *random)
{
    bool far = done[number] % 20 >= 10;
    uint64_t begin_ns = board_now();

    (void)random;
    board_state(BOARD_COMPUTE);
    for (int i = 0; i < ROUND; i++)
        if (far)
            far_words[number].word = far_words[number].word + 1;
        else
            near_words[number] = near_words[number] + 1;
    done[number]++;
    finish(far ? "WRITE /own-line" : "WRITE /shared-line", begin_ns);
}

static const struct {
    const char *name;
    void (*work)(int number, unsigned *random);
} faults[] = {{"lost-update", lose_updates},
              {"convoy", form_convoy},
              {"deadlock", take_in_any_order},
              {"false-sharing", share_a_line}};

static size_t fault;

static void *work_until_the_end(void *number)
{
    unsigned random = seed + (unsigned)(uintptr_t)number;

    while (!ended)
        faults[fault].work((int)(uintptr_t)number, &random);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *wanted = "", *name = NULL;
    unsigned seconds = 60;
    uint64_t sum = 0;
    pthread_t thread;
    int option;

    while ((option = getopt(argc, argv, "s:t:n:")) != -1) {
        if (option == 's')
            seed = (unsigned)atoi(optarg);
        else if (option == 't')
            seconds = (unsigned)atoi(optarg);
        else if (option == 'n')
            name = optarg;
    }
    if (optind == argc - 1)
        wanted = argv[optind];
    while (fault < 4 && strcmp(faults[fault].name, wanted) != 0)
        fault++;
    if (fault == 4) {
        fprintf(stderr, "usage: locks [-s SEED] [-t SECONDS] [-n NAME] "
                        "lost-update | convoy | deadlock | false-sharing\n");
        return 2;
    }
    if (board_open(name != NULL ? name : wanted, 0) != 0)
        perror("locks: no board");
    board_name("main");
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, work_until_the_end, (void *)i) != 0)
            return 1;
    sleep(seconds);
    ended = true;
    for (int i = 0; i < THREADS; i++)
        sum += done[i];
    printf("%s: %llu units of work", wanted, (unsigned long long)sum);
    if (fault == 0)
        printf(", the counter is %llu", (unsigned long long)counter);
    printf("\n");
    board_close();
    return 0;
}
