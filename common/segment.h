/*
 * Layout of the shared memory segment /webserverd.NAME, in which a server publishes its state.
 * webserverd-shm(7) describes the format for readers and writers in any language.
 *
 * Each page has one writer. A process maps its own pages read-write and others read-only
 * (segment_restrict_worker(), segment_restrict_logger()); the master maps all of it read-write. A
 * worker does not map what it need not read: what other workers log, do and count.
 *
 *   ┌────────────────┐ 0
 *   │ header         │ magic, version, process, section table; `ready` is stored last
 *   │ METRICS        │ one entry per metric: name, unit, kind, help      } so that readers can
 *   │ STATES         │ one entry per thread state: letter, name, help    } show unknown ones
 *   │ WORKER_SLOTS   │ the worker of each slot, as the master knows it
 *   │ THREAD_SLOTS   │ which thread slots are reserved and in use
 *   │ MASTER         │ configured sizes; the master's metrics
 *   │ RATE           │ the rate limit in force
 *   │ ADDRESS_LIMITS │ limits of single clients
 *   │ CHALLENGE      │ the ACME challenge that proves control of a name
 *   │ MAINTENANCE    │ hosts whose requests are answered 503
 *   ├────────────────┤ not mapped by workers
 *   │ EVENTS         │ the master's event ring
 *   │ HISTORY        │ one sample per second, 15 minutes
 *   │ CONFIG         │ the configuration in force, as text
 *   │ CERTIFICATES   │ the certificates in use
 *   │ HOSTS          │ the hosts that threads count
 *   │ PROCESSES      │ memory and descriptors of each process
 *   ├────────────────┤ written by the logger
 *   │ LOGGER         │ the logger's metrics and the write in progress
 *   │ LOG_CURSORS    │ its position in each log ring
 *   ├────────────────┤ not mapped by workers
 *   │ EVENT_CURSORS  │ its position in each event ring
 *   │ LOGGER_EVENTS  │ its event ring
 *   ├────────────────┤ written by all workers
 *   │ RATE_BUCKETS   │ use of the rate limit by each client address
 *   ├────────────────┤ from here on memory is reserved per slot; written by the slot's worker
 *   │ WORKERS        │ worker slot 0: block, then QUEUE_WAITS, CACHE, WORKER_EVENTS;  slot 1 …
 *   ├────────────────┤
 *   │ CLIENTS        │ worker slot 0: its connections by client address;  slot 1 …
 *   ├────────────────┤
 *   │ THREADS        │ thread slot 0: block, then LATENCY, HITS, RINGS;  slot 1 …
 *   ├────────────────┤
 *   │ HOST_COUNTS    │ thread slot 0: what it counted for each entry of HOSTS;  slot 1 …
 *   ├────────────────┤ written by the master, memory only after an upgrade; not mapped by workers
 *   │ EARLIER        │ what earlier masters counted: the rest, then thread slot 0;  slot 1 …
 *   │ EARLIER_HOSTS  │ what they counted for each entry of HOSTS
 *   └────────────────┘
 *
 * A section is {kind, offset, stride, entry size, count}: entry i begins at offset + i * stride.
 * The sections of one slot are adjacent and have the same stride. Each worker slot has the same
 * number of thread slots: thread slot w * threads + t is thread t of worker slot w. Servers of
 * other programs have the required sections (enum segment_kind) and perhaps others.
 *
 * The segment contains no pointers and no locks. Unless noted, each word has one writer, and stores
 * are relaxed unless they publish something else. Counters are never reset: the next user of a slot
 * continues them, so sums over all reserved slots only grow. The master zeroes the gauges of a dead
 * worker. Readers access reserved slots only. EARLIER continues the totals over an upgrade.
 *
 * Sizes are not read back: offsets and counts are in the private memory of each process (struct
 * segment), which checked them once. All other values may be anything; a process that does not
 * trust their writer copies and checks them before it uses them.
 *
 * Versions: a reader rejects another major version. A minor version appends sections, metrics and
 * fields. METRICS says where each value is.
 */
#ifndef COMMON_SEGMENT_H
#define COMMON_SEGMENT_H

#include "common/event_ring.h"
#include "common/histogram.h"
#include "common/instance.h"
#include "common/log_ring.h"
#include "common/macros.h"
#include "common/span.h"
#include "common/tables.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SEGMENT_MAGIC UINT64_C(0x3147455356525357) /* "WSRVSEG1" */

