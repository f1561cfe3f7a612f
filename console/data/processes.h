/*
 * CPU time and memory of a server's processes and threads, from /proc, twice a second; and how long
 * they waited for a CPU. CPU usage is that since the previous table. A table contains no pointers,
 * so it can be stored and copied. The console's only thread.
 */
#ifndef CONSOLE_PROCESSES_H
#define CONSOLE_PROCESSES_H

#include "console/data/snapshot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROCESSES_MAX = 68, PROCESS_THREADS_MAX = 1024 }; /* 64 workers and four others */

struct process_usage {
    uint32_t role; /* enum role */
    uint32_t slot; /* a worker's */
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

/*
 * How much CPU was missing in the last interval. While it is missing, latencies are those of the
 * machine, not of the server.
 */
struct cpu_shortage {
    uint32_t known; /* 0: not measured, as in old recordings */
    /*
     * Share of the time with work to do in which the server's threads had no CPU; with less work
     * than for one CPU, of the time of one: the wait of waking up is then small.
     */
    float server;
    float machine; /* share of the time in which some task had no CPU */
    float stolen;  /* share of the CPU time that the hypervisor took */
};

/* CPU time that a thread had and wanted. */
struct thread_wait {
    uint64_t ran_ns, waited_ns;
};

/* CPU time of the children of a process that have ended, so that /proc has only their sum. */
struct ended_children {
    uint64_t ended_ns;   /* of those that it waited for */
    uint64_t counted_ns; /* of what was counted while they ran, the part that ENDED_NS lacks yet */
};

struct process_table {
    uint64_t time_ns; /* monotonic clock; 0: never read */
    uint32_t count, thread_count;
    struct process_usage
        process[PROCESSES_MAX]; /* master, workers by slot, logger, keys, metrics */
    struct thread_usage thread[PROCESS_THREADS_MAX];
    struct cpu_shortage shortage;
    /* Not recorded: the counters behind SHORTAGE; the waits are those of thread[]. */
    uint64_t pressure_us, stolen_ticks, all_ticks;
    bool stopped[PROCESSES_MAX]; /* the same index as process[]: by SIGSTOP or a debugger */
    struct ended_children ended; /* of another program's first process */
    struct thread_wait wait[PROCESS_THREADS_MAX];
};

/* The size of a recorded table. */
#define PROCESS_TABLE_RECORDED offsetof(struct process_table, pressure_us)

/*
 * Reads a recorded table of LENGTH bytes, also of consoles that recorded fewer processes or no
 * shortage. Returns false with TABLE unchanged if no console recorded this size.
 */
bool processes_read_recorded(struct process_table *table, const unsigned char *bytes,
                             uint64_t length);

/*
 * Reads /proc for all processes and threads in NOW. TABLE holds the last reading on entry. The CPU
 * time that children of another program's first process had since it, and have ended, is that
 * process's.
 */
void processes_take(struct process_table *table, const struct snapshot *now);

/* CPU usage of thread TID in the last interval, cores; NAN: unknown. */
double processes_thread_cores(const struct process_table *table, int32_t tid);

/*
 * SERVER if tasks of the machine wait for CPUs, else 0: the wait on a machine with free CPUs is that
 * of waking up. NAN: unknown.
 */
double cpu_shortage_wait(const struct cpu_shortage *shortage);

/* A process that is stopped; NULL: none. */
const struct process_usage *processes_stopped(const struct process_table *table);

/* Of a process or thread, in /proc/PID/stat. */
struct process_stat {
    char state;
    uint64_t cpu_ns;
    uint64_t ended_ns; /* CPU time of the children that have ended and were waited for */
    uint64_t resident_bytes;
};

/*
 * Parses the first line of /proc/stat: the ticks of all CPUs, and those stolen. Pure. Returns 0, or
 * -1: invalid text.
 */
int machine_stat_parse(const char *text, uint64_t *all_ticks, uint64_t *stolen_ticks);

/*
 * Parses a /proc/.../stat file. TICKS: clock ticks per second; PAGE: bytes per page. Pure. Returns 0,
 * or -1: invalid text.
 */
int process_stat_parse(const char *text, uint64_t ticks, uint64_t page, struct process_stat *stat);

/*
 * The CPU time that children of process PID had, and nobody has counted, when they ended in the last
 * PASSED_NS; at most all CPUs. GONE_NS is what was counted of those that ended in it. At the first
 * call for a process, the result is meaningless.
 */
uint64_t ended_children_take(struct ended_children *children, int32_t pid, uint64_t gone_ns,
                             uint64_t passed_ns);

#endif
