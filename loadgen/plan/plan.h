/*
 * The plan of a run: the command line as a struct. Filled before the run and constant during it, so
 * that all threads may read it. Strings belong to the command line.
 */
#ifndef LOADGEN_PLAN_H
#define LOADGEN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PLAN_URLS_MAX = 64,
    PLAN_HEADERS_MAX = 64,
    PLAN_STAGES_MAX = 64,
    PLAN_CONDITIONS_MAX = 16,
    PLAN_STATUSES_MAX = 16,
    PLAN_CONNECT_TO_MAX = 16,
    PLAN_CONNECTIONS_MAX = 1000000, /* and streams of all connections */
    PLAN_STREAMS_MAX = 1000,
    PLAN_PAGE_CONNECTIONS = 6, /* of a browser, to a server, over HTTP/1.1 */
    PLAN_PAGE_STREAMS = 100,   /* over HTTP/2, unless --streams is given */
    PLAN_THREADS_MAX = 1024,
    PLAN_DIGEST_BYTES = 32,
    PLAN_PERCENTILES_MAX = 16,
    PLAN_NUMBERS_MAX = 32,
    PLAN_ROUNDS_MAX = 1000,
    PLAN_TIME_MAX_MS = 15 * 24 * 3600 * 1000,
};

/* JSON numbers up to this are exact in all programs. */
#define PLAN_SEED_MAX ((UINT64_C(1) << 53) - 1)

enum plan_format {
#define FORMAT(id, name, ending) PLAN_FORMAT_##id,
#include "loadgen/plan/formats.def"
#undef FORMAT
    PLAN_FORMAT_COUNT
};

enum plan_engine { PLAN_ENGINE_CURL, PLAN_ENGINE_RAW };

/* Clients that hold or waste resources of the server. */
enum plan_hostile {
#define HOSTILE_KIND(id, name) PLAN_HOSTILE_##id,
#include "loadgen/plan/hostile_kinds.def"
#undef HOSTILE_KIND
    PLAN_HOSTILE_KINDS
};

enum plan_http { PLAN_HTTP_1_1, PLAN_HTTP_1_0, PLAN_HTTP_2 };

enum plan_order {
    PLAN_ORDER_SEQUENCE, /* as listed, repeatedly */
    PLAN_ORDER_RANDOM,   /* weights count */
    PLAN_ORDER_EACH,     /* each slot sends the list by itself */
};

/* The order of the rows of a table, or of the passes over a list without one. */
enum plan_rows {
    PLAN_ROWS_SEQUENCE, /* repeatedly */
    PLAN_ROWS_RANDOM,
    PLAN_ROWS_ONCE, /* the run ends with the last row */
};

/* ---- Conditions; any thread ---- */

/*
 * Conditions on the results of a run: "p99>20ms", "rate<1000", "errors>0.1%". --fail-if checks them
 * at the end of the run, --abort-on during it (k6: thresholds).
 *
 *     condition = metric ( ">" | "<" | ">=" | "<=" ) ( value | FACTOR "x" )   (x: times a baseline)
 *     metric    = [ series "." ] ( "p" PERCENT | "mean" | "max" ) | "rate" | "errors" | STATUS
 *     series    = "latency" | "service" | "first_byte" | "connect" | "full_handshake" |
 *                 "resumed_handshake"                                  (latency unless named)
 */
enum condition_metric {
    CONDITION_PERCENTILE,
    CONDITION_MEAN,
    CONDITION_MAX,
    CONDITION_RATE,          /* responses per second */
    CONDITION_ERRORS,        /* number of errors */
    CONDITION_ERROR_PERCENT, /* errors in percent of all requests */
    CONDITION_STATUS,        /* number of responses with one status */
};

enum condition_series {
    CONDITION_LATENCY,
    CONDITION_SERVICE,
    CONDITION_FIRST_BYTE,
    CONDITION_CONNECT,
    CONDITION_FULL_HANDSHAKE,
    CONDITION_RESUMED_HANDSHAKE,
};

struct condition {
    const char *text; /* as written; not owned */
    enum condition_metric metric;
    enum condition_series series;
    double percent;  /* if it is about a CONDITION_PERCENTILE */
    uint32_t status; /* if it is about a CONDITION_STATUS */
    bool above;      /* true: holds above the limit; false: below it */
    bool or_equal;
    bool relative; /* limit is a factor of a baseline until condition_set_baseline() */
    double limit;  /* times: ns */
};

/* Makes the limit of a relative CONDITION absolute: its factor times VALUE, of the baseline. */
void condition_set_baseline(struct condition *condition, double value);