enum {
    SEGMENT_MAJOR = 3,
    SEGMENT_MINOR = 2,
    SEGMENT_SECTIONS_MAX = 64,
    SEGMENT_WORK_WORDS = 12,       /* text of the current work: 95 bytes and the NUL */
    SEGMENT_CACHE_PATH_WORDS = 26, /* path: 207 bytes and the NUL */
    SEGMENT_OFFLOAD_THREADS = 64,  /* each worker has as many slots */
    SEGMENT_HISTORY_SAMPLES = 900,
    SEGMENT_CONFIG_BYTES = 64 * 1024,
    SEGMENT_HOSTS_MAX = 16384,
    SEGMENT_ADDRESS_LIMITS_MAX = 64,
    SEGMENT_HOST_NAME_WORDS = 32, /* name: 255 bytes and the NUL */
    SEGMENT_TOKEN_WORDS = 16,     /* token: 127 bytes and the NUL */
    SEGMENT_THUMBPRINT_WORDS = 6, /* thumbprint: 43 bytes, and NULs */
    SEGMENT_CERTIFICATES_MAX = 128,
    SEGMENT_ISSUER_WORDS = 16,      /* issuer: 127 bytes and the NUL */
    SEGMENT_FAILURE_WORDS = 24,     /* last error: 191 bytes and the NUL */
    SEGMENT_PAGE_BYTES = 32 * 1024, /* of maintenance */
    SEGMENT_THREAD_NAME = 16,       /* bytes of an entry of NAMES, the NUL included */
    SEGMENT_MASTER_EVENTS = 1024,   /* slots of the event rings */
    SEGMENT_CHILD_EVENTS = 256,
};

#define SEGMENT_NO_WORKER UINT32_MAX

/* Up to 31: sections that servers of other programs may have, too; the first eight are required. */
enum segment_kind {
    SEGMENT_METRICS = 1,
    SEGMENT_STATES,
    SEGMENT_WORKER_SLOTS,
    SEGMENT_THREAD_SLOTS,
    SEGMENT_MASTER,
    SEGMENT_WORKERS,
    SEGMENT_THREADS,
    SEGMENT_LATENCY,
    SEGMENT_RINGS,
    SEGMENT_EVENTS,
    SEGMENT_NAMES,
    SEGMENT_QUEUE_WAITS,
    SEGMENT_HISTORY = 32,
    SEGMENT_CONFIG,
    SEGMENT_RATE,
    SEGMENT_ADDRESS_LIMITS,
    SEGMENT_CHALLENGE,
    SEGMENT_CERTIFICATES,
    SEGMENT_HOSTS,
    SEGMENT_LOGGER,
    SEGMENT_LOG_CURSORS,
    SEGMENT_EVENT_CURSORS,
    SEGMENT_LOGGER_EVENTS,
    SEGMENT_RATE_BUCKETS,
    SEGMENT_CACHE,
    SEGMENT_CLIENTS,
    SEGMENT_WORKER_EVENTS,
    SEGMENT_HITS,
    SEGMENT_HOST_COUNTS,
    SEGMENT_EARLIER,
    SEGMENT_EARLIER_HOSTS,
    SEGMENT_PROCESSES,
    SEGMENT_MAINTENANCE,
    SEGMENT_KIND_COUNT
};

struct segment_section {
    uint32_t kind; /* enum segment_kind */
    uint32_t count;
    uint64_t offset;     /* bytes from the start of the segment */
    uint64_t stride;     /* bytes from one entry to the next */
    uint64_t entry_size; /* bytes of an entry; at most stride */
};

/* Written by the master before `ready`, except for `stopped` and `listening`. */
struct segment_header {
    uint64_t magic;
    uint16_t major, minor;
    uint32_t header_size;
    uint64_t total_size;
    uint64_t generation;  /* differs at every start of the daemon */
    uint64_t started_ns;  /* wall clock */
    uint64_t start_ticks; /* see process_start_ticks(); detects a reused master_pid */
    int32_t master_pid;
    _Atomic uint32_t ready;   /* 1 when the header and the sections are initialised (release) */
    _Atomic uint32_t stopped; /* 1 after a clean exit */
    uint32_t section_count;
    uint32_t metric_count;
    uint32_t state_count;
    uint32_t outcome_count; /* histograms in each entry of LATENCY */
    uint32_t cache_entries; /* entries in each CACHE and HITS table */
    char name[64];
    char version[32];
    char socket_path[INSTANCE_PATH_MAX];
    char listening[256]; /* addresses, separated by spaces; cut when longer */
    uint32_t unused;
    struct segment_section section[SEGMENT_SECTIONS_MAX];
};

/* An entry of METRICS. */
struct segment_metric {
    char name[32];
    char label[16];
    char help[128];
    uint8_t scope, kind, unit, reserved;
    uint32_t offset; /* where the value is in an entry of the section of its scope */
};

/* An entry of STATES. */
struct segment_state {
    char letter;
    char name[15];
    char help[64];
};

/* A reserved slot has memory and valid counters, whether in use or not. Written by the master. */
struct segment_worker_slot {
    _Atomic uint32_t reserved; /* 0 or 1 (release) */
    _Atomic uint32_t state;    /* enum worker_state */
    _Atomic int32_t pid;
    _Atomic uint32_t starts; /* number of workers started in this slot */
    _Atomic uint32_t threads_wanted;
    _Atomic uint32_t generation; /* the configuration it has */
    _Atomic uint64_t started_ns; /* wall clock */
};

