#include "loadgen/base/resources.h"

#include "common/clock.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

enum {
    DESCRIPTORS_OF_PROCESS = 32, /* standard streams, main loop, libraries */
    DESCRIPTORS_OF_THREAD = 8,   /* loop, eventfd, libcurl's own */
    TICKS_MIN = 20,
};

int resources_reserve_descriptors(uint32_t connections, uint32_t threads, char *why, size_t size)
{
    struct rlimit limit;
    uint64_t others = DESCRIPTORS_OF_PROCESS + (uint64_t)DESCRIPTORS_OF_THREAD * threads;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= connections + others)
        return 0;
    snprintf(why, size,
             "%u connections exceed the limit of %llu open files, which allows %llu: use fewer, or "
             "raise the limit (ulimit -Hn)",
             connections, (unsigned long long)limit.rlim_cur,
             (unsigned long long)(limit.rlim_cur > others ? limit.rlim_cur - others : 0));
    return -1;
}

uint32_t resources_cores(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) > 0
               ? (uint32_t)CPU_COUNT(&cores)
               : 1;
}

uint64_t resources_process_cpu_ns(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

/* schedstat: time on a core, time in the run queue, number of time slices (proc(5)). */
uint64_t resources_thread_wait_ns(void)
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
struct machine_cpu resources_machine_cpu(void)
{
    struct machine_cpu cpu = {0, 0};
    uint64_t user, nice, system, idle, iowait, irq, softirq, steal;
    FILE *file = fopen("/proc/stat", "re");

    if (file == NULL)
        return cpu;
    if (fscanf(file,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64,
               &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal) == 8) {
        cpu.busy = user + nice + system + irq + softirq + steal;
        cpu.all = cpu.busy + idle + iowait;
    }
    fclose(file);
    return cpu;
}

double resources_machine_busy(struct machine_cpu then)
{
    struct machine_cpu now = resources_machine_cpu();

    if (now.all < then.all + TICKS_MIN || now.busy < then.busy)
        return NAN;
    return (double)(now.busy - then.busy) / (double)(now.all - then.all);
}
