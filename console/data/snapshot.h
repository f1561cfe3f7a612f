/*
 * One moment of a server as plain data: what the model works on. Only snapshot.c reads shared
 * memory for it; a snapshot may as well come from elsewhere. Nothing in here points into the
 * segment.
 */
#ifndef CONSOLE_SNAPSHOT_H
#define CONSOLE_SNAPSHOT_H

#include "common/segment_reader.h"

#include <stdbool.h>
#include <stdint.h>

enum { STATES_MAX = 32 }; /* thread states that a console can tell apart */

/* What does not change while a daemon runs. States come from the segment: it may be newer than us.
 */
struct server {
    uint64_t generation;
    uint64_t started_ns; /* wall clock */
    int32_t pid;
    char name[64];
    char version[32];
    char socket_path[INSTANCE_PATH_MAX];
    char listening[256];
    uint32_t state_count;
    struct segment_state states[STATES_MAX];
};

/* A reserved thread slot. One without a thread has the state NONE; its counters still count. */
struct thread_sample {
    uint32_t slot;
    uint32_t worker; /* its worker's slot, or SEGMENT_NO_WORKER */
    uint32_t thread; /* which of that worker's threads */
    struct activity_copy activity;
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
    uint32_t state; /* enum segment_worker_state */
    uint32_t starts;
    uint64_t started_ns; /* wall clock */
    uint32_t threads_wanted, threads_actual, offload_actual;
    uint64_t values[METRIC_COUNT];
    uint32_t offload_count;
    struct offload_sample offload[SEGMENT_OFFLOAD_THREADS]; /* those that there are */
};

struct snapshot {
    uint64_t time_ns; /* monotonic clock */
    uint64_t wall_ns;
    struct server server;
    uint32_t workers_wanted;
    uint32_t threads_wanted; /* in each worker */
    uint32_t offload_least, offload_most;
    uint32_t log_level; /* enum level */
    bool dispatch_master;
    bool stopping;
    int32_t logger_pid;
    uint64_t sums[METRIC_COUNT];
    struct worker_sample *workers;
    uint32_t worker_count, worker_room;
    struct thread_sample *threads;
    uint32_t thread_count, thread_room;
    /* Latency since the daemon's start by thread slot (thread_room of them); filled only on
     * request. */
    struct histogram *latency;
    struct histogram *outcome_latency; /* the same by outcome (OUTCOME_COUNT of them) */
};

/* Room for what READER's segment may hold. Returns 0, or -1 when memory is out. Owed a release. */
int snapshot_prepare(struct snapshot *snapshot, const struct segment_reader *reader);
void snapshot_release(struct snapshot *snapshot);

/*
 * Copies the present. With WITH_LATENCY the histograms too, which is most of the work: asked for
 * twice a second, not for every picture. The times are those given.
 */
void snapshot_take(struct snapshot *snapshot, const struct segment_reader *reader, uint64_t now_ns,
                   uint64_t wall_ns, bool with_latency);

/* Copies anew what the threads of SNAPSHOT do, and no more. True when any does something else. */
bool snapshot_glance(struct snapshot *snapshot, const struct segment_reader *reader);

/* Threads at work: slots that have one. */
uint32_t snapshot_threads_actual(const struct snapshot *snapshot);

/* Workers that run, leaving ones included. */
uint32_t snapshot_workers_actual(const struct snapshot *snapshot);

/* Letter and name of a thread state; '?' and "unknown" for one that the server did not describe. */
char server_state_letter(const struct server *server, uint32_t state);
const char *server_state_name(const struct server *server, uint32_t state);

#endif
