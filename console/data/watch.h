/*
 * Watching one instance: joins the source (where the numbers come from), the model and history
 * (what they mean) and the tail (its requests). What views are shown comes from here. The console's
 * only thread.
 */
#ifndef CONSOLE_WATCH_H
#define CONSOLE_WATCH_H

#include "console/data/instances.h"
#include "console/data/replay.h"
#include "console/data/server_info.h"

#include <stdbool.h>
#include <stdint.h>

struct watch;

/* What the console changes by one step, up or down. */
enum tunable {
    TUNABLE_THREADS, /* serving threads per worker */
    TUNABLE_WORKERS,
    TUNABLE_OFFLOAD_THREADS, /* maximum per worker */
    TUNABLE_COUNT
};

/* Begins to watch the instance NAME. NULL when memory is out. */
struct watch *watch_open(const char *name);

/* Opens the recording PATH instead: watch_replay_to() takes the place of watch_sample(). NULL after
 * a sentence in WHY. */
struct watch *watch_open_replay(const char *path, char *why, size_t size);
void watch_close(struct watch *watch);

/*
 * Looks whether the daemon is there, and takes a sample if it is. NOW_NS is the monotonic clock,
 * WALL_NS the wall clock. WANTS are bits of enum wants (console/data/server_info.h): what is to be read besides
 * what is always read. Returns 0, or -1 when memory is out.
 */
int watch_sample(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, unsigned wants);

/* Looks between two samples at what threads do now. True when that is something else. */
bool watch_glance(struct watch *watch);

/* What is wanted of TUNABLE at this very moment, sampled or not; 0: no daemon. */
uint32_t watch_wanted(const struct watch *watch, enum tunable tunable);

/* The least number of offload threads in each worker at this very moment; 0: no daemon. */
uint32_t watch_offload_min(const struct watch *watch);

/* Begins to record the session into the new file PATH. Returns 0, or -1 with a sentence in WHY. */
int watch_record_to(struct watch *watch, const char *path, char *why, size_t size);

/*
 * Adds the present to the recording, if there is one; sampled or frozen makes no difference.
 * Returns 0, or -1 with a sentence in WHY: the recording has then ended.
 */
int watch_record(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, char *why, size_t size);

/* Ends the recording. Returns 0, or -1 with a sentence in WHY when it is not whole. */
int watch_record_end(struct watch *watch, char *why, size_t size);

/* Bytes recorded so far; 0 when nothing is recorded. */
uint64_t watch_recorded(const struct watch *watch);

/* Goes to the moment AT_NS from the recording's beginning, forwards or back. As watch_sample(). */
int watch_replay_to(struct watch *watch, uint64_t at_ns, unsigned wants);

/* The recording that is watched, or NULL. */
const struct replay *watch_replay(const struct watch *watch);
bool watch_replays(const struct watch *watch);

/*
 * Goes BACK seconds of the history back: from then on watch_model() and watch_history() are those
 * of that second, until another sample is taken. Returns how far back it is, 0 (the moment of the
 * last sample) to the oldest second there is.
 */
size_t watch_look_back(struct watch *watch, size_t back);

const struct source *watch_source(const struct watch *watch);
const struct model *watch_model(const struct watch *watch);
const struct history *watch_history(const struct watch *watch);
const struct tail *watch_tail(const struct watch *watch);
const struct top *watch_top(const struct watch *watch);
const struct outcomes *watch_outcomes(const struct watch *watch);
const struct event_list *watch_events(const struct watch *watch);

/* Taken about twice a second; cache and clients only while they are wanted. */
const struct process_table *watch_processes(const struct watch *watch);
const struct cache_list *watch_cache(const struct watch *watch);
const struct client_list *watch_clients(const struct watch *watch);
const char *watch_config(const struct watch *watch); /* "": not read yet */

/*
 * Where the values of the configuration came from: the daemon's answer to `config`, a line of JSON; ""
 * while it is not known. It is not in shared memory: whoever drives the watch asks for it when
 * watch_wants_origins() says so (once for each configuration, when WANTS has WANT_ORIGINS or a session
 * is recorded), and tells the answer (copied).
 */
const char *watch_origins(const struct watch *watch);
bool watch_wants_origins(struct watch *watch, unsigned wants);
void watch_tell_origins(struct watch *watch, const char *answer);

#endif
