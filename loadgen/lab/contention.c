#include "loadgen/lab/contention.h"

#include "common/clock.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LINE = 512 };

/*
 * Adds the lines "cpuN user nice system idle iowait irq softirq steal" of /proc/stat for the cores
 * of this process. Interrupts belong to no program.
 */
static void read_cores(struct contention_begin *begin)
{
    FILE *file = fopen("/proc/stat", "re");
    char line[LINE];
    cpu_set_t cores;
    unsigned core;

    if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
        CPU_ZERO(&cores);
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        uint64_t user, nice, system, idle, iowait, irq, softirq, steal;

        if (sscanf(line,
                   "cpu%u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64 " %" SCNu64,
                   &core, &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal) != 9 ||
            core >= CPU_SETSIZE || !CPU_ISSET(core, &cores))
            continue;
        begin->tasks += user + nice + system;
        begin->stolen += steal;
        begin->all += user + nice + system + idle + iowait + irq + softirq + steal;
    }
    if (file != NULL)
        fclose(file);
}

/* Runnable threads other than this one, per core of the machine; 0 if unknown. */
static double read_queue(void)
{
    FILE *file = fopen("/proc/loadavg", "re");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned runnable = 0;

    if (file != NULL && fscanf(file, "%*f %*f %*f %u/", &runnable) != 1)
        runnable = 0;
    if (file != NULL)
        fclose(file);
    return runnable > 1 && cores > 0 ? (double)(runnable - 1) / (double)cores : 0;
}

static uint64_t ns_of(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_usec * NS_PER_US;
}

static uint64_t own_cpu_ns(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) == 0 ? ns_of(&usage.ru_utime) + ns_of(&usage.ru_stime)
                                               : 0;
}

struct contention_begin contention_begin(uint64_t server_ns)
{
    struct contention_begin begin = {.own_ns = own_cpu_ns() + server_ns, .waiting = read_queue()};

    read_cores(&begin);
    return begin;
}

void contention_add(struct contention *sum, const struct contention_begin *begin,
                    uint64_t server_ns)
{
    struct contention_begin end = {.own_ns = own_cpu_ns() + server_ns};
    double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK), tasks_s, own_s;

    read_cores(&end);
    if (begin->all == 0 || end.all < begin->all || end.own_ns < begin->own_ns)
        return;
    tasks_s = (double)(end.tasks - begin->tasks) * tick_s;
    own_s = (double)(end.own_ns - begin->own_ns) / (double)NS_PER_S;
    sum->all_s += (double)(end.all - begin->all) * tick_s;
    sum->stolen_s += (double)(end.stolen - begin->stolen) * tick_s;
    sum->others_s += tasks_s - own_s; /* negative in some short trials: ticks are coarse */
    sum->waiting += begin->waiting;
    sum->trials++;
}

void contention_join(struct contention *sum, const struct contention *other)
{
    sum->all_s += other->all_s;
    sum->others_s += other->others_s;
    sum->stolen_s += other->stolen_s;
    sum->waiting += other->waiting;
    sum->trials += other->trials;
}

static double percent_of(double part_s, const struct contention *sum)
{
    return sum->all_s > 0 && part_s > 0 ? 100 * part_s / sum->all_s : 0;
}

bool contention_is_high(const struct contention *sum)
{
    return percent_of(sum->others_s, sum) > CONTENTION_OTHERS_MOST ||
           percent_of(sum->stolen_s, sum) > CONTENTION_STOLEN_MOST ||
           sum->waiting > (double)sum->trials;
}

char *contention_describe(char *buffer, const struct contention *sum)
{
    snprintf(buffer, CONTENTION_TEXT,
             "other programs used %.0f%% of the CPU time, the hypervisor withheld %.0f%%, and %.1f "
             "other threads per core were runnable",
             percent_of(sum->others_s, sum), percent_of(sum->stolen_s, sum),
             sum->trials > 0 ? sum->waiting / sum->trials : 0);
    return buffer;
}
