#include "loadgen/base/processor_time.h"

#include "common/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

enum { LEAST_TICKS = 20 };

uint64_t processor_time_of(pid_t pid)
{
    struct timespec used;
    clockid_t its_clock;

    if (pid <= 0 || clock_getcpuclockid(pid, &its_clock) != 0 ||
        clock_gettime(its_clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

/* Its file has the time on a core, the time of waiting for one, and a count (proc(5)). */
uint64_t processor_wait_of_thread(void)
{
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    uint64_t waited_ns = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %" SCNu64, &waited_ns) != 1)
        waited_ns = 0;
    fclose(file);
    return waited_ns;
}

/* The first line of /proc/stat (proc(5)): user nice system idle iowait irq softirq steal. */
struct processor_time processor_time_of_machine(void)
{
    struct processor_time time = {0, 0};
    uint64_t user, nice, system, idle, iowait, irq, softirq, steal;
    FILE *file = fopen("/proc/stat", "re");

    if (file == NULL)
        return time;
    if (fscanf(file,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64,
               &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal) == 8) {
        time.busy = user + nice + system + irq + softirq + steal;
        time.all = time.busy + idle + iowait;
    }
    fclose(file);
    return time;
}

double processor_time_busy(struct processor_time then)
{
    struct processor_time now = processor_time_of_machine();

    if (now.all < then.all + LEAST_TICKS || now.busy < then.busy)
        return NAN;
    return (double)(now.busy - then.busy) / (double)(now.all - then.all);
}
