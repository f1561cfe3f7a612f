/* CPU time and memory from /proc. */
#include "common/clock.h"
#include "console/data/processes.h"
#include "tests/integration/patience.h"
#include "tests/test.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TEST(stat_file_is_parsed)
{
    static const char text[] =
        "77 (a) name) S 1 77 77 0 -1 4194560 100 0 0 0 150 50 30 20 20 0 3 0 "
        "12345 9000000 321 18446744073709551615 1 1 0\n";
    struct process_stat stat = {0};

    assert_int_equal(process_stat_parse(text, 100, 4096, &stat), 0);
    assert_int_equal(stat.state, 'S');
    assert_int_equal(stat.cpu_ns, 2 * NS_PER_S);
    assert_int_equal(stat.ended_ns, NS_PER_S / 2);
    assert_true(stat.resident_bytes == 321 * 4096);
    assert_int_equal(process_stat_parse("77 (x) S 1 2 3", 100, 4096, &stat), -1);
    assert_int_equal(process_stat_parse("", 100, 4096, &stat), -1);
}

/* This process acts as master; the logger does not exist. */
TEST(cpu_usage_needs_two_readings)
{
    static struct process_table table;
    struct snapshot now = {.time_ns = 5 * NS_PER_S, .logger_pid = INT32_MAX};
    uint64_t until_ns = clock_monotonic_ns() + 50 * NS_PER_MS;

    now.server.pid = (int32_t)getpid();
    processes_take(&table, &now);
    assert_int_equal(table.count, 2);
    assert_true(isnan(table.process[0].cores));
    assert_true(table.process[0].resident_bytes > 0);
    assert_true(table.process[0].role == ROLE_MASTER);
    while (clock_monotonic_ns() < until_ns)
        continue;
    now.time_ns += NS_PER_S;
    processes_take(&table, &now);
    assert_true(!isnan(table.process[0].cores));
    assert_true(table.process[0].cores >= 0);
    assert_true(table.process[1].role == ROLE_LOGGER);
    assert_true(isnan(table.process[1].cores));
    assert_true(table.process[1].resident_bytes == 0);
    assert_true(isnan(processes_thread_cores(&table, 1)));
}

static uint64_t cpu_of_this_process(void)
{
    struct timespec used;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used), 0);
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

/* A child that has used 200 ms twice: it reports the first, and ends when LINK is closed. */
static pid_t start_child(int *link)
{
    int pair[2];
    pid_t child;
    char word;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(pair[0]);
        while (cpu_of_this_process() < 200 * NS_PER_MS)
            continue;
        if (write(pair[1], "x", 1) == 1 && read(pair[1], &word, 1) == 0)
            while (cpu_of_this_process() < 400 * NS_PER_MS)
                continue;
        _exit(0);
    }
    close(pair[1]);
    assert_int_equal(read(pair[0], &word, 1), 1);
    *link = pair[0];
    return child;
}

static void end_child(pid_t child, int link)
{
    close(link);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* A program with a process for each connection: only their sum is known when they have ended. */
TEST(children_of_other_program_count_when_they_have_ended)
{
    static struct process_table table;
    struct worker_sample worker = {.state = WORKER_SERVING};
    struct snapshot now = {.time_ns = NS_PER_S, .workers = &worker};
    uint64_t own_ns;
    pid_t child;
    int link;

    now.server.pid = (int32_t)getpid();
    now.server.lacks_section[SEGMENT_CONFIG] = true;
    processes_take(&table, &now);
    own_ns = cpu_of_this_process();
    child = start_child(&link); /* and ends between two tables */
    end_child(child, link);
    now.time_ns += NS_PER_S;
    processes_take(&table, &now);
    assert_in_range(table.process[0].cores * 1000, 380,
                    450 + (cpu_of_this_process() - own_ns) / NS_PER_MS);
    worker.pid = start_child(&link);
    now.worker_count = 1;
    now.time_ns += NS_PER_S;
    processes_take(&table, &now);
    assert_in_range(table.process[1].cpu_ns, 190 * NS_PER_MS, 250 * NS_PER_MS);
    own_ns = cpu_of_this_process();
    end_child(worker.pid, link); /* half of its CPU time is in the last table */
    now.worker_count = 0;
    now.time_ns += NS_PER_S;
    processes_take(&table, &now);
    assert_in_range(table.process[0].cores * 1000, 130,
                    250 + (cpu_of_this_process() - own_ns) / NS_PER_MS);
}

TEST(machine_stat_is_parsed)
{
    uint64_t all = 0, stolen = 0;

    assert_int_equal(machine_stat_parse("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1", &all, &stolen), 0);
    assert_int_equal(all, 36);
    assert_int_equal(stolen, 8);
    assert_int_equal(machine_stat_parse("cpu  1 2 3", &all, &stolen), -1);
}

static _Atomic bool spinning;

static void *spin(void *unused)
{
    (void)unused;
    while (atomic_load(&spinning))
        continue;
    return NULL;
}

static void spin_ms(uint64_t ms)
{
    uint64_t until_ns = clock_monotonic_ns() + ms * NS_PER_MS;

    while (clock_monotonic_ns() < until_ns)
        continue;
}

/* Runs this thread and those that it starts on one CPU. */
static void use_one_cpu(cpu_set_t *before)
{
    cpu_set_t one;

    sched_getaffinity(0, sizeof(*before), before);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, before))
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

