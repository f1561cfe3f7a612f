/*
 * What a run is to do, as the command line said it. Made before the run, read by all threads,
 * changed by none. Texts belong to the command line.
 */
#ifndef LOADGEN_PLAN_H
#define LOADGEN_PLAN_H

#include "loadgen/plan/condition.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PLAN_URLS_MAX = 64,
    PLAN_HEADERS_MAX = 64,
    PLAN_STAGES_MAX = 64,
    PLAN_CONDITIONS_MAX = 16,
    PLAN_STATUSES_MAX = 16,
    PLAN_REDIRECTIONS_MAX = 16,
    PLAN_CONNECTIONS_MAX = 1000000,
    PLAN_THREADS_MAX = 1024,
    PLAN_DIGEST_BYTES = 32,
    PLAN_PERCENTILES_MAX = 16,
    PLAN_NUMBERS_MAX = 32,
    PLAN_ROUNDS_MAX = 1000,
};

enum plan_format {
#define FORMAT(id, name, ending) PLAN_FORMAT_##id,
#include "loadgen/plan/formats.def"
#undef FORMAT
    PLAN_FORMAT_COUNT
};

enum plan_engine { PLAN_ENGINE_CURL, PLAN_ENGINE_RAW };

enum plan_http { PLAN_HTTP_1_1, PLAN_HTTP_1_0, PLAN_HTTP_2 };

enum plan_order {
    PLAN_ORDER_SEQUENCE, /* as listed, round and round */
    PLAN_ORDER_RANDOM,   /* by weight */
};

/* A part of the run with a rate (or a number of connections) of its own. */
struct plan_stage {
    uint64_t duration_ms;
    double value;
};

enum plan_command {
    PLAN_RUN,
    PLAN_SWEEP, /* wsload sweep: one run after the other, over connections and more */
};

enum plan_keepalive { PLAN_KEEPALIVE_ON, PLAN_KEEPALIVE_OFF, PLAN_KEEPALIVE_BOTH };

struct plan_numbers {
    uint32_t value[PLAN_NUMBERS_MAX]; /* rising */
    size_t count;
};

/* What a sweep goes over. */
struct plan_sweep {
    struct plan_numbers connections;
    enum plan_keepalive keepalive;
    struct plan_numbers server_threads, server_workers; /* none: as they are */
};

/* What an answer has to be. */
struct plan_checks {
    uint16_t statuses[PLAN_STATUSES_MAX];
    size_t status_count; /* 0: any of 2xx and 3xx */
    bool size_known, digest_known;
    uint64_t size;                     /* of the body as it came, bytes */
    uint8_t digest[PLAN_DIGEST_BYTES]; /* SHA-256 of the body as it came */
};

struct plan {
    enum plan_command command;
    enum plan_engine engine;

    /* What is sent. */
    const char *urls[PLAN_URLS_MAX];
    size_t url_count;
    const char *urls_file; /* a list of URLs, or an access log; NULL: none */
    enum plan_order order;
    const char *replay_file; /* an access log whose times count; NULL: none */
    double replay_speed;     /* how much faster than it happened */
    const char *method;
    const char *headers[PLAN_HEADERS_MAX]; /* "Name: value" */
    size_t header_count;
    const char *body;      /* NULL: none */
    const char *body_file; /* where the body is read from; NULL: none */
    const char *range;     /* "0-99" of the bytes; NULL: all */
    const char *user;      /* "name:password"; NULL: none */
    bool gzip;             /* Accept-Encoding: gzip */

    /* How it connects. */
    enum plan_http http;
    bool keepalive;
    uint32_t requests_per_connection;                /* 0: no limit */
    const char *unix_socket;                         /* NULL: TCP */
    const char *redirections[PLAN_REDIRECTIONS_MAX]; /* HOST1:PORT1:HOST2:PORT2 */
    size_t redirection_count;
    const char *proxy;                /* [SCHEME://][NAME:PASS@]HOST[:PORT]; NULL: none */
    const char *interface;            /* or an address or name of this host; NULL: any */
    uint16_t local_port, local_ports; /* the first port of connections and how many; 0: any */
    int family;                       /* AF_INET, AF_INET6 or AF_UNSPEC */
    bool insecure;                    /* certificates are not checked */
    const char *ca_file, *certificate, *key;

    /* How much, and for how long. */
    uint32_t connections_asked;
    uint32_t connections; /* used: never more than there are requests */
    uint32_t threads_asked;
    uint32_t threads;     /* used: never more than connections */
    uint64_t requests;    /* counted ones; 0: no limit */
    uint64_t duration_ms; /* of the counted part; 0: no limit */
    uint64_t warmup_ms;   /* before it, not counted */
    bool warmup_given;
    double rate; /* requests a second in all; 0: closed loop */
    bool poisson;
    uint64_t ramp_ms; /* rate or connections rise evenly for that long */
    struct plan_stage stages[PLAN_STAGES_MAX];
    size_t stage_count;
    bool stages_of_connections;
    uint64_t think_min_ms, think_max_ms;
    uint64_t timeout_ms; /* for a whole request, connecting included */
    uint64_t connect_timeout_ms;
    uint64_t grace_ms; /* how long a stopped run waits for the answers under way */

    /* How often. */
    uint32_t rounds; /* 1: once */
    struct plan_sweep sweep;

    /* What is said of it. */
    struct plan_checks checks;
    struct condition fail_if[PLAN_CONDITIONS_MAX], abort_on[PLAN_CONDITIONS_MAX];
    size_t fail_if_count, abort_on_count;
    double max_errors; /* percent of all requests */
    int control_fd;    /* lines that change the run; -1: none */
    enum plan_format format;
    const char *output;                       /* the report's file; NULL: standard output */
    double percentiles[PLAN_PERCENTILES_MAX]; /* that reports give, in percent */
    size_t percentile_count;                  /* 0: the usual ones */
    const char *compare; /* a report that is held against the one of urls[0]; NULL: a run */
    const char *label;   /* what the live view begins with; NULL: nothing */
    bool progress_lines; /* JSON lines on standard error instead of the live view */
    bool quiet;
    bool no_tui;   /* one line instead of the live view */
    bool no_color; /* none, wherever it would be */
    bool unicode;  /* the terminal's characters are those of UTF-8; for main() to find out */
    bool verbose;  /* how the first request went */
    uint32_t frames_per_second;
};

/* What holds when nothing is said: a run from this process with CORES client threads. */
void plan_begin(struct plan *plan, uint32_t cores);

/* Makes it CONNECTIONS that are asked for, and what depends on that; requests and rate hold already. */
void plan_set_connections(struct plan *plan, uint32_t connections);

/* Whether an answer with STATUS was one that is called good. */
bool plan_is_good_status(const struct plan_checks *checks, uint32_t status);

/* Whether requests are sent when they are due, not when an answer has come. */
static inline bool plan_is_open(const struct plan *plan)
{
    return plan->rate > 0 || plan->replay_file != NULL ||
           (plan->stage_count > 0 && !plan->stages_of_connections);
}

#endif
