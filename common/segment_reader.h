/*
 * A reader's side of the segment, for consoles and tools: attaching read-only, checking before
 * believing, and copying what changes meanwhile. One thread uses a reader at a time.
 */
#ifndef COMMON_SEGMENT_READER_H
#define COMMON_SEGMENT_READER_H

#include "common/segment.h"

#include <sys/types.h>

struct segment_reader {
    struct segment map; /* read-only: a store through it ends the process */
    /* Position of each metric known here in that segment's blocks, or -1 where it has none. */
    int32_t metric_at[METRIC_COUNT];
    dev_t device; /* of the segment's file, to notice a successor */
    ino_t inode;
};

enum segment_attach_result {
    SEGMENT_ATTACHED,
    SEGMENT_ABSENT,  /* no segment of that name: no daemon runs, or none was left behind */
    SEGMENT_INVALID, /* there is one, but WHY it can't be used was written */
};

/* Maps /webserverd.NAME. WHY gets one sentence unless attached. The reader is then owed a detach. */
enum segment_attach_result segment_attach(struct segment_reader *reader, const char *name,
                                          char *why, size_t size);
void segment_detach(struct segment_reader *reader);

/*
 * The same over SIZE bytes at MEMORY that hold a copy of a segment. Returns NULL, or what is wrong
 * with it (a static sentence). The memory stays the caller's: no detach, no health.
 */
const char *segment_attach_copy(struct segment_reader *reader, void *memory, size_t size);

enum segment_health {
    SEGMENT_ALIVE,
    SEGMENT_SILENT,  /* the master's heartbeat is older than SEGMENT_SILENT_NS */
    SEGMENT_STOPPED, /* the daemon ended in order */
    SEGMENT_DEAD,    /* the master is gone without having said so */
    SEGMENT_REPLACED /* another daemon has taken the name: attach again */
};

#define SEGMENT_SILENT_NS UINT64_C(3000000000)

/* What has become of the daemon whose segment is mapped. A few system calls: ask once a second. */
enum segment_health segment_health(const struct segment_reader *reader, uint64_t now_monotonic_ns);

/* Like segment_sum(), by the positions of that segment; 0 for a metric that it does not have. */
uint64_t segment_reader_sum(const struct segment_reader *reader, enum metric metric);

/* One metric of a block's metrics. */
uint64_t segment_reader_metric(const struct segment_reader *reader, const segment_metrics metrics,
                               enum metric metric);

/*
 * A thread's activity. Returns true when the copy is whole; false when its writer was in the middle of
 * a change all the while (held up there, or dead): the copy may then be a mixture of two.
 */
struct activity_copy {
    uint64_t since_ns; /* monotonic clock */
    uint32_t state;
    int32_t tid;
    char work[SEGMENT_WORK_WORDS * 8];
};
bool segment_read_activity(const struct segment_activity *activity, struct activity_copy *copy);

/*
 * One line of a cache table, whole. Returns false for a slot that was never used, or whose writer was
 * in the middle of a change all the while.
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
 * A history sample by its number, whole. VALUES gets the sums by enum metric, LETTERS a state letter
 * for each thread slot (LETTERS_SIZE bytes at most); either may be NULL. Returns false when that
 * sample is not there (yet, or any more).
 */
struct sample_copy {
    uint64_t time_ns; /* wall clock */
    uint64_t latency_max_ns;
    uint32_t latency[HISTOGRAM_COARSE_BUCKETS];
    uint64_t values[METRIC_COUNT];
};
bool segment_read_sample(const struct segment_reader *reader, uint64_t number,
                         struct sample_copy *copy, char *letters, size_t letters_size);

/* How many samples there have been; the newest is that minus one. */
uint64_t segment_samples(const struct segment_reader *reader);

/* PERCENT of a sample's latency values do not exceed this many ns (within a quarter); 0 when empty. */
uint64_t sample_percentile(const struct sample_copy *sample, double percent);

#endif