/* Parses TEXT, which must outlive *condition. Returns 0, or -1 with WHY. */
int condition_parse(struct condition *condition, const char *text, char *why, size_t size);

/* ---- The plan ---- */

/* A part of the run with its own rate or number of connections. */
struct plan_stage {
    uint64_t duration_ms;
    double value;
};

enum plan_command {
    PLAN_RUN,
    PLAN_SWEEP, /* wsload sweep: a series of runs over connections and more */
    PLAN_FIND,  /* wsload find: the load that meets a condition */
    PLAN_MERGE, /* wsload merge: one report from the JSON reports urls[] */
};

enum plan_keepalive { PLAN_KEEPALIVE_ON, PLAN_KEEPALIVE_OFF, PLAN_KEEPALIVE_BOTH };

struct plan_numbers {
    uint32_t value[PLAN_NUMBERS_MAX]; /* rising */
    size_t count;
};

/* The dimensions of a sweep. */
struct plan_sweep {
    struct plan_numbers connections;
    enum plan_keepalive keepalive;
    struct plan_numbers server_threads, server_workers; /* numbers to set; empty: unchanged */
};

/* What wsload find varies; the first requires the condition. */
enum plan_find_what { PLAN_FIND_NOTHING, PLAN_FIND_RATE, PLAN_FIND_CONNECTIONS, PLAN_FIND_THREADS };

struct plan_find {
    enum plan_find_what what;
    struct condition condition;
};

/* The expected response. */
struct plan_checks {
    uint16_t statuses[PLAN_STATUSES_MAX];
    size_t status_count; /* 0: any of 2xx and 3xx */
    bool size_known, digest_known;
    uint64_t size;                     /* bytes of the body as received */
    uint8_t digest[PLAN_DIGEST_BYTES]; /* SHA-256 of the body as received */
};

struct plan {
    enum plan_command command;
    enum plan_engine engine;
    bool engine_given;

    /* Requests */
    const char *urls[PLAN_URLS_MAX];
    size_t url_count;
    const char *urls_file;     /* a list of URLs, or an access log; NULL: none */
    const char *har_file;      /* a HAR recording; NULL: none */
    bool page_loads;           /* its pages are loaded as by browsers, one for each connection */
    const char *scenario_file; /* scenarios of several steps; NULL: none */
    enum plan_order order;
    bool order_given, once; /* once: --order once */
    double zipf;            /* --zipf: exponent of a random order by rank; 0: none */
    const char *csv_file;   /* a table of variables; NULL: none */
    enum plan_rows rows;
    bool rows_given;
    const char *replay_file; /* an access log to replay with its timing; NULL: none */
    double replay_speed;     /* factor for recorded times: 2 is twice as fast */
    const char *method;
    const char *headers[PLAN_HEADERS_MAX]; /* "Name: value" */
    size_t header_count;
    const char *body;      /* NULL: none */
    const char *body_file; /* NULL: none */
    const char *range;     /* byte range, such as "0-99"; NULL: none */
    const char *user;      /* "name:password"; NULL: none */
    bool cookies;          /* each slot keeps cookies */
    bool gzip;             /* Accept-Encoding: gzip */

    /* Connections */
    enum plan_http http;
    /*
     * HTTP/2: concurrent requests per connection. Page loads over HTTP/1.1: connections of a
     * browser. Else 1.
     */
    uint32_t streams;
    bool keepalive;
    uint32_t requests_per_connection;            /* 0: no limit */
    const char *unix_socket;                     /* NULL: TCP */
    const char *connect_to[PLAN_CONNECT_TO_MAX]; /* --connect-to: HOST1:PORT1:HOST2:PORT2 */
    size_t connect_to_count;
    const char *proxy;                /* [SCHEME://][NAME:PASS@]HOST[:PORT]; NULL: none */
    const char *interface;            /* or a local address; NULL: any */
    uint16_t local_port, local_ports; /* the first port and the number of ports; 0: any */
    int family;                       /* AF_INET, AF_INET6 or AF_UNSPEC */
    bool insecure;                    /* do not verify certificates */
    const char *ca_file, *certificate, *key;
    uint32_t tls_max;    /* highest TLS version: 12 or 13; 0: any */
    const char *ciphers; /* OpenSSL names, of TLS 1.2 and TLS 1.3; NULL: any */
    const char *groups;  /* likewise, of the key exchange */
    bool resume;         /* resume TLS sessions on further connections */