struct segment_thread_slot {
    _Atomic uint32_t reserved; /* 0 or 1 (release) */
    _Atomic uint32_t worker;   /* its worker slot, or SEGMENT_NO_WORKER: not in use */
    _Atomic uint32_t thread;   /* number of the thread in its worker, from 0 */
    _Atomic uint32_t earlier;  /* 1: its entry of EARLIER has memory (release) */
};

/*
 * All metrics of all scopes. A metric has the same position in all blocks of this server; a block
 * uses those of its scope.
 */
typedef _Atomic uint64_t segment_metrics[METRIC_COUNT];

/* Written by the master. */
struct segment_master {
    /* monotonic clock; at least once a second; 0: no heartbeat is promised */
    _Alignas(CACHE_LINE) _Atomic uint64_t heartbeat_ns;
    _Atomic uint32_t workers_wanted;
    _Atomic uint32_t threads_wanted; /* each worker has as many */
    _Atomic uint32_t threads_actual; /* each worker with the configuration in force has as many */
    _Atomic uint32_t stopping;       /* 1 during a graceful stop */
    _Atomic uint32_t offload_min_wanted, offload_max_wanted; /* each worker has as many */
    _Atomic uint32_t log_level;                              /* enum level */
    _Atomic uint32_t dispatch_master;                        /* 0: kernel, 1: master */
    _Atomic uint64_t history_next; /* number of the next sample (release) */
    _Atomic uint32_t generation;   /* counts the configurations, from 1 */
    _Atomic uint32_t logs_wanted;  /* number of requests to reopen the logs */
    _Atomic int32_t logger_pid;    /* 0: none, as the others */
    _Atomic int32_t keys_pid;      /* this process has the private keys */
    _Atomic int32_t metrics_pid;   /* this process serves /metrics */
    _Atomic int32_t acme_pid;
    _Atomic uint64_t question; /* another number each second; all threads of workers repeat it */
    _Atomic uint32_t model;    /* enum worker_model, of new workers */
    _Atomic uint32_t earlier;  /* 1: entry 0 of EARLIER has memory (release) */
    _Atomic uint64_t counted_since_ns; /* wall clock; 0: since the master started */
    _Atomic uint32_t earlier_hosts;    /* so many entries of EARLIER_HOSTS have memory (release) */
    _Alignas(CACHE_LINE) segment_metrics metrics;
};

/*
 * Written by the logger. It stores each batch here before writing it. After a crash the next logger
 * sees from the size of the file whether the batch was written (see daemon/logger/salvage.h).
 */
struct segment_logger {
    _Alignas(CACHE_LINE) _Atomic uint32_t
        batch_open; /* 1 from before the write until the cursors are advanced (release) */
    _Atomic uint64_t batch_device, batch_inode;
    _Atomic uint64_t batch_size_before;        /* size of the file in bytes */
    _Atomic uint64_t batch_bytes;              /* 0: the size does not show what was written */
    _Atomic uint64_t lines_after, bytes_after; /* log_lines and log_bytes after the batch */
    _Atomic uint32_t asleep;                   /* 1: wake the logger when a ring is half full */
    _Atomic uint32_t logs_done;                /* last logs_wanted that was carried out (release) */
    _Atomic uint64_t heartbeat_ns;             /* monotonic clock; once per pass */
    _Atomic uint64_t salvaged;                 /* words of the salvage that are written */
    _Atomic uint64_t salvaged_after;           /* the same after the batch */
    _Alignas(CACHE_LINE) segment_metrics metrics;
};

/*
 * A limit of the command limit-client; written by the master, which changes it while UNTIL_NS is 0.
 */
struct segment_address_limit {
    _Atomic uint64_t until_ns;   /* monotonic clock (release); 0: not in use */
    _Atomic uint64_t id;         /* never used again */
    _Atomic uint64_t address[2]; /* the 16 bytes of client_address.h, as they are in memory */
    _Atomic uint32_t prefix;     /* the bits of it that count: 0 to 128, of IPv4 96 to 128 */
    _Atomic uint32_t requests_per_second; /* all clients within share it; 0: blocked */
};

struct segment_address_limits {
    _Alignas(CACHE_LINE) _Atomic uint32_t count; /* entries in use; 0: workers read no more */
    struct segment_address_limit entry[SEGMENT_ADDRESS_LIMITS_MAX];
};

/*
 * How the authority checks the challenge: http-01 (RFC 8555 section 8.3), tls-alpn-01 (RFC 8737).
 */
enum challenge_kind {
    CHALLENGE_HTTP_01,
    CHALLENGE_TLS_ALPN_01,
    CHALLENGE_DNS_01, /* by a program: never in the segment */
    CHALLENGE_KINDS
};

/*
 * The pending challenge of ACME, of which there is one at a time. Written by the master, read by
 * workers. `sequence` as in struct segment_activity.
 */
