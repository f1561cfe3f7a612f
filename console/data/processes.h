/*
 * CPU time and memory of a server's processes and threads, from /proc, twice a second. CPU usage is
 * that since the previous table. A table contains no pointers, so it can be stored and copied. The
 * console's only thread.
 */
#ifndef CONSOLE_PROCESSES_H
#define CONSOLE_PROCESSES_H

#include "console/data/snapshot.h"

#include <stddef.h>
#include <stdint.h>

enum { PROCESSES_MAX = 66, PROCESS_THREADS_MAX = 1024 };

struct process_usage {
    uint32_t role; /* enum role */
    uint32_t slot; /* of a worker */
    int32_t pid;
    float cores;             /* CPU seconds per second; NAN: unknown (yet) */
    uint64_t resident_bytes; /* 0: unknown */
    uint64_t cpu_ns;
};

struct thread_usage {
    int32_t tid;
    float cores;
    uint64_t cpu_ns;
};

struct process_table {
    uint64_t time_ns; /* monotonic clock; 0: never read */
    uint32_t count, thread_count;
    struct process_usage process[PROCESSES_MAX]; /* master, workers by slot, logger */
    struct thread_usage thread[PROCESS_THREADS_MAX];
};

/* Reads /proc for all processes and threads in NOW. TABLE holds the last reading on entry. */
void processes_take(struct process_table *table, const struct snapshot *now);

/* CPU usage of thread TID in the last interval, cores; NAN: unknown. */
double processes_thread_cores(const struct process_table *table, int32_t tid);

/*
 * Parses a /proc/.../stat file: CPU time in ns, resident memory in bytes. TICKS: clock ticks per
 * second; PAGE: bytes per page. Pure. Returns 0, or -1: invalid text.
 */
int process_stat_parse(const char *text, uint64_t ticks, uint64_t page, uint64_t *cpu_ns,
                       uint64_t *resident_bytes);

#endif
