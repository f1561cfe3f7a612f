/*
 * The cost of include/wsboard.h: a request as board_begin_at() and board_end_at() store it, as
 * board_begin() and board_end() do with two readings of the clock, and a reading alone. Slices of
 * each alternate; the result is the median of the slices, and their ratio to the reading beside
 * them.
 *
 *     bench_board [SLICES]
 */
#define WSBOARD_IMPLEMENTATION
#include "wsboard.h"

enum { REQUESTS = 20000, SLICES_MAX = 1001, KINDS = 3 };

static const char line[] = "GET /images/logo.png HTTP/1.1";

static void store_requests(void)
{
    uint64_t now_ns = board_now();

    for (unsigned i = 0; i < REQUESTS; i++) {
        board_begin_at(line, sizeof(line) - 1, now_ns);
        now_ns += i * 2654435761u >> 16; /* up to 66 us, in all buckets */
        board_end_at(200, 1024, now_ns);
    }
}

static void time_requests(void)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        board_begin(line, sizeof(line) - 1);
        board_end(200, 1024);
    }
}

static void read_clock(void)
{
    for (unsigned i = 0; i < REQUESTS; i++)
        board_now();
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return values[count / 2];
}

int main(int argc, char **argv)
{
    static void (*const run[KINDS])(void) = {read_clock, store_requests, time_requests};
    static const char *const what[KINDS] = {"clock reading", "stores of a request",
                                            "request with two readings"};
    static double ns[KINDS][SLICES_MAX], ratio[KINDS][SLICES_MAX];
    int slices = argc > 1 ? atoi(argv[1]) : 201;
    char name[32];

    if (argc > 2 || slices < 1 || slices > SLICES_MAX) {
        fprintf(stderr, "usage: bench_board [SLICES], 1 to %d\n", SLICES_MAX);
        return 2;
    }
    snprintf(name, sizeof(name), "bench-%d", (int)getpid());
    if (board_open(name, 1) != 0) {
        perror("bench_board: no board");
        return 2;
    }
    for (int i = 0; i < slices; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            uint64_t start_ns = wsboard_clock(CLOCK_THREAD_CPUTIME_ID);

            run[kind]();
            ns[kind][i] = (double)(wsboard_clock(CLOCK_THREAD_CPUTIME_ID) - start_ns) / REQUESTS;
            ratio[kind][i] = ns[kind][i] / ns[0][i];
        }
    board_close();
    for (int kind = 0; kind < KINDS; kind++)
        printf("%-26s %6.1f ns  %5.2f x a clock reading\n", what[kind], median(ns[kind], slices),
               median(ratio[kind], slices));
}
