/*
 * A snapshot: the state of a server at one time, copied from the segment. It has no pointers into
 * the segment.
 */
#ifndef CONSOLE_SNAPSHOT_H
#define CONSOLE_SNAPSHOT_H

#include "common/segment_reader.h"

#include <stdbool.h>
#include <stdint.h>

enum { STATES_MAX = 32 }; /* thread states that the console supports */

/*
 * Data that is constant while a daemon runs. The segment describes the states, because the daemon
 * may be newer than the console.
 */
struct server {
    uint64_t generation;
    uint64_t started_ns; /* wall clock; another master of the same server does not change it */
    uint64_t start_ns;   /* the same by the clock of struct snapshot.time_ns; 0: unknown */
    int32_t pid;
    char name[64];
    char version[32];
    char socket_path[INSTANCE_PATH_MAX];
    char listening[256];
    uint32_t state_count;
    struct segment_state states[STATES_MAX];
    bool one_outcome;                       /* latencies are not told apart by outcome */
    uint8_t published[METRIC_COUNT];        /* enum published */
    bool lacks_section[SEGMENT_KIND_COUNT]; /* by enum segment_kind */
};

enum published { PUBLISHED_BY_WRITER, PUBLISHED_SUM, PUBLISHED_NOT };

/* A reserved thread slot. Without a thread its state is NONE, but its counters still count. */
struct thread_sample {
    uint32_t slot;
    uint32_t worker;                /* slot of its worker, or SEGMENT_NO_WORKER */
    uint32_t thread;                /* number within that worker */
    char name[SEGMENT_THREAD_NAME]; /* "": it has none */
    struct activity_copy activity;
    uint64_t silent_ns; /* for how long it has not answered the master, which asks each second */
    uint64_t values[METRIC_COUNT];
};

struct offload_sample {
    uint32_t number;
    struct activity_copy activity;
};

/* A reserved worker slot. */
struct worker_sample {
    uint32_t slot;
    int32_t pid;
    uint32_t state; /* enum worker_state */
    uint32_t starts;
    uint64_t started_ns;  /* wall clock */
    uint32_t model;       /* enum worker_model */
    uint32_t queue_order; /* enum queue_order */
    uint32_t queue_full;  /* enum queue_full */
    uint32_t threads_wanted, threads_actual, acceptors, offload_actual;
    uint64_t silent_ns; /* of its main thread, as that of a serving thread */
    uint64_t values[METRIC_COUNT];
    uint32_t offload_count;
    struct offload_sample offload[SEGMENT_OFFLOAD_THREADS]; /* the existing ones */
};

/* The last answer of a thread to the master, and when it was last new or current. */
struct last_answer {
    uint64_t answer, since_ns; /* monotonic clock */
};

struct snapshot {
    uint64_t time_ns;   /* monotonic clock */
    uint64_t states_ns; /* the same, when the states of the threads were last read */
    uint64_t wall_ns;
    struct server server;
    uint32_t workers_wanted;
    uint32_t threads_wanted; /* each worker has as many */
    uint32_t offload_min, offload_max;
    uint32_t log_level; /* enum level */
    uint32_t model;     /* enum worker_model, of new workers */
    bool dispatch_master;
    bool stopping;
    int32_t logger_pid, keys_pid, metrics_pid; /* 0: none */
    uint64_t sums[METRIC_COUNT];
    struct worker_sample *workers;
    uint32_t worker_count, worker_room;
    struct thread_sample *threads;
    uint32_t thread_count, thread_room;
    /* Latency since the start of the daemon, by thread slot (thread_room of them); filled only on
     * request. */
    struct histogram *latency;
    struct histogram *outcome_latency; /* same, by outcome (OUTCOME_COUNT of them) */
    struct histogram *queue_waits;     /* the same of connections in queues, by worker slot */
    struct last_answer *thread_answers, *worker_answers; /* by slot */
};

/* Allocates for the segment of READER. Returns 0, or -1: out of memory. Call snapshot_release(). */
int snapshot_prepare(struct snapshot *snapshot, const struct segment_reader *reader);
void snapshot_release(struct snapshot *snapshot);

/*
 * Copies the current state. WITH_LATENCY: including the histograms, which take most of the time and
 * are needed only twice a second. NOW_NS and WALL_NS become the time of the snapshot.
 */
void snapshot_take(struct snapshot *snapshot, const struct segment_reader *reader, uint64_t now_ns,
                   uint64_t wall_ns, bool with_latency);

/* Updates only the states of the threads, at NOW_NS. True if a state has changed. */
bool snapshot_refresh_states(struct snapshot *snapshot, const struct segment_reader *reader,
                             uint64_t now_ns);

/* Number of slots with a serving thread, without acceptors. */
uint32_t snapshot_threads_actual(const struct snapshot *snapshot);

/* Number of running workers, including those that drain. */
uint32_t snapshot_workers_actual(const struct snapshot *snapshot);

/* Letter and name of a thread state; '?' and "unknown" if the server does not describe it. */
char server_state_letter(const struct server *server, uint32_t state);
const char *server_state_name(const struct server *server, uint32_t state);

#endif
