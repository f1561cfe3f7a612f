/*
 * What the kernel reports: facts of the machine, what processes use, what others take of the CPU
 * time while a trial runs. Main thread.
 */
#ifndef LOADGEN_LAB_MACHINE_H
#define LOADGEN_LAB_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MACHINE_FACTS = 12, MACHINE_LABEL = 16, MACHINE_TEXT = 160 };

struct machine_fact {
    char label[MACHINE_LABEL], text[MACHINE_TEXT];
    bool changes; /* may differ between two starts on the same machine */
};

struct machine {
    struct machine_fact fact[MACHINE_FACTS];
    size_t count;
};

/* Ignored if MACHINE is full. */
void machine_add(struct machine *machine, const char *label, const char *text, bool changes);

/* The first core that this process may use. */
int machine_first_core(void);

/* Facts that are unknown are left out. SERVER is the version of webserverd. */
void machine_describe(struct machine *machine, const char *server);

/*
 * ---- What a process and its descendants use, from /proc ----
 *
 * CPU time is that of the CPU clocks of the processes (clock_getcpuclockid()), in which threads that
 * have exited count. Their context switches do not.
 */

struct usage {
    uint64_t cpu_ns;       /* user and system */
    uint64_t resident;     /* bytes; shared pages count once per process */
    uint64_t anonymous;    /* resident bytes without shared memory and files; grows with a leak */
    uint64_t descriptors;  /* open files */
    bool descriptors_seen; /* could be read for all processes; false: descriptors is incomplete */
    size_t processes;
};

/* The usage of PID and its descendants. Processes that exit meanwhile are not included. */
struct usage usage_of(pid_t pid);

/* usage_of().cpu_ns alone, which is cheaper to read. */
uint64_t usage_cpu_ns(pid_t pid);

/* The context switches of PID and its descendants so far, voluntary or not. */
uint64_t usage_switches(pid_t pid);

/*
 * ---- What other programs and the hypervisor (steal) take of the CPU time of trials ----
 *
 * With too much of it, speeds say more about others than about the server. Only cores that this
 * process may use count.
 */

/* More than these parts of all CPU time prevent a verdict on speed, in percent. */
#define CONTENTION_OTHERS_MOST 10.0
#define CONTENTION_STOLEN_MOST 5.0

/* The state at the begin of a trial. */
struct contention_begin {
    uint64_t all, tasks, stolen; /* clock ticks of the cores; all 0: unknown */
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

/*
 * Whether a verdict on speed is impossible: too much was taken, or the run queue was never empty.
 */
bool contention_is_high(const struct contention *sum);

/* "other programs used 12% of the CPU time, ..."; returns BUFFER, of CONTENTION_TEXT bytes. */
enum { CONTENTION_TEXT = 192 };
char *contention_describe(char *buffer, const struct contention *sum);

#endif
