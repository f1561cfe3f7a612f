/*
 * The time series of a run, one entry per second. Its memory grows with time (about 10 MB per day),
 * not with requests. Main thread.
 */
#ifndef LOADGEN_SERIES_H
#define LOADGEN_SERIES_H

#include "loadgen/stats/tally.h"

#include <stddef.h>

/* One second; the last one may be shorter. */
struct series_entry {
    uint64_t begin_ns, end_ns; /* after the run's begin */
    uint64_t begun, answered, bad, bytes;
    uint64_t mean_ns, p50_ns, p90_ns, p99_ns, max_ns; /* latency; 0 without responses */
    uint64_t service_p99_ns;
    double rate;          /* target rate; 0: closed loop */
    uint32_t connections; /* target */
    uint32_t threads;
    bool warmup;    /* not counted in the totals */
    uint32_t round; /* round of a repeated run, from 1; 0: a single run */
};

struct series {
    struct series_entry *entry;
    size_t count, capacity;
    struct tally before;   /* the total up to the last entry */
    struct tally interval; /* scratch space */
    uint64_t before_ns;
};

/* Returns NULL if out of memory. */
struct series *series_create(void);
void series_free(struct series *series);

/*
 * When to sample after NOW_NS: at multiples of PERIOD_NS, which divides a second, since the begin
 * of the run, later since the end of the warm-up, and at that end. A second then ends with a sample
 * and contains neither more nor less.
 */
uint64_t series_next_sample_ns(uint64_t warmup_ns, uint64_t now_ns, uint64_t period_ns);

/*
 * Whether an entry ends at NOW_NS. Seconds restart at the end of the warm-up, WARMUP_NS after the
 * start of the run, so that no entry covers both.
 */
bool series_second_is_over(const struct series *series, uint64_t warmup_ns, uint64_t now_ns);

/*
 * Appends the entries of another round without its warm-up; their times continue those of INTO.
 * Returns false if out of memory, with part of them appended.
 */
bool series_append(struct series *into, const struct series *from);

/*
 * Adds the entries of FROM, a run at the same time, to those of INTO, without its warm-up. The
 * start of FROM is OFFSET_NS after the start of INTO, and may be before it. Each entry of FROM
 * counts wholly in the second of INTO in which its middle lies. Counts and settings are summed;
 * percentiles become the higher ones, which the percentiles of both together cannot exceed. Returns
 * false if out of memory, with part of them added.
 */
bool series_merge(struct series *into, const struct series *from, int64_t offset_ns);

/*
 * Adds an entry with the counts since the last one: TALLY is the total up to NOW_NS, ns since the
 * start of the run. SETTING provides rate, connections, threads and warmup. If out of memory, the
 * next entry includes these numbers.
 */
void series_add(struct series *series, const struct tally *tally, uint64_t now_ns,
                const struct series_entry *setting);

#endif
