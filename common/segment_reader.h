/*
 * Reading a segment, for consoles and tools: attaches read-only, checks the layout, copies data
 * that changes concurrently. One thread per reader at a time.
 */
#ifndef COMMON_SEGMENT_READER_H
#define COMMON_SEGMENT_READER_H

#include "common/segment.h"

#include <sys/types.h>

struct segment_reader {
    struct segment map; /* mapped read-only */
    struct {
        int32_t line; /* in METRICS and in each sample; -1: this segment does not have the metric */
        uint32_t offset; /* where its value is in an entry of the section of its scope */
    } metric[METRIC_COUNT];
    /* Of the activities of offload threads in a block of a worker; 0: there are none. */
    uint32_t offload_offset;
    dev_t device; /* with inode: detects that another file has the name */
    ino_t inode;
};

/* Slots of offload threads in a block of a worker; servers of other programs have none. */
static inline uint32_t segment_reader_offload_threads(const struct segment_reader *reader)
{
    return reader->offload_offset != 0 ? SEGMENT_OFFLOAD_THREADS : 0;
}

/* The activity of slot I of them. */
static inline const struct segment_activity *segment_reader_offload(
    const struct segment_reader *reader, const struct segment_worker *worker, uint32_t i)
{
    const char *block = (const char *)worker;

    return (const struct segment_activity *)(const void *)(block + reader->offload_offset) + i;
}

enum segment_attach_result {
    SEGMENT_ATTACHED,
    SEGMENT_ABSENT,  /* no segment of that name */
    SEGMENT_INVALID, /* the segment cannot be used; see WHY */
    SEGMENT_FOREIGN, /* it belongs to neither root nor this user; see WHY */
};

/* Maps /webserverd.NAME; WHY receives the reason of a failure. If attached, the caller detaches. */
enum segment_attach_result segment_attach(struct segment_reader *reader, const char *name,
                                          char *why, size_t size);
void segment_detach(struct segment_reader *reader);

/*
 * The same for a copy of a segment: SIZE bytes at MEMORY, which the caller keeps. Returns NULL,
 * or what is wrong with it (a static string). No segment_detach(), no segment_health().
 */
const char *segment_attach_copy(struct segment_reader *reader, void *memory, size_t size);

enum segment_health {
    SEGMENT_ALIVE,
    SEGMENT_SILENT,  /* no heartbeat of the master for SEGMENT_SILENT_NS, though it had one */
    SEGMENT_STOPPED, /* the server stopped cleanly */
    SEGMENT_DEAD,    /* the master died */
    SEGMENT_REPLACED /* another server has the name now: attach again */
};

#define SEGMENT_SILENT_NS UINT64_C(3000000000)

/* State of the server that owns the segment. Costs some system calls: call it once a second. */
enum segment_health segment_health(const struct segment_reader *reader, uint64_t now_monotonic_ns);

/* True if that server has stopped or died, also if another one has its name. */
bool segment_has_ended(const struct segment_reader *reader);

/* Like segment_sum(), for metrics of this segment; 0 if it does not have METRIC. */
uint64_t segment_reader_sum(const struct segment_reader *reader, enum metric metric);

/* Value of METRIC in BLOCK, an entry of the section of its scope (struct segment_thread, ...). */
uint64_t segment_reader_metric(const struct segment_reader *reader, const void *block,
                               enum metric metric);

/* What entry I of EARLIER has of METRIC; 0: nothing, or there is no such entry. */
uint64_t segment_reader_earlier(const struct segment_reader *reader, uint32_t i,
                                enum metric metric);

/*
 * Which metrics the server does not publish, given the SUMS of all: those that its segment does not
 * have, and of another program those of a part (connections, cache, queue, locks) that it has not
 * used since it runs: it may lack the part.
 */
void segment_reader_find_unpublished(const struct segment_reader *reader,
                                     const uint64_t sums[METRIC_COUNT], bool absent[METRIC_COUNT]);

/*
 * Copies the activity of a thread. Returns false if the copy may be inconsistent because its writer
 * did not finish a change (delayed or dead).
 */
