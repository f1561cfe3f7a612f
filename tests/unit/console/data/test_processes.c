/* CPU time and memory from /proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "console/data/processes.h"
#include "tests/integration/patience.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void stat_file_is_parsed(void **state)
{
    static const char text[] = "77 (a) name) S 1 77 77 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 "
                               "12345 9000000 321 18446744073709551615 1 1 0\n";
    uint64_t cpu_ns = 0, resident = 0;
    char letter = 0;

    (void)state;
    assert_int_equal(process_stat_parse(text, 100, 4096, &cpu_ns, &resident, &letter), 0);
    assert_int_equal(letter, 'S');
    assert_int_equal(cpu_ns, 2 * NS_PER_S);
    assert_true(resident == 321 * 4096);
    assert_int_equal(process_stat_parse("77 (x) S 1 2 3", 100, 4096, &cpu_ns, &resident, &letter),
                     -1);
    assert_int_equal(process_stat_parse("", 100, 4096, &cpu_ns, &resident, &letter), -1);
}

/* This process acts as master; the logger does not exist. */
static void cpu_usage_needs_two_readings(void **state)
{
    static struct process_table table;
    struct snapshot now = {.time_ns = 5 * NS_PER_S, .logger_pid = INT32_MAX};
    uint64_t until_ns = clock_monotonic_ns() + 50 * NS_PER_MS;

    (void)state;
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

static void machine_stat_is_parsed(void **state)
{
    uint64_t all = 0, stolen = 0;

    (void)state;
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
static void waiting_threads_are_short_of_cpu(void **state)
{
    static struct process_table table;
    struct worker_sample worker = {.pid = (int32_t)getpid(), .state = WORKER_SERVING};
    struct thread_sample thread = {
        .activity = {.state = THREAD_STATE_NONE + 1, .tid = (int32_t)gettid()}};
    struct snapshot now = {
        .workers = &worker, .worker_count = 1, .threads = &thread, .thread_count = 1};
    cpu_set_t before;
    pthread_t other;

    (void)state;
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

static void keys_and_metrics_processes_are_listed(void **state)
{
    static struct process_table table;
    struct snapshot now = {
        .time_ns = NS_PER_S, .keys_pid = (int32_t)getpid(), .metrics_pid = (int32_t)getppid()};

    (void)state;
    processes_take(&table, &now);
    assert_int_equal(table.count, 2);
    assert_true(table.process[0].role == ROLE_KEYS);
    assert_true(table.process[1].role == ROLE_METRICS);
    assert_int_equal(table.process[1].pid, getppid());
}

/* Tables of consoles that kept 66 processes, without and with the shortage. */
static void recorded_table_of_older_console_is_read(void **state)
{
    enum { KEPT = 66 };
    static struct process_table written, read;
    static unsigned char bytes[sizeof(written)];
    size_t fewer = (PROCESSES_MAX - KEPT) * sizeof(*written.process);
    size_t head = offsetof(struct process_table, process) + KEPT * sizeof(*written.process);

    (void)state;
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_file_is_parsed),
        cmocka_unit_test(cpu_usage_needs_two_readings),
        cmocka_unit_test(machine_stat_is_parsed),
        cmocka_unit_test(waiting_threads_are_short_of_cpu),
        cmocka_unit_test(keys_and_metrics_processes_are_listed),
        cmocka_unit_test(recorded_table_of_older_console_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
