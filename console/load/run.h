/*
 * One load run as it is drawn, kept and compared: what the client said of itself in its progress
 * lines, what the server published meanwhile, both on one time axis, and the moments when something
 * was changed. Pure; the console's only thread.
 */
#ifndef CONSOLE_LOAD_RUN_H
#define CONSOLE_LOAD_RUN_H

#include "console/load/settings.h"

#include <stdbool.h>
#include <stdint.h>

enum { LOAD_POINTS_MAX = 1200, LOAD_MARKS_MAX = 64, LOAD_MARK_BYTES = 80 };

/* Rates are per second; latencies ns; NAN: not known. */
struct load_point {
    double at_s; /* since the run's begin */
    double client_rate, client_p50_ns, client_p99_ns;
    double server_rate, server_p50_ns, server_p99_ns;
    double connections; /* the client's, up */
};

struct load_mark {
    double at_s;
    char text[LOAD_MARK_BYTES];
};

/* The client's last words: of a progress line, then of its report. */
struct load_totals {
    double elapsed_s, done_percent;
    double requests_per_s;
    double p50_ns, p90_ns, p99_ns, max_ns;
    uint64_t begun, answered, failed, bad_statuses, unanswered;
    uint64_t connections, connections_up;
    double rate_wanted;  /* 0: as fast as answers come */
    double client_cores; /* NAN: not told */
};

enum load_check {
    LOAD_CHECK_NONE,  /* another server's, or nothing to compare */
    LOAD_CHECK_EQUAL, /* the server counted what the client got */
    LOAD_CHECK_OPEN,  /* it also counted answers that the client hung up on at the end */
    LOAD_CHECK_DIFFERENT,
};

struct load_run {
    uint64_t started_ns; /* wall clock */
    struct load_settings settings;
    char url[LOAD_TEXT_BYTES];
    char server[64];   /* instance and version */
    bool own_server;   /* the target is the server that is watched */
    bool finished;     /* the report has been taken, or there will be none */
    int exit_status;   /* of wsload */
    char note[200];    /* of the report: what to make of it; "" if there is none */
    char failure[256]; /* what it said when it could not run; "" if all is well */
    uint64_t server_before, server_after; /* requests that the server had counted */
    struct load_totals totals;
    double spacing_s; /* least distance of points; doubles when they have filled their room */
    size_t point_count, mark_count;
    struct load_point point[LOAD_POINTS_MAX];
    struct load_mark mark[LOAD_MARKS_MAX];
};

/* What the server says at the moment of a progress line. */
struct load_server_sample {
    double rate, p50_ns, p99_ns;
};

void load_run_begin(struct load_run *run, const struct load_settings *settings, const char *url,
                    uint64_t wall_ns);

/*
 * Takes a progress line (JSON). False when it is none: the answer to a change, which becomes a mark,
 * or text, which is kept as what went wrong.
 */
bool load_run_progress(struct load_run *run, const char *line,
                       const struct load_server_sample *server);

/* Takes the report (JSON, SIZE bytes) at the end; without one the last progress stands. */
void load_run_report(struct load_run *run, const char *report, size_t size);

/* Notes that something was changed AT_S seconds after the begin. */
void load_run_mark(struct load_run *run, double at_s, const char *text);

/* Whether the two counts agree. */
enum load_check load_run_check(const struct load_run *run);

/* For keeping. The reference is the caller's; load returns -1 when it is no run. */
json_t *load_run_json(const struct load_run *run);
int load_run_from_json(struct load_run *run, const json_t *object);

/* The time that the axis should span: that of the run so far, or as planned if that is longer. */
double load_run_span_s(const struct load_run *run);

#endif
