/*
 * A run second by second. Its memory grows with time (about 10 MB a day), not with requests. Main
 * thread.
 */
#ifndef LOADGEN_SERIES_H
#define LOADGEN_SERIES_H

#include "loadgen/stats/tally.h"

#include <stddef.h>

/* What came in one second, or in what was left of it at the end. */
struct series_entry {
    uint64_t begin_ns, end_ns; /* since the run's begin */
    uint64_t begun, answered, bad, bytes;
    uint64_t mean_ns, p50_ns, p90_ns, p99_ns, max_ns; /* of the latency; 0 without answers */
    uint64_t service_p99_ns;
    double rate;          /* that was asked for then; 0: closed loop */
    uint32_t connections; /* that were asked for then */
    uint32_t threads;
    bool warmup;    /* not counted in the totals */
    uint32_t round; /* of a repeated run, from 1; 0: it is the only one */
};

struct series {
    struct series_entry *entry;
    size_t count, room;
    struct tally before;   /* all of it up to the last entry */
    struct tally interval; /* room to work in */
    uint64_t before_ns;
};

/* Returns NULL when there is no memory. */
struct series *series_create(void);
void series_free(struct series *series);

/*
 * Whether a second has passed at NOW_NS since the last entry. Seconds begin anew where the warm-up ends,
 * WARMUP_NS after the run's begin: none has something of both.
 */
bool series_second_is_over(const struct series *series, uint64_t warmup_ns, uint64_t now_ns);

/*
 * Adds the seconds of another round behind those of INTO, without its warm-up: time goes on from where
 * INTO ended. Returns false when there is no memory for all.
 */
bool series_append(struct series *into, const struct series *from);

/*
 * Adds what came since the last entry: TALLY is everything up to NOW_NS (since the run's begin). Of
 * SETTING only rate, connections, threads and warmup are looked at. Without memory, the entry is left
 * out and its numbers are part of the next.
 */
void series_add(struct series *series, const struct tally *tally, uint64_t now_ns,
                const struct series_entry *setting);

#endif