struct activity_copy {
    uint64_t since_ns; /* monotonic clock */
    uint32_t state;
    int32_t tid;
    char work[SEGMENT_WORK_WORDS * 8];
};
bool segment_read_activity(const struct segment_activity *activity, struct activity_copy *copy);

/*
 * Copies a cache entry. Returns false if it was never used or the writer did not finish a change.
 */
struct cache_copy {
    uint64_t id;
    uint64_t stored_ns; /* wall clock */
    uint64_t bytes;
    uint32_t state; /* enum segment_cache_state */
    char path[SEGMENT_CACHE_PATH_WORDS * 8];
};
bool segment_read_cache(const struct segment_cache_entry *entry, struct cache_copy *copy);

/*
 * Copies the pending challenge of ACME. Returns false if there is none. A process of the server;
 * any thread.
 */
struct challenge_copy {
    enum challenge_kind kind;
    char name[SEGMENT_HOST_NAME_WORDS * 8]; /* what is validated */
    char token[SEGMENT_TOKEN_WORDS * 8];
    char thumbprint[SEGMENT_THUMBPRINT_WORDS * 8];
};
bool segment_read_challenge(const struct segment *segment, struct challenge_copy *copy);

/*
 * Copies certificate NUMBER of those in use, as the master has written it; its texts may contain
 * anything. Returns false if there is none, or the writer did not finish a change. Any thread.
 */
struct certificate_copy {
    uint64_t not_before_s, not_after_s, next_attempt_s,
        failures; /* as in struct segment_certificate */
    char names[SEGMENT_HOST_NAME_WORDS * 8];
    char issuer[SEGMENT_ISSUER_WORDS * 8];
    char error[SEGMENT_FAILURE_WORDS * 8];
};
bool segment_read_certificate(const struct segment *segment, uint32_t number,
                              struct certificate_copy *copy);

/*
 * Copies history sample NUMBER. LETTERS receives a state letter per thread slot (at most
 * LETTERS_SIZE bytes) and may be NULL. Returns false if the sample is not written yet or already
 * overwritten.
 */
struct sample_copy {
    uint64_t time_ns; /* wall clock */
    uint64_t latency_max_ns;
    uint32_t latency[HISTOGRAM_COARSE_BUCKETS];
    uint64_t values[METRIC_COUNT];
};
bool segment_read_sample(const struct segment_reader *reader, uint64_t number,
                         struct sample_copy *copy, char *letters, size_t letters_size);

/* Number of samples taken; the newest one has this number minus 1. 0 without a history. */
uint64_t segment_samples(const struct segment_reader *reader);

/* Latency of a sample at percentile PERCENT in ns, at most 25 % too high; 0 if it has no values. */
uint64_t sample_percentile(const struct sample_copy *sample, double percent);

/* What all threads counted for one host. Any thread or process. */

enum { HOST_NAME_BYTES = SEGMENT_HOST_NAME_WORDS * 8 };

/*
 * Copies the name of entry ENTRY of section HOSTS, which may be any number, to NAME
 * (HOST_NAME_BYTES). Returns its id; 0: it is not in use.
 */
uint64_t host_name_read(const struct segment *segment, uint32_t entry, char *name);

struct host_totals {
    uint64_t id;
    uint32_t entry; /* in section HOSTS */
    char name[HOST_NAME_BYTES];
    uint64_t values[HOST_METRIC_COUNT];
    uint64_t latency_max_ns;
    uint64_t latency[HISTOGRAM_COARSE_BUCKETS];
};

/* Returns false if ENTRY, below the count of the section, is not in use. */
bool host_totals_read(const struct segment *segment, uint32_t entry, struct host_totals *totals);

/*
 * All hosts in use, in the order of their entries. *COUNT: their number, 0 if the server has no
 * [host]. NULL: out of memory, or there are none. The caller frees the array.
 */
struct host_totals *host_totals_read_all(const struct segment *segment, size_t *count);

/* Number of responses, of any status. */
uint64_t host_totals_requests(const struct host_totals *totals);

/* Latency at percentile PERCENT in ns, at most 25 % too high; 0 if there were no requests. */
uint64_t host_totals_percentile(const struct host_totals *totals, double percent);

#endif