struct segment_challenge {
    _Alignas(CACHE_LINE) _Atomic uint64_t sequence;
    _Atomic uint64_t token[SEGMENT_TOKEN_WORDS];           /* empty: no challenge is pending */
    _Atomic uint64_t thumbprint[SEGMENT_THUMBPRINT_WORDS]; /* the account's key has it */
    _Atomic uint64_t name[SEGMENT_HOST_NAME_WORDS];        /* what is validated, in lower case */
    _Atomic uint32_t kind;                                 /* enum challenge_kind */
};

/* The command maintenance; written by the master, read by workers for each request. */
struct segment_maintenance {
    _Alignas(CACHE_LINE) _Atomic uint32_t hosts; /* in maintenance; UINT32_MAX: all, 0: none */
    _Atomic uint32_t retry_after_s;
    _Atomic uint64_t host[SEGMENT_HOSTS_MAX / 64]; /* a bit for each entry of HOSTS */
    _Atomic uint64_t page;            /* its length * 2 + number of the text; 0: none */
    char text[2][SEGMENT_PAGE_BYTES]; /* a new page goes into the other one: responses have this */
};

/* A certificate in use; written by the master. `sequence` as in struct segment_activity. */
struct segment_certificate {
    _Atomic uint64_t sequence;
    _Atomic uint64_t not_before_s, not_after_s; /* wall clock */
    _Atomic uint64_t next_attempt_s; /* wall clock; 0: not one of [acme], or not known yet */
    _Atomic uint64_t failures;       /* since it was last renewed */
    _Atomic uint64_t names[SEGMENT_HOST_NAME_WORDS]; /* separated by blanks; those that fit */
    _Atomic uint64_t issuer[SEGMENT_ISSUER_WORDS];
    _Atomic uint64_t
        error[SEGMENT_FAILURE_WORDS]; /* why the last attempt failed; empty: it did not */
};

struct segment_certificates {
    _Alignas(CACHE_LINE) _Atomic uint32_t count; /* entries in use (release) */
    struct segment_certificate entry[SEGMENT_CERTIFICATES_MAX];
};

/*
 * The rate limit. Written by the master, read by workers for every request. Rate 0: never set.
 * While both change, a reader may see a new rate with the old burst or the reverse.
 */
struct segment_rate {
    _Alignas(CACHE_LINE) _Atomic uint32_t enabled;
    _Atomic uint32_t requests_per_second; /* each client address has as many */
    _Atomic uint32_t burst;               /* requests at once */
    uint32_t unused;
    uint64_t seed; /* the hash that picks a bucket begins with it; before `ready` */
};

/*
 * State of one client address in the rate limit. The only table with many writers: all serving
 * threads of all workers.
 *
 * TIME is the "theoretical arrival time" of the generic cell rate algorithm (ITU-T I.371) on the
 * monotonic clock. If it is in the past, the client has its full burst; if it is d ahead of now,
 * the client has used d * rate requests of its burst. A request is charged by one compare-and-swap
 * of TIME.
 *
 * A key is replaced under the claim of its bucket (time of the claim, 0: free; the claim of a dead
 * process may be taken over). Meanwhile TIME is SEGMENT_RATE_CHANGING, so that no request is
 * charged to the wrong key. See daemon/transaction/limits.c.
 */
struct segment_rate_entry {
    _Atomic uint64_t key; /* see client_key(); 0: free */
    _Atomic uint64_t time_ns;
    _Atomic uint64_t rejected; /* requests of this key since it was inserted */
};

enum { SEGMENT_RATE_WAYS = 5, SEGMENT_RATE_BUCKET_COUNT = 4096 };
#define SEGMENT_RATE_CHANGING UINT64_MAX

struct segment_rate_bucket {
    _Alignas(CACHE_LINE) _Atomic uint64_t claimed_ns;
    struct segment_rate_entry entry[SEGMENT_RATE_WAYS];
};

/*
 * Connections by client address. Each worker writes its own table; readers sum a key over all
 * tables. Used only if the connections per client are limited. See
 * daemon/transaction/limits.c.
 */
struct segment_client {
    _Atomic uint64_t key;   /* see client_key(); kept when the count returns to 0; 0: never used */
    _Atomic uint64_t count; /* open connections */
};

enum { SEGMENT_CLIENTS_PER_WORKER = 4096 };

/*
 * What a thread is doing; written by that thread. `sequence` is a seqlock: odd during a change. A
 * copy of state and text is consistent if `sequence` was even before and is the same after.
 */
struct segment_activity {
    _Atomic uint64_t sequence;
    _Atomic uint64_t since_ns; /* monotonic clock */
    _Atomic uint32_t state;    /* enum thread_state */
    _Atomic int32_t tid;       /* see /proc/PID/task/TID; 0: no thread */
    _Atomic uint64_t work[SEGMENT_WORK_WORDS];
};