/* Two threads with work all the time share a CPU. */
TEST(waiting_threads_are_short_of_cpu)
{
    static struct process_table table;
    struct worker_sample worker = {.pid = (int32_t)getpid(), .state = WORKER_SERVING};
    struct thread_sample thread = {
        .activity = {.state = THREAD_STATE_NONE + 1, .tid = (int32_t)gettid()}};
    struct snapshot now = {
        .workers = &worker, .worker_count = 1, .threads = &thread, .thread_count = 1};
    cpu_set_t before;
    pthread_t other;

    now.time_ns = clock_monotonic_ns();
    processes_take(&table, &now);
    assert_true(isnan(table.shortage.server));
    if (table.wait[0].ran_ns == 0) /* a kernel without schedstat */
        skip();
    use_one_cpu(&before);
    atomic_store(&spinning, true);
    assert_int_equal(pthread_create(&other, NULL, spin, NULL), 0);
    WAIT_UNTIL((spin_ms(100), now.time_ns = clock_monotonic_ns(), processes_take(&table, &now),
                table.shortage.server > 0.2F));
    atomic_store(&spinning, false);
    pthread_join(other, NULL);
    sched_setaffinity(0, sizeof(before), &before);
    assert_true(table.shortage.server <= 1);
}

TEST(keys_and_metrics_processes_are_listed)
{
    static struct process_table table;
    struct snapshot now = {
        .time_ns = NS_PER_S, .keys_pid = (int32_t)getpid(), .metrics_pid = (int32_t)getppid()};

    processes_take(&table, &now);
    assert_int_equal(table.count, 2);
    assert_true(table.process[0].role == ROLE_KEYS);
    assert_true(table.process[1].role == ROLE_METRICS);
    assert_int_equal(table.process[1].pid, getppid());
}

/* Tables of consoles that kept 66 processes, without and with the shortage. */
TEST(recorded_table_of_older_console_is_read)
{
    enum { KEPT = 66 };
    static struct process_table written, read;
    static unsigned char bytes[sizeof(written)];
    size_t fewer = (PROCESSES_MAX - KEPT) * sizeof(*written.process);
    size_t head = offsetof(struct process_table, process) + KEPT * sizeof(*written.process);

    written.count = KEPT;
    written.process[KEPT - 1].pid = 7;
    written.thread_count = 1;
    written.thread[0].tid = 9;
    written.shortage.known = 1;
    memcpy(bytes, &written, head);
    memcpy(bytes + head, written.thread, sizeof(written) - offsetof(struct process_table, thread));
    assert_true(processes_read_recorded(&read, bytes, PROCESS_TABLE_RECORDED - fewer));
    assert_int_equal(read.count, KEPT);
    assert_int_equal(read.process[KEPT - 1].pid, 7);
    assert_int_equal(read.thread[0].tid, 9);
    assert_int_equal(read.shortage.known, 1);
    assert_true(
        processes_read_recorded(&read, bytes, offsetof(struct process_table, shortage) - fewer));
    assert_int_equal(read.thread[0].tid, 9);
    assert_int_equal(read.shortage.known, 0);
    assert_true(processes_read_recorded(&read, (unsigned char *)&written, PROCESS_TABLE_RECORDED));
    assert_int_equal(read.process[KEPT - 1].pid, 7);
    assert_false(processes_read_recorded(&read, bytes, PROCESS_TABLE_RECORDED - 1));
}
