/*
 * What others took of the CPU time of this machine while trials ran: other programs, and the
 * hypervisor (steal). With too much of it, speeds say more about others than about the server. Only
 * cores that this process may use count. Main thread.
 */
#ifndef LOADGEN_LAB_CONTENTION_H
#define LOADGEN_LAB_CONTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More than these parts of all CPU time prevent a verdict on speed, in percent. */
#define CONTENTION_OTHERS_MOST 10.0
#define CONTENTION_STOLEN_MOST 5.0

/* The state at the begin of a trial. */
struct contention_begin {
    uint64_t all, tasks, stolen; /* of the cores, in clock ticks; all 0: unknown */
    uint64_t own_ns;             /* CPU time of this process and of the server */
    double waiting;              /* other runnable threads per core of the machine */
};

/* The sum over trials; all zero: none. */
struct contention {
    double all_s, others_s, stolen_s; /* CPU time of all cores; of other programs; not given */
    double waiting;                   /* sum of the trials */
    uint32_t trials;
};

/* SERVER_NS is the CPU time of the server so far. */
struct contention_begin contention_begin(uint64_t server_ns);
void contention_add(struct contention *sum, const struct contention_begin *begin,
                    uint64_t server_ns);
void contention_join(struct contention *sum, const struct contention *other);

/* Whether a verdict on speed is impossible: too much was taken, or the run queue was never empty. */
bool contention_is_high(const struct contention *sum);

/* "other programs used 12% of the CPU time, ..."; returns BUFFER, of CONTENTION_TEXT bytes. */
enum { CONTENTION_TEXT = 192 };
char *contention_describe(char *buffer, const struct contention *sum);

#endif