struct segment_worker {
    _Alignas(CACHE_LINE) _Atomic uint64_t heartbeat_ns; /* monotonic clock */
    _Atomic uint32_t threads_actual;
    _Atomic uint32_t offload_actual;
    _Atomic uint32_t connections_open; /* written by all its threads */
    _Atomic uint64_t answer;           /* the main thread's: the question of the master */
    _Atomic uint32_t model;            /* enum worker_model */
    _Atomic uint32_t acceptors;        /* threads beside threads_actual, which only accept */
    _Atomic uint32_t queue_order;      /* enum queue_order */
    _Atomic uint32_t queue_full;       /* enum queue_full */
    _Atomic uint64_t queue_since_ns;   /* when the oldest item came; monotonic; 0: none waits */
    uint64_t unused[505];              /* other workers read up to here, which is a page */
    _Alignas(CACHE_LINE) struct segment_activity offload[SEGMENT_OFFLOAD_THREADS];
    _Alignas(CACHE_LINE) segment_metrics metrics; /* the worker, under its cache or queue lock */
};

enum segment_cache_state {
    CACHE_SLOT_FREE,
    CACHE_SLOT_LIVE,
    CACHE_SLOT_STALE, /* no longer in the table, but still referenced */
};

/* Written by the worker under its cache lock; `sequence` as in struct segment_activity. */
struct segment_cache_entry {
    _Atomic uint64_t sequence;
    _Atomic uint64_t id;        /* increases with each insertion; 0: never used */
    _Atomic uint64_t stored_ns; /* wall clock */
    _Atomic uint64_t bytes;     /* memory counted against the limit */
    _Atomic uint32_t state;     /* enum segment_cache_state */
    _Atomic uint32_t unused;
    _Atomic uint64_t path[SEGMENT_CACHE_PATH_WORDS];
    _Atomic uint64_t reserved;
};

struct segment_thread {
    _Alignas(CACHE_LINE) struct segment_activity activity;
    _Atomic uint64_t answer; /* the question of the master, repeated once a second */
    _Alignas(CACHE_LINE) segment_metrics metrics;
};

/*
 * Hits of one thread on one cache slot; valid while ID is the id of the entry. Written by the
 * thread: for a new entry it stores id 0, then hits and time, then the id (release).
 */
struct segment_hits {
    _Atomic uint64_t id;
    _Atomic uint64_t hits;
    _Atomic uint64_t last_hit_ns; /* monotonic clock */
};

/* Entries of PROCESSES; the workers follow by slot. */
enum segment_process_place {
    SEGMENT_PROCESS_MASTER,
    SEGMENT_PROCESS_LOGGER,
    SEGMENT_PROCESS_KEYS,
    SEGMENT_PROCESS_METRICS,
    SEGMENT_PROCESS_ACME,
    SEGMENT_PROCESS_WORKERS
};

/* What a process uses; written by the master, once a second. */
struct segment_process {
    _Atomic int32_t pid; /* 0: there is none, and the other values mean nothing */
    uint32_t unused;
    _Atomic uint64_t resident_bytes;
    _Atomic uint64_t descriptors, descriptors_max; /* 0: unknown, before Linux 6.2 */
};

/*
 * An entry of HOSTS, written by the master. A reload gives a host that stays its old entry. The id
 * is never used again, so that counts of an earlier host with the same entry are not taken for this
 * one's.
 */
struct segment_host {
    _Atomic uint64_t id; /* stored 0 before and the id after the name (release); 0: not in use */
    _Atomic uint64_t name[SEGMENT_HOST_NAME_WORDS]; /* the first of the section; "*": all others */
};

/*
 * What one thread counted for the host with the same entry in HOSTS; written by the thread. Valid
 * while ID is the id of that entry. Of a reserved thread slot, only the entries of hosts have
 * memory.
 */
struct segment_host_counts {
    _Alignas(CACHE_LINE) _Atomic uint64_t id;
    _Atomic uint64_t latency_max_ns;
    _Atomic uint64_t values[HOST_METRIC_COUNT];
    _Atomic uint64_t latency[HISTOGRAM_COARSE_BUCKETS];
};

/*
 * HISTORY: sample n is entry n % SEGMENT_HISTORY_SAMPLES; history_next of the master block is the
 * number of the next one. Written by the master. A sample is this struct, then metric_count sums
 * (uint64_t) in the order of METRICS, then a state letter per thread slot (bytes, padded to 8).
 */
struct segment_sample {
    _Atomic uint64_t number;         /* n + 1; stored 0 before and n + 1 after the rest (release) */
    _Atomic uint64_t time_ns;        /* wall clock */
    _Atomic uint64_t latency_max_ns; /* in that second, rounded to a bucket */
    _Atomic uint32_t latency[HISTOGRAM_COARSE_BUCKETS]; /* that second, all outcomes */
    _Atomic uint64_t values[];                          /* sums of all metrics; then the letters */
};

/*
 * A mapped segment as one process sees it. All but the mapping is private to the process: sizes and
 * offsets were checked once and are not read again.
 */
