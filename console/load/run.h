/*
 * One load run: progress reported by wsload and metrics published by the server on one time axis,
 * and marks for changes (load_run_*, pure); the stored runs (load_store_*); a run from start to end
 * (load_process_*).
 */
#ifndef CONSOLE_LOAD_RUN_H
#define CONSOLE_LOAD_RUN_H

#include "console/data/child.h"
#include "console/load/settings.h"
#include "console/scene/scene.h"
#include "console/ui/graph.h"

#include <stdbool.h>
#include <stdint.h>

enum { LOAD_POINTS_MAX = 1200, LOAD_MARKS_MAX = 64, LOAD_MARK_BYTES = 80 };

/* Rates per second, latencies in ns. NAN: unknown. */
struct load_point {
    double at_s; /* seconds since the start of the run */
    double client_rate, client_p50_ns, client_p99_ns;
    double server_rate, server_p50_ns, server_p99_ns;
    double connections; /* established, of the client */
};

struct load_mark {
    double at_s;
    char text[LOAD_MARK_BYTES];
};

/* From the client's last progress line; at the end from its report. */
struct load_totals {
    double elapsed_s, done_percent;
    double requests_per_s;
    double p50_ns, p90_ns, p99_ns, max_ns;
    uint64_t begun, answered, failed, bad_statuses, unanswered;
    uint64_t connections, connections_up;
    double rate_wanted; /* 0: unlimited */
};

enum load_check {
    LOAD_CHECK_NONE,      /* the target is another server, or there is nothing to compare */
    LOAD_CHECK_EQUAL,     /* both ends counted the same */
    LOAD_CHECK_OPEN,      /* the server also counted requests that were in progress at the end */
    LOAD_CHECK_OTHERS,    /* the server also counted requests of other clients */
    LOAD_CHECK_DIFFERENT, /* the server counted fewer than were answered */
};

struct load_run {
    uint64_t started_ns; /* wall clock */
    struct load_settings settings;
    char url[LOAD_TEXT_BYTES];
    char server[64];                      /* instance and version */
    bool own_server;                      /* the target is the server on the screen */
    bool finished;                        /* no more input will follow */
    int wsload_status;                    /* its exit status */
    char note[200];                       /* first note of the report; "": none */
    char failure[256];                    /* error message of wsload; "": none */
    uint64_t server_before, server_after; /* the server's request counter */
    struct load_totals totals;
    double spacing_s; /* minimum distance of points; doubles when LOAD_POINTS_MAX are used */
    size_t point_count, mark_count;
    struct load_point point[LOAD_POINTS_MAX];
    struct load_mark mark[LOAD_MARKS_MAX];
};

/* The server's metrics at the time of a progress line. */
struct load_server_sample {
    double rate, p50_ns, p99_ns;
};

void load_run_begin(struct load_run *run, const struct load_settings *settings, const char *url,
                    uint64_t wall_ns);

/*
 * Processes a line from wsload. Returns true for progress (JSON). False: the reply to a change,
 * which becomes a mark, or other text, which is kept as the error message.
 */
bool load_run_progress(struct load_run *run, const char *line,
                       const struct load_server_sample *server);

/* Processes the final report (JSON, SIZE bytes). If it is invalid, the last progress is kept. */
void load_run_report(struct load_run *run, const char *report, size_t size);

void load_run_mark(struct load_run *run, double at_s, const char *text);

/* Compares the request counts of client and server. */
enum load_check load_run_check(const struct load_run *run);

/* The result of the check as a sentence; "" if there is none. Returns BUFFER. */
char *load_run_check_text(const struct load_run *run, char *buffer, size_t size);

/* The caller owns the reference. */
json_t *load_run_json(const struct load_run *run);

/* Returns 0, or -1 if OBJECT is not a run. */
int load_run_from_json(struct load_run *run, const json_t *object);

/* Length of the time axis: the elapsed or, while it runs, the planned time; at least 5 s. */
double load_run_span_s(const struct load_run *run);

/*
 * Stored load runs, newest first: one JSON file each in $XDG_STATE_HOME/webserverd/runs (default
 * ~/.local/state/webserverd/runs). Single thread.
 */
enum { LOAD_STORE_MAX = 200, LOAD_NAME_BYTES = 48 };

/* The summary of a stored run. */
struct load_entry {
    char name[LOAD_NAME_BYTES]; /* file name */
    uint64_t started_ns;        /* wall clock */
    struct load_settings settings;
    char url[LOAD_TEXT_BYTES];
    struct load_totals totals;
    enum load_check check;
};

struct load_store {
    struct load_entry *entries;
    size_t count;
};

/* Reads the directory; files that are not runs are skipped. All functions that return int return 0,
 * or -1 with an error message in WHY. */
int load_store_read(struct load_store *store, char *why, size_t size);
void load_store_release(struct load_store *store);

/* Stores RUN and deletes the oldest runs above LOAD_STORE_MAX. */
int load_store_add(struct load_store *store, const struct load_run *run, char *why, size_t size);

/* Reads the complete run. */
int load_store_get(const struct load_entry *entry, struct load_run *run, char *why, size_t size);

/* Deletes entry I and its file. */
int load_store_remove(struct load_store *store, size_t i, char *why, size_t size);

/* One line of a comparison. */
struct load_difference {
    const char *label;
    double before, after; /* NAN: unknown */
    enum graph_unit unit;
    bool less_is_better;
};

enum { LOAD_DIFFERENCES = 8 };

/* Fills all LOAD_DIFFERENCES lines. Pure. */
void load_compare(const struct load_totals *before, const struct load_totals *after,
                  struct load_difference *differences);

/*
 * A load run from start to end: starts wsload, collects its progress and the server's metrics,
 * marks changes, compares both request counts, and stores the run. Single thread.
 */

enum load_phase {
    LOAD_NOT_RUN,
    LOAD_RUNNING,
    LOAD_SETTLING, /* wsload has exited; the server's count may still change */
    LOAD_DONE,
};

struct load_process {
    struct child child; /* wsload */
    enum load_phase phase;
    struct load_run *run; /* the current or the last one */
    struct load_store *store;
    const struct scene *scene; /* during an update */
    struct controller *controller;
    uint64_t event_ns;     /* time of the last event that was marked */
    uint64_t ended_ns;     /* when wsload exited */
    uint64_t counted;      /* the server's count at the last update */
    uint64_t unchanged_ns; /* since when that count has not changed */
};

/* PROCESS is all zero. Runs are added to STORE (borrowed). Returns 0, or -1 if out of memory. */
int load_process_init(struct load_process *process, struct load_store *store);

/* Stops wsload if it runs, and frees. */
void load_process_release(struct load_process *process);

/* Starts a run, or reports why it cannot. */
void load_process_start(struct load_process *process, const struct load_settings *settings,
                        const struct scene *scene);

/* Call after each sample, and when the child's descriptor is readable. */
void load_process_update(struct load_process *process, const struct scene *scene);

/* True until both counts have been compared. */
bool load_process_active(const struct load_process *process);

#endif
