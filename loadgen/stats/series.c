#include "loadgen/stats/series.h"

#include "common/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct series *series_create(void)
{
    return calloc(1, sizeof(struct series));
}

void series_free(struct series *series)
{
    if (series != NULL)
        free(series->entry);
    free(series);
}

static struct series_entry *append_entries(struct series *series)
{
    if (series->count == series->capacity) {
        size_t capacity = series->capacity > 0 ? 2 * series->capacity : 64;
        struct series_entry *grown = realloc(series->entry, capacity * sizeof(*grown));

        if (grown == NULL)
            return NULL;
        series->entry = grown;
        series->capacity = capacity;
    }
    return &series->entry[series->count++];
}

/* Subtracts EARLIER, an older state of the same histogram, from FROM. */
static const struct histogram *difference(struct histogram *capacity, const struct histogram *from,
                                          const struct histogram *earlier)
{
    histogram_reset(capacity);
    histogram_add(capacity, from);
    histogram_subtract(capacity, earlier);
    return capacity;
}

static uint64_t since(const struct series *series, const struct tally *tally,
                      enum tally_counter counter)
{
    return tally_get(tally, counter) - tally_get(&series->before, counter);
}

static void fill_entry_times(struct series *series, const struct tally *tally,
                             struct series_entry *entry)
{
    const struct histogram *times =
        difference(&series->interval.latency, &tally->latency, &series->before.latency);

    entry->mean_ns = (uint64_t)histogram_mean(times);
    entry->p50_ns = histogram_percentile(times, 50);
    entry->p90_ns = histogram_percentile(times, 90);
    entry->p99_ns = histogram_percentile(times, 99);
    entry->max_ns = histogram_count(times) > 0 ? histogram_max(times) : 0;
    times = difference(&series->interval.service, &tally->service, &series->before.service);
    entry->service_p99_ns = histogram_percentile(times, 99);
}

uint64_t series_next_sample_ns(uint64_t warmup_ns, uint64_t now_ns, uint64_t period_ns)
{
    uint64_t origin_ns = now_ns < warmup_ns ? 0 : warmup_ns;
    uint64_t next_ns = origin_ns + ((now_ns - origin_ns) / period_ns + 1) * period_ns;

    return now_ns < warmup_ns && next_ns > warmup_ns ? warmup_ns : next_ns;
}

bool series_second_is_over(const struct series *series, uint64_t warmup_ns, uint64_t now_ns)
{
    uint64_t before_ns = series->before_ns;
    uint64_t origin_ns = before_ns < warmup_ns ? 0 : warmup_ns;

    if (before_ns < warmup_ns && now_ns >= warmup_ns)
        return true;
    return (now_ns - origin_ns) / NS_PER_S > (before_ns - origin_ns) / NS_PER_S;
}

void series_add(struct series *series, const struct tally *tally, uint64_t now_ns,
                const struct series_entry *setting)
{
    struct series_entry *entry = append_entries(series);

    if (entry == NULL)
        return;
    *entry = *setting;
    entry->begin_ns = series->before_ns;
    entry->end_ns = now_ns;
    entry->begun = since(series, tally, TALLY_begun);
    entry->answered = since(series, tally, TALLY_answered);
    entry->bad = tally_bad(tally) - tally_bad(&series->before);
    entry->bytes = since(series, tally, TALLY_head_bytes) + since(series, tally, TALLY_body_bytes);
    fill_entry_times(series, tally, entry);
    tally_reset(&series->before);
    tally_add(&series->before, tally);
    series->before_ns = now_ns;
}

bool series_append(struct series *into, const struct series *from)
{
    uint32_t round = into->count > 0 ? into->entry[into->count - 1].round + 1 : 1;
    uint64_t skipped_ns = 0;

    for (size_t i = 0; i < from->count; i++) {
        const struct series_entry *one = &from->entry[i];
        struct series_entry *entry;

        if (one->warmup) {
            skipped_ns = one->end_ns;
            continue;
        }
        entry = append_entries(into);
        if (entry == NULL)
            return false;
        *entry = *one;
        entry->begin_ns = into->before_ns + (one->begin_ns - skipped_ns);
        entry->end_ns = into->before_ns + (one->end_ns - skipped_ns);
        entry->round = round;
    }
    if (into->count > 0)
        into->before_ns = into->entry[into->count - 1].end_ns;
    return true;
}

/* ---- Runs at the same time ---- */

/*
 * The entry of the second that begins at BEGIN_NS, inserted if there is none; NULL if out of
 * memory.
 */
static struct series_entry *find_second(struct series *series, uint64_t begin_ns)
{
    size_t at = series->count;

    while (at > 0 && series->entry[at - 1].begin_ns > begin_ns)
        at--;
    if (at > 0 && series->entry[at - 1].begin_ns == begin_ns)
        return &series->entry[at - 1];
    if (append_entries(series) == NULL)
        return NULL;
    memmove(&series->entry[at + 1], &series->entry[at],
            (series->count - 1 - at) * sizeof(*series->entry));
    series->entry[at] = (struct series_entry){.begin_ns = begin_ns, .end_ns = begin_ns};
    return &series->entry[at];
}

static void raise_to(uint64_t *value, uint64_t other)
{
    if (other > *value)
        *value = other;
}

static void add_entry_counts(struct series_entry *into, const struct series_entry *from)
{
    uint64_t answered = into->answered + from->answered;

    if (answered > 0)
        into->mean_ns = (uint64_t)llround(((double)into->mean_ns * (double)into->answered +
                                           (double)from->mean_ns * (double)from->answered) /
                                          (double)answered);
    into->begun += from->begun;
    into->answered = answered;
    into->bad += from->bad;
    into->bytes += from->bytes;
    raise_to(&into->p50_ns, from->p50_ns);
    raise_to(&into->p90_ns, from->p90_ns);
    raise_to(&into->p99_ns, from->p99_ns);
    raise_to(&into->max_ns, from->max_ns);
    raise_to(&into->service_p99_ns, from->service_p99_ns);
}

/* Adds the settings of FROM; they replace those of BEFORE, an entry of the same run; NULL: none. */
static void add_settings(struct series_entry *into, const struct series_entry *from,
                         const struct series_entry *before)
{
    into->rate += from->rate - (before != NULL ? before->rate : 0);
    into->connections += from->connections - (before != NULL ? before->connections : 0);
    into->threads += from->threads - (before != NULL ? before->threads : 0);
}

static uint64_t add_offset(uint64_t time_ns, int64_t offset_ns)
{
    int64_t sum = (int64_t)time_ns + offset_ns;

    return sum > 0 ? (uint64_t)sum : 0;
}

bool series_merge(struct series *into, const struct series *from, int64_t offset_ns)
{
    const struct series_entry *before = NULL;
    uint64_t before_ns = 0;

    for (size_t i = 0; i < from->count; i++) {
        const struct series_entry *one = &from->entry[i];
        uint64_t middle_ns = add_offset((one->begin_ns + one->end_ns) / 2, offset_ns);
        uint64_t second_ns = middle_ns - middle_ns % NS_PER_S;
        uint64_t end_ns = add_offset(one->end_ns, offset_ns);
        struct series_entry *entry;

        if (one->warmup)
            continue;
        entry = find_second(into, second_ns);
        if (entry == NULL)
            return false;
        raise_to(&entry->end_ns, end_ns < second_ns + NS_PER_S ? end_ns : second_ns + NS_PER_S);
        add_entry_counts(entry, one);
        add_settings(entry, one, before != NULL && before_ns == second_ns ? before : NULL);
        before = one;
        before_ns = second_ns;
    }
    return true;
}