struct segment {
    char *base; /* NULL: nothing is mapped */
    size_t size;
    struct segment_header header; /* a copy; its texts end with a NUL */
    struct segment_section section[SEGMENT_KIND_COUNT];
    int fd, read_fd;              /* -1 in all processes but the master */
    char file[INSTANCE_PATH_MAX]; /* the master: for shm_open() */
    uint32_t hosts_reserved;      /* the master: so many have memory in each reserved thread slot */
};

/* Address of entry INDEX of a section. INDEX must be below its count, as in the functions below. */
static inline void *segment_at(const struct segment *segment, enum segment_kind kind,
                               uint32_t index)
{
    const struct segment_section *section = &segment->section[kind];

    return segment->base + section->offset + index * section->stride;
}

static inline uint32_t segment_count(const struct segment *segment, enum segment_kind kind)
{
    return segment->section[kind].count;
}

/* Number of thread slots of each worker slot. */
static inline uint32_t segment_threads_per_worker(const struct segment *segment)
{
    uint32_t workers = segment_count(segment, SEGMENT_WORKERS);

    assert(workers > 0);
    return segment_count(segment, SEGMENT_THREADS) / workers;
}

static inline struct segment_master *segment_master(const struct segment *segment)
{
    return (struct segment_master *)segment_at(segment, SEGMENT_MASTER, 0);
}

static inline struct segment_logger *segment_logger(const struct segment *segment)
{
    return (struct segment_logger *)segment_at(segment, SEGMENT_LOGGER, 0);
}

/* The header in shared memory, for its members that change. */
static inline struct segment_header *segment_shared_header(const struct segment *segment)
{
    return (struct segment_header *)(void *)segment->base;
}

/* Copies the listen addresses, separated by spaces; SIZE is at least 1. */
void segment_listening(const struct segment *segment, char *text, size_t size);

static inline struct segment_rate *segment_rate(const struct segment *segment)
{
    return (struct segment_rate *)segment_at(segment, SEGMENT_RATE, 0);
}

static inline struct segment_address_limits *segment_address_limits(const struct segment *segment)
{
    return (struct segment_address_limits *)segment_at(segment, SEGMENT_ADDRESS_LIMITS, 0);
}

static inline struct segment_challenge *segment_challenge(const struct segment *segment)
{
    return (struct segment_challenge *)segment_at(segment, SEGMENT_CHALLENGE, 0);
}

static inline struct segment_certificates *segment_certificates(const struct segment *segment)
{
    return (struct segment_certificates *)segment_at(segment, SEGMENT_CERTIFICATES, 0);
}

static inline struct segment_rate_bucket *segment_rate_bucket(const struct segment *segment,
                                                              uint32_t i)
{
    return (struct segment_rate_bucket *)segment_at(segment, SEGMENT_RATE_BUCKETS, i);
}

static inline struct segment_sample *segment_sample(const struct segment *segment, uint64_t number)
{
    return (struct segment_sample *)segment_at(segment, SEGMENT_HISTORY,
                                               (uint32_t)(number % SEGMENT_HISTORY_SAMPLES));
}

static inline struct segment_worker_slot *segment_worker_slot(const struct segment *segment,
                                                              uint32_t i)
{
    return (struct segment_worker_slot *)segment_at(segment, SEGMENT_WORKER_SLOTS, i);
}

static inline struct segment_thread_slot *segment_thread_slot(const struct segment *segment,
                                                              uint32_t i)
{
    return (struct segment_thread_slot *)segment_at(segment, SEGMENT_THREAD_SLOTS, i);
}

static inline struct segment_worker *segment_worker(const struct segment *segment, uint32_t i)
{
    return (struct segment_worker *)segment_at(segment, SEGMENT_WORKERS, i);
}

static inline struct segment_cache_entry *segment_cache(const struct segment *segment, uint32_t i)
{
    return (struct segment_cache_entry *)segment_at(segment, SEGMENT_CACHE, i);
}

static inline struct segment_client *segment_clients(const struct segment *segment, uint32_t i)
{
    return (struct segment_client *)segment_at(segment, SEGMENT_CLIENTS, i);
}

static inline struct segment_thread *segment_thread(const struct segment *segment, uint32_t i)
{
    return (struct segment_thread *)segment_at(segment, SEGMENT_THREADS, i);
}

/* header.outcome_count histograms. */
static inline struct histogram *segment_latency_of(const struct segment *segment, uint32_t i)
{
    return (struct histogram *)segment_at(segment, SEGMENT_LATENCY, i);
}

/* How long each connection was in the queue of worker I; written under the lock of the queue. */
static inline struct histogram *segment_queue_waits_of(const struct segment *segment, uint32_t i)
{
    return (struct histogram *)segment_at(segment, SEGMENT_QUEUE_WAITS, i);
}

static inline struct segment_hits *segment_hits_of(const struct segment *segment, uint32_t i)
{
    return (struct segment_hits *)segment_at(segment, SEGMENT_HITS, i);
}

