/*
 * What all threads counted for one host, read from the segment. Any thread or process.
 */
#ifndef COMMON_HOST_TOTALS_H
#define COMMON_HOST_TOTALS_H

#include "common/segment.h"

enum { HOST_NAME_BYTES = SEGMENT_HOST_NAME_WORDS * 8 };

/*
 * Copies the name of entry ENTRY of section HOSTS, which may be any number, to NAME (HOST_NAME_BYTES).
 * Returns its id; 0: it is not in use.
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
