/*
 * The environment of an experiment. An experiment starts private servers, measures, and fills its
 * findings. The lab releases the servers and all memory when the experiment ends, even if it fails.
 * Main thread.
 */
#ifndef LOADGEN_LAB_LAB_H
#define LOADGEN_LAB_LAB_H

#include "common/macros.h"
#include "common/private_server.h"

#include "loadgen/lab/findings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    LAB_SERVERS = 9,
    LAB_SERIES = 8,
    LAB_ALLOCATIONS = 32,
    LAB_WHY = 640,
    LAB_LABEL = 48, /* bytes of a label of a line or a row */
    LAB_TITLE = 96, /* bytes of a title of a table or a plot */
    LAB_SMALL_BYTES = 1024,
    LAB_TRIAL_MS = 3000, /* the default of trial_ms */
    LAB_TRIAL_QUICK_MS = 400,
    LAB_BARE_SERVERS = 4,
};

/* The path of a file of LAB_SMALL_BYTES on every server of the lab. */
#define LAB_SMALL "/small.html"

/* The path of work on bare servers. */
#define LAB_SLOW "/slow"

struct trials;

struct lab {
    const char *program;  /* path of webserverd; NULL: search for it */
    bool quick;           /* fewer and shorter trials, smaller sets */
    uint32_t rounds;      /* how often each point is measured */
    uint64_t trial_ms;    /* without the warm-up */
    uint64_t until_ms;    /* time for added rounds in an experiment; 0: none are added */
    uint64_t until_ns;    /* the end of that time in the current experiment; 0: not begun */
    double constant_rate; /* requests per second; 0: half of the maximum */
    uint32_t cores;       /* available to this process */
    bool shows_progress;  /* one line on standard error, overwritten */
    bool asks;            /* the reader, on the terminal, for predictions */
    bool interrupted;
    char why[LAB_WHY]; /* the last failure */

    /* The current experiment: its name, results, and what is released at its end. */
    const char *experiment;
    struct published_own own;
    struct private_server *server[LAB_SERVERS];
    size_t servers;
    struct bare_server *bare[LAB_BARE_SERVERS];
    size_t bare_count;
    struct trials *trials[LAB_SERIES];
    size_t series;
    void *allocation[LAB_ALLOCATIONS];
    size_t allocation_count;
};

struct experiment {
    const char *name, *title;
    const char *question; /* shown in the list of experiments */
    /* Returns 0, or -1: interrupted, or failed with the lab's WHY. */
    int (*conduct)(struct lab *lab, struct document *findings);
};

/* experiment_NAME() of experiments.def, for conduct. */
#define EXPERIMENT(name, title, question)                                                          \
    int experiment_##name(struct lab *lab, struct document *findings);
#include "loadgen/lab/experiments.def"
#undef EXPERIMENT

/* Conducts EXPERIMENT and releases its servers and memory. Returns as conduct(). */
int lab_conduct(struct lab *lab, const struct experiment *experiment, struct document *findings);

/* ---- For experiments ---- */

/* Writes WHY and returns -1. */
PRINTF_LIKE(2, 3)
int lab_fail(struct lab *lab, const char *format, ...);

/* Whether a signal has arrived since the start of the lab; experiments must then return -1. */
bool lab_is_interrupted(struct lab *lab);

/* Zeroed memory until the end of the experiment, or NULL with WHY. */
void *lab_allocate(struct lab *lab, size_t count, size_t bytes);

/*
 * A private server until the end of the experiment, which serves LAB_SMALL. lab_create_server()
 * does not start it; lab_start() does, with OPTIONS; lab_server() does both. Returns NULL or -1
 * with WHY.
 */
struct private_server *lab_create_server(struct lab *lab);
int lab_start(struct lab *lab, struct private_server *server, const char *const *options);
struct private_server *lab_server(struct lab *lab, const char *const *options);

/*
 * A fixed number of requests: WHOLE, but in proportion fewer if the trials are shorter than by
 * default, and at least LEAST.
 */
uint64_t lab_requests(const struct lab *lab, uint64_t whole, uint64_t least);

/*
 * Empties the access log of SERVER: those of many trials could fill the disk. The server opens it
 * with O_APPEND, so truncation is safe. No effect without an access log.
 */
void lab_truncate_log(const struct private_server *server);

/* Sends the control command LINE. Returns 0, or -1 with WHY. */
int lab_command(struct lab *lab, const struct private_server *server, const char *line);

/* Anonymous memory of all processes of SERVER and its segment, in bytes. */
uint64_t lab_memory(const struct private_server *server);

/*
 * Records a value for the comparison with published figures: POINT and LABEL as in published.def,
 * not copied. A measure is recorded by lab_record_measure().
 */
void lab_record_value(struct lab *lab, const char *point, const char *label, double value);
void lab_record_measure(struct lab *lab, const char *point, enum measure measure, double value);

/* Replaces the progress line. */
PRINTF_LIKE(2, 3)
void lab_progress(const struct lab *lab, const char *format, ...);

/*
 * ---- The bare server: the baseline of the CPU time per response, and a model of a server ----
 *
 * A process that answers every read with the same bytes. It parses, counts and logs nothing, so
 * growth of its CPU time per request with the number of connections is due to the kernel. One
 * thread with epoll on its own port of 127.0.0.1. It dies with this process.
 */

struct bare_server;

enum bare_writes {
    BARE_ONE_WRITE,     /* a response is one write */
    BARE_TWO_WRITES,    /* head and body, with Nagle's algorithm */
    BARE_TWO_NODELAY,   /* head and body, with TCP_NODELAY */
    BARE_TWO_CONTINUED, /* the head with MSG_MORE, then the body */
};

struct bare_way {
    uint64_t work_ns; /* a request for LAB_SLOW holds the thread for this time */
    bool sleeps;      /* which it sleeps, as if it waited for a disk; false: it computes */
    enum bare_writes writes;
};

/*
 * A bare server until the end of the experiment, or NULL with WHY. Its bodies are as long as
 * LAB_SMALL. This process must be single-threaded when it starts.
 */
const struct bare_server *lab_bare_server(struct lab *lab, struct bare_way way);

pid_t bare_server_pid(const struct bare_server *server);
uint16_t bare_server_port(const struct bare_server *server);

#endif