static inline struct segment_maintenance *segment_maintenance(const struct segment *segment)
{
    return (struct segment_maintenance *)segment_at(segment, SEGMENT_MAINTENANCE, 0);
}

/*
 * The page of the command maintenance, in the segment; no bytes: none. It stays as it is until the
 * command has given the second page after it.
 */
static inline struct span segment_maintenance_page(const struct segment *segment)
{
    const struct segment_maintenance *all = segment_maintenance(segment);
    uint64_t page = atomic_load_explicit(&all->page, memory_order_acquire);

    return page / 2 <= SEGMENT_PAGE_BYTES ? (struct span){all->text[page % 2], (size_t)(page / 2)}
                                          : (struct span){all->text[0], 0};
}

/* True if all hosts are, or the one with ENTRY of HOSTS. */
static inline bool segment_is_in_maintenance(const struct segment *segment, uint32_t entry)
{
    const struct segment_maintenance *all = segment_maintenance(segment);
    uint32_t hosts = atomic_load_explicit(&all->hosts, memory_order_relaxed);

    if (LIKELY(hosts == 0))
        return false;
    return hosts == UINT32_MAX ||
           (entry < SEGMENT_HOSTS_MAX &&
            (atomic_load_explicit(&all->host[entry / 64], memory_order_relaxed) >> (entry % 64) &
             1) != 0);
}

static inline struct segment_process *segment_process(const struct segment *segment, uint32_t i)
{
    return (struct segment_process *)segment_at(segment, SEGMENT_PROCESSES, i);
}

static inline struct segment_host *segment_host(const struct segment *segment, uint32_t i)
{
    return (struct segment_host *)segment_at(segment, SEGMENT_HOSTS, i);
}

/* The counts of thread slot I, one for each entry of HOSTS. */
static inline struct segment_host_counts *segment_host_counts_of(const struct segment *segment,
                                                                 uint32_t i)
{
    return (struct segment_host_counts *)segment_at(segment, SEGMENT_HOST_COUNTS, i);
}

/*
 * After an upgrade, EARLIER has what the masters before this one counted; totals include it. Entry 0
 * is for the scopes MASTER and LOGGER and for slots that this segment does not have; entry i + 1 for
 * thread slot i, and for worker slot w if i is the first one of w. Each is metric_count counters in
 * the order of METRICS (0 for gauges), then outcome_count histograms of latency, then one of queue
 * waits. Written by the master, until the process of the one before has ended.
 *
 * The number of its entries; entry I has memory only if segment_has_earlier().
 */
static inline uint32_t segment_earlier_entries(const struct segment *segment)
{
    return segment_count(segment, SEGMENT_EARLIER) > 0 &&
                   atomic_load_explicit(&segment_master(segment)->earlier, memory_order_acquire) !=
                       0
               ? segment_count(segment, SEGMENT_THREADS) + 1
               : 0;
}

static inline bool segment_has_earlier(const struct segment *segment, uint32_t i)
{
    return i < segment_earlier_entries(segment) &&
           (i == 0 || atomic_load_explicit(&segment_thread_slot(segment, i - 1)->earlier,
                                           memory_order_acquire) != 0);
}

/* The counters of entry I, and its histograms: header.outcome_count, then that of queue waits. */
static inline _Atomic uint64_t *segment_earlier(const struct segment *segment, uint32_t i)
{
    return (_Atomic uint64_t *)segment_at(segment, SEGMENT_EARLIER, i);
}

static inline struct histogram *segment_earlier_latency(const struct segment *segment, uint32_t i)
{
    return (struct histogram *)(void *)(segment_earlier(segment, i) + segment->header.metric_count);
}

/* The counts of entry I of HOSTS; NULL: none. */
static inline struct segment_host_counts *segment_earlier_host(const struct segment *segment,
                                                               uint32_t i)
{
    return i < segment_count(segment, SEGMENT_EARLIER_HOSTS) &&
                   i < atomic_load_explicit(&segment_master(segment)->earlier_hosts,
                                            memory_order_acquire)
               ? (struct segment_host_counts *)segment_at(segment, SEGMENT_EARLIER_HOSTS, i)
               : NULL;
}

/*
 * When the totals began (wall clock): the start of the server, which a reload or an upgrade does not
 * change. header.started_ns is the start of its present master.
 */
static inline uint64_t segment_counted_since_ns(const struct segment *segment)
{
    uint64_t since_ns =
        atomic_load_explicit(&segment_master(segment)->counted_since_ns, memory_order_relaxed);

    return since_ns != 0 ? since_ns : segment->header.started_ns;
}

static inline struct log_ring segment_ring(const struct segment *segment, uint32_t i)
{
    return (struct log_ring){
        .words = (struct log_ring_words *)segment_at(segment, SEGMENT_RINGS, i),
        .cursor = segment_count(segment, SEGMENT_LOG_CURSORS) == 0
                      ? NULL
                      : (struct log_ring_cursor *)segment_at(segment, SEGMENT_LOG_CURSORS, i),
        .capacity = log_ring_capacity(segment->section[SEGMENT_RINGS].entry_size),
    };
}

