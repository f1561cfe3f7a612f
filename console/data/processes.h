/*
 * Processor time and memory of a server's processes and of its threads, as /proc tells. Taken about
 * once a second; rates are those since the table before. A table is plain data without pointers, so
 * it can be kept and copied whole. The console's only thread.
 */
#ifndef CONSOLE_PROCESSES_H
#define CONSOLE_PROCESSES_H

#include "console/data/snapshot.h"

#include <stddef.h>
#include <stdint.h>

enum { PROCESSES_MAX = 66, PROCESS_THREADS_MAX = 1024 };

struct process_usage {
    uint32_t role; /* enum role */
    uint32_t slot; /* a worker's */
    int32_t pid;
    float cores;             /* processor seconds a second; NAN: not known (yet) */
    uint64_t resident_bytes; /* 0: not known */
    uint64_t cpu_ns;
};

struct thread_usage {
    int32_t tid;
    float cores;
    uint64_t cpu_ns;
};

struct process_table {
    uint64_t time_ns; /* monotonic clock; 0: never taken */
    uint32_t count, thread_count;
    struct process_usage process[PROCESSES_MAX]; /* master, workers by slot, logger */
    struct thread_usage thread[PROCESS_THREADS_MAX];
};

/* Reads /proc for all processes and threads that NOW names. TABLE holds the reading before. */
void processes_take(struct process_table *table, const struct snapshot *now);

/* Cores that the thread TID used in the last interval; NAN when that is not known. */
double processes_thread_cores(const struct process_table *table, int32_t tid);

/*
 * The figures in the text of a /proc/.../stat file: processor time in ns, resident memory in bytes.
 * TICKS are the clock ticks in a second, PAGE the bytes of a page. Pure. Returns 0, or -1 when
 * the text is no such file.
 */
int process_stat_parse(const char *text, uint64_t ticks, uint64_t page, uint64_t *cpu_ns,
                       uint64_t *resident_bytes);

#endif
