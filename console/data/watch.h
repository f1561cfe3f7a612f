/*
 * Watches one instance, live or from a recording: follows the daemon, samples its segment into the
 * server info, records, replays, and moves back in the history. The console's only thread.
 */
#ifndef CONSOLE_WATCH_H
#define CONSOLE_WATCH_H

#include "console/data/instances.h"
#include "console/data/recording.h"
#include "console/data/server_info.h"

#include <stdbool.h>
#include <stdint.h>

struct watch;

/* The numbers that a key changes by one step. */
enum tunable {
    TUNABLE_THREADS, /* serving threads per worker */
    TUNABLE_WORKERS,
    TUNABLE_OFFLOAD_THREADS, /* maximum per worker */
    TUNABLE_COUNT
};

/* Starts to watch the instance NAME. NULL: out of memory. */
struct watch *watch_open(const char *name);

/* Opens the recording PATH instead; watch_replay_to() then replaces watch_sample(). NULL after a
 * message in WHY. */
struct watch *watch_open_replay(const char *path, char *why, size_t size);
void watch_close(struct watch *watch);

/*
 * Attaches if a daemon runs, and takes a sample. NOW_NS is the monotonic clock, WALL_NS the wall
 * clock; WANTS are bits of enum wants. Returns 0, or -1: out of memory.
 */
int watch_sample(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, unsigned wants);

/*
 * When to call watch_read_log() (monotonic clock): before the next sample, because a log ring holds
 * only the last requests. UINT64_MAX: never.
 */
uint64_t watch_log_due_ns(const struct watch *watch);

/* Counts the new requests, if that is due. */
void watch_read_log(struct watch *watch, uint64_t now_ns, uint64_t wall_ns);

/* Reads only the states of the threads, between two samples. True if a state has changed. */
bool watch_refresh_states(struct watch *watch, uint64_t now_ns);

/* The wanted value of TUNABLE, read from the segment now; 0: no daemon. */
uint32_t watch_wanted(const struct watch *watch, enum tunable tunable);

/* The wanted minimum of offload threads per worker, read from the segment now; 0: no daemon. */
uint32_t watch_offload_min(const struct watch *watch);

/* The alerts, whose rules every sample evaluates. */
struct alerts *watch_alerts(struct watch *watch);

/* Adds a change of an alert to the events and the marks. */
void watch_add_alert(struct watch *watch, const struct alert_record *record);

/*
 * Adds the note TEXT about the moment WALL_NS to the events, the marks and the recording, if there
 * is one. Returns 0, or -1 with a message in WHY: recording has then stopped.
 */
int watch_add_note(struct watch *watch, const char *text, uint64_t now_ns, uint64_t wall_ns,
                   char *why, size_t size);

/* Starts to record into the new file PATH. Returns 0, or -1 with a message in WHY. */
int watch_record_to(struct watch *watch, const char *path, char *why, size_t size);

/*
 * Adds the current state of the segment to the recording, if there is one, even while the display
 * is frozen. Returns 0, or -1 with a message in WHY: recording has then stopped.
 */
int watch_record(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, char *why, size_t size);

/* Stops recording. Returns 0, or -1 with a message in WHY if the file is incomplete. */
int watch_record_end(struct watch *watch, char *why, size_t size);

/* Bytes recorded; 0: no recording. */
uint64_t watch_recorded(const struct watch *watch);

/*
 * Plays to AT_NS, counted from the start of the recording: from the current moment or, if that is later,
 * from the start. Everything is then as if the recording had been watched to this moment; marks that
 * are later stay known. Result as watch_sample().
 */
int watch_replay_to(struct watch *watch, uint64_t at_ns, unsigned wants);

/* The recording being replayed, or NULL. */
const struct replay *watch_replay(const struct watch *watch);
bool watch_replays(const struct watch *watch);

/*
 * Moves BACK seconds back in the history: until the next sample, watch_model() and the history are
 * those of that second. Returns how many seconds back it is: at most the oldest second, 0: at the
 * last sample.
 */
size_t watch_look_back(struct watch *watch, size_t back);

/* See server_info_show_subject(). */
int watch_show_subject(struct watch *watch, const struct subject_term *terms, size_t count);
void watch_hide_subject(struct watch *watch);

/* See server_info_choose_hosts(). */
int watch_choose_hosts(struct watch *watch, const struct subject_term *terms, size_t count);

const struct source *watch_source(const struct watch *watch);
const struct server_info *watch_info(const struct watch *watch);

/* Those of the last sample, or of the second chosen by watch_look_back(). */
const struct model *watch_model(const struct watch *watch);
const struct process_table *watch_processes(const struct watch *watch);

/*
 * The origins of the configuration values: the daemon's JSON answer to `config`; "": unknown. They
 * are not in shared memory. When watch_needs_origins() returns true (once per configuration, if
 * WANTS has WANT_ORIGINS or a session is recorded), the caller requests it and passes the answer
 * (copied) to watch_set_origins().
 */
const char *watch_origins(const struct watch *watch);
bool watch_needs_origins(struct watch *watch, unsigned wants);
void watch_set_origins(struct watch *watch, const char *answer);

#endif