/* The event rings have numbers: 0 is the master's, 1 the logger's, 2 + w that of worker slot w. */
enum { SEGMENT_RING_MASTER, SEGMENT_RING_LOGGER, SEGMENT_RING_WORKERS };

static inline uint32_t segment_event_rings(const struct segment *segment)
{
    return SEGMENT_RING_WORKERS + segment_count(segment, SEGMENT_WORKERS);
}

/* Of a section that is absent: a ring without slots. */
struct event_ring segment_event_ring(const struct segment *segment, uint32_t number);

static inline _Atomic uint64_t *segment_event_cursor(const struct segment *segment, uint32_t number)
{
    return (_Atomic uint64_t *)segment_at(segment, SEGMENT_EVENT_CURSORS, number);
}

/* True if the memory of the slot is reserved; only then may its blocks be accessed. */
static inline bool segment_worker_reserved(const struct segment *segment, uint32_t slot)
{
    return atomic_load_explicit(&segment_worker_slot(segment, slot)->reserved,
                                memory_order_acquire) != 0;
}

static inline bool segment_thread_reserved(const struct segment *segment, uint32_t slot)
{
    return atomic_load_explicit(&segment_thread_slot(segment, slot)->reserved,
                                memory_order_acquire) != 0;
}

/* metric_set(), _add() and _sub() are only for a metric's single writer. */
static inline uint64_t metric_get(const segment_metrics metrics, enum metric metric)
{
    return atomic_load_explicit(&metrics[metric], memory_order_relaxed);
}

static inline void metric_set(segment_metrics metrics, enum metric metric, uint64_t value)
{
    atomic_store_explicit(&metrics[metric], value, memory_order_relaxed);
}

static inline void metric_add(segment_metrics metrics, enum metric metric, uint64_t more)
{
    metric_set(metrics, metric, metric_get(metrics, metric) + more);
}

/* For metrics with several writers. */
static inline void metric_add_shared(segment_metrics metrics, enum metric metric, uint64_t more)
{
    atomic_fetch_add_explicit(&metrics[metric], more, memory_order_relaxed);
}

static inline void metric_sub(segment_metrics metrics, enum metric metric, uint64_t less)
{
    metric_set(metrics, metric, metric_get(metrics, metric) - less);
}

/* By scope: the section of its blocks, and the offset of the metrics in a block of this version. */
struct segment_block {
    enum segment_kind section;
    uint32_t metrics_offset;
};
extern const struct segment_block segment_blocks[SCOPE_COUNT];

/* Text in atomic words, which a reader may copy while it is written. */
void segment_store_text(_Atomic uint64_t *words, size_t count, const char *text, size_t length);
void segment_load_text(const _Atomic uint64_t *words, size_t count,
                       char *text); /* count * 8 bytes */

/*
 * Sum of METRIC over all reserved slots of its scope and EARLIER; not a snapshot: the blocks keep
 * counting.
 */
uint64_t segment_sum(const struct segment *segment, enum metric metric);

/* The same for all metrics. Reads each block once, so it costs far less than a sum per metric. */
void segment_sum_all(const struct segment *segment, uint64_t sums[METRIC_COUNT]);

/* The same if METRIC has this LINE in METRICS and this OFFSET in the section of its scope. */
uint64_t segment_sum_at(const struct segment *segment, enum metric metric, uint32_t line,
                        uint32_t offset);

/* Number of connections that the workers say they have open. Reads no block of a thread. */
uint64_t segment_connections_open(const struct segment *segment);

/*
 * Adds the latencies of thread slot I, or of all reserved slots and EARLIER, of all outcomes to
 * INTO.
 */
void segment_add_latency(const struct segment *segment, uint32_t i, struct histogram *into);
void segment_add_all_latency(const struct segment *segment, struct histogram *into);

/* Adds the waits in the queues of all workers, and those of EARLIER, to INTO. */
void segment_add_queue_waits(const struct segment *segment, struct histogram *into);

/* Hits of all threads of worker WORKER on entry ID in its cache slot SLOT. */
uint64_t segment_cache_hits(const struct segment *segment, uint32_t worker, uint32_t slot,
                            uint64_t id);

/*
 * Start time of process PID in clock ticks since boot (field 22 of /proc/PID/stat): PID and start
 * time together identify a process. 0 if it cannot be read. Any thread.
 */
uint64_t process_start_ticks(pid_t pid);

/* Its number of threads; 0 if it cannot be read. */
uint64_t process_threads(pid_t pid);

/*
 * True if the process that had this PID and start time does not run: a zombie has ended, too.
 * Any thread.
 */
bool process_has_ended(pid_t pid, uint64_t start_ticks);

/* True if process PID is stopped by a signal or a debugger. Any thread. */
bool process_is_stopped(pid_t pid);

#endif