    /* Load and duration */
    uint32_t connections_requested;
    uint32_t connections; /* used: at most one per request */
    uint32_t threads_requested;
    uint32_t threads;     /* used: at most one per connection */
    uint64_t requests;    /* without the warm-up; 0: no limit */
    uint64_t duration_ms; /* without the warm-up; 0: no limit */
    uint64_t warmup_ms;   /* sent but not counted */
    bool warmup_given;
    double rate; /* requests per second over all threads; 0: closed loop */
    bool poisson;
    uint64_t seed; /* of all random numbers; a run with the same seed has the same */
    bool seed_given;
    uint64_t ramp_ms; /* rate or connections rise linearly for this time */
    struct plan_stage stages[PLAN_STAGES_MAX];
    size_t stage_count;
    bool stages_of_connections;
    uint64_t think_min_ms, think_max_ms;
    bool think_recorded; /* the think times of the recording */
    uint64_t timeout_ms; /* limit of a request, including connecting */
    uint64_t connect_timeout_ms;
    uint64_t wait_ms;  /* how long to wait for a server that starts; 0: not */
    uint64_t grace_ms; /* how long a stopped run waits for responses in flight */

    uint32_t hostile[PLAN_HOSTILE_KINDS]; /* number of clients */

    /* Repetitions */
    uint32_t rounds; /* 1: once */
    struct plan_sweep sweep;
    struct plan_find find;

    /* Checks and reports */
    struct plan_checks checks;
    struct condition fail_if[PLAN_CONDITIONS_MAX], abort_on[PLAN_CONDITIONS_MAX];
    size_t fail_if_count, abort_on_count;
    const char *baseline; /* a JSON report, for conditions such as p99>1.1x; NULL: none */
    double max_errors;    /* percent of all requests */
    const char *log_file; /* a line for each request; NULL: none */
    const char *metrics;  /* address at which the numbers are served during the run; NULL: none */
    uint64_t start_ns;    /* the wall clock at which the run begins; 0: at once */
    int control_fd;       /* reads changes of the load; -1: none */
    enum plan_format format;
    const char *output;                       /* the report's file; NULL: standard output */
    double percentiles[PLAN_PERCENTILES_MAX]; /* percentiles in reports, in percent */
    size_t percentile_count;                  /* 0: the defaults */
    const char *compare; /* --compare: a report to compare with the report urls[0]; NULL: a run */
    const char *command_line; /* without secrets; NULL: not known */
    const char *label;        /* title of the live view; NULL: none */
    bool progress_lines;      /* JSON lines on standard error instead of the live view */
    bool quiet;
    bool unicode; /* the terminal displays UTF-8; set by main() */
    bool verbose; /* print the transcript of the first request */
};

/* Sets the defaults; CORES client threads. */
void plan_begin(struct plan *plan, uint32_t cores);

/* The number of requests that CONNECTIONS, or browsers, carry at a time. */
static inline uint32_t plan_slots(const struct plan *plan, uint32_t connections)
{
    return connections * plan->streams;
}

/* How many of these a connection carries. */
static inline uint32_t plan_slots_of_connection(const struct plan *plan)
{
    return plan->http == PLAN_HTTP_2 ? plan->streams : 1;
}

/* The sockets that CONNECTIONS, or browsers, need. */
static inline uint32_t plan_sockets(const struct plan *plan, uint32_t connections)
{
    return plan_slots(plan, connections) / plan_slots_of_connection(plan);
}

/*
 * Sets the connections and the threads that depend on them. Requests and rate must be set already.
 */
void plan_set_connections(struct plan *plan, uint32_t connections);

/* The number of hostile clients of all kinds. */
static inline uint32_t plan_hostile_clients(const struct plan *plan)
{
    uint32_t sum = 0;

    for (int kind = 0; kind < PLAN_HOSTILE_KINDS; kind++)
        sum += plan->hostile[kind];
    return sum;
}

/* Adds the statuses of LIST, "200,304". Returns false if they are invalid or too many. */
bool plan_parse_statuses(struct plan_checks *checks, const char *list);

/* Parses a think time, "1s" or "500ms-2s". Returns false if it is invalid. */
bool plan_parse_think(const char *think, uint64_t *min_ms, uint64_t *max_ms);

/* Whether STATUS is an expected one. */
bool plan_accepts_status(const struct plan_checks *checks, uint32_t status);

/* Whether this is an open loop: requests are sent when due, not after the previous response. */
static inline bool plan_is_open(const struct plan *plan)
{
    return plan->rate > 0 || plan->replay_file != NULL ||
           (plan->stage_count > 0 && !plan->stages_of_connections);
}

#endif
