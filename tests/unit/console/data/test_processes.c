/* CPU time and memory from /proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "console/data/processes.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static void stat_file_is_parsed(void **state)
{
    static const char text[] = "77 (a) name) S 1 77 77 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 "
                               "12345 9000000 321 18446744073709551615 1 1 0\n";
    uint64_t cpu_ns = 0, resident = 0;

    (void)state;
    assert_int_equal(process_stat_parse(text, 100, 4096, &cpu_ns, &resident), 0);
    assert_int_equal(cpu_ns, 2 * NS_PER_S);
    assert_true(resident == 321 * 4096);
    assert_int_equal(process_stat_parse("77 (x) S 1 2 3", 100, 4096, &cpu_ns, &resident), -1);
    assert_int_equal(process_stat_parse("", 100, 4096, &cpu_ns, &resident), -1);
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_file_is_parsed),
        cmocka_unit_test(cpu_usage_needs_two_readings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
