#include "console/data/model.h"

#include "common/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BASE_EVERY_NS   (NS_PER_S / 2)
#define INTERVAL_MIN_NS (NS_PER_S / 20)
#define LONGEST_NS                                                                                 \
    (20 * NS_PER_S) /* between two samples of the history, which are up to 10 s apart */

/* The counters at one time, by slot; zero for a slot that was not reserved. */
struct base {
    uint64_t time_ns; /* 0: none */
    uint64_t sums[METRIC_COUNT];
    uint64_t (*threads)[METRIC_COUNT];
    uint64_t (*workers)[METRIC_COUNT];
    struct histogram *latency;
    struct histogram *queue_waits; /* by worker slot */
};

/* The sums at both ends of the interval of the percentiles. */
struct ends {
    uint64_t from_ns, to_ns; /* 0: there is no interval yet */
    uint64_t from[METRIC_COUNT], to[METRIC_COUNT];
};

struct model {
    const struct snapshot *now;
    uint32_t thread_room, worker_room;
    struct base older, newer;
    struct ends ends;
    struct histogram *thread_interval; /* latency of the interval, by thread slot */
    struct histogram interval;         /* all threads together */
    struct histogram *wait_interval;   /* the same of the queues, by worker slot */
    struct histogram waits;
    const struct sample_copy *past,
        *past_before; /* the samples of a past second; NULL: the model is current */
    const struct past_thread *past_threads;
    uint32_t past_thread_count;
};

/* What is kept of a thread; the first PAST_RATES are counters. */
static const enum metric past_metrics[PAST_VALUES] = {METRIC_requests,
                                                      METRIC_bytes_sent,
                                                      METRIC_connections_adopted,
                                                      METRIC_connections_moved_leaving,
                                                      METRIC_connections_moved_resize,
                                                      METRIC_connections_moved_uneven,
                                                      METRIC_connections_open,
                                                      METRIC_connections_busy,
                                                      METRIC_tls_open,
                                                      METRIC_http2_open,
                                                      METRIC_http2_streams};

struct model *model_create(void)
{
    return calloc(1, sizeof(struct model));
}

static void release_base(struct base *base)
{
    free(base->threads);
    free(base->workers);
    free(base->latency);
    free(base->queue_waits);
    *base = (struct base){0};
}

void model_reset(struct model *model)
{
    release_base(&model->older);
    release_base(&model->newer);
    free(model->thread_interval);
    free(model->wait_interval);
    memset(model, 0, sizeof(*model));
}

void model_destroy(struct model *model)
{
    if (model == NULL)
        return;
    model_reset(model);
    free(model);
}

static int make_base(struct base *base, uint32_t threads, uint32_t workers)
{
    base->threads = calloc(threads, sizeof(*base->threads));
    base->workers = calloc(workers, sizeof(*base->workers));
    base->latency = calloc(threads, sizeof(*base->latency));
    base->queue_waits = calloc(workers, sizeof(*base->queue_waits));
    return base->threads != NULL && base->workers != NULL && base->latency != NULL &&
                   base->queue_waits != NULL
               ? 0
               : -1;
}

static int make_thread_room(struct model *model, const struct snapshot *snapshot)
{
    model_reset(model);
    model->thread_room = snapshot->thread_room;
    model->worker_room = snapshot->worker_room;
    model->thread_interval = calloc(model->thread_room, sizeof(*model->thread_interval));
    model->wait_interval = calloc(model->worker_room, sizeof(*model->wait_interval));
    if (model->thread_interval == NULL || model->wait_interval == NULL ||
        make_base(&model->older, model->thread_room, model->worker_room) != 0 ||
        make_base(&model->newer, model->thread_room, model->worker_room) != 0) {
        model_reset(model);
        return -1;
    }
    return 0;
}

static void fill_base(struct base *base, const struct snapshot *snapshot)
{
    base->time_ns = snapshot->time_ns;
    memcpy(base->sums, snapshot->sums, sizeof(base->sums));
    for (uint32_t i = 0; i < snapshot->worker_count; i++) {
        uint32_t slot = snapshot->workers[i].slot;

        memcpy(base->workers[slot], snapshot->workers[i].values, sizeof(base->workers[0]));
        histogram_reset(&base->queue_waits[slot]);
        histogram_add(&base->queue_waits[slot], &snapshot->queue_waits[slot]);
    }
    for (uint32_t i = 0; i < snapshot->thread_count; i++) {
        uint32_t slot = snapshot->threads[i].slot;

        memcpy(base->threads[slot], snapshot->threads[i].values, sizeof(base->threads[0]));
        histogram_reset(&base->latency[slot]);
        histogram_add(&base->latency[slot], &snapshot->latency[slot]);
    }
}

/* Sets INTERVAL to the values of NOW that OLDER lacks, and adds them to ALL. */
static void measure_growth(struct histogram *interval, const struct histogram *now,
                           const struct histogram *older, struct histogram *all)
{
    histogram_reset(interval);
    histogram_add(interval, now);
    histogram_subtract(interval, older);
    histogram_add(all, interval);
}

/* Computes latency and queue waits since the older base, for each thread or worker and for all. */
static void measure_interval(struct model *model, const struct snapshot *snapshot)
{
    histogram_reset(&model->interval);
    histogram_reset(&model->waits);
    for (uint32_t i = 0; i < snapshot->thread_count; i++) {
        uint32_t slot = snapshot->threads[i].slot;

        measure_growth(&model->thread_interval[slot], &snapshot->latency[slot],
                       &model->older.latency[slot], &model->interval);
    }
    for (uint32_t i = 0; i < snapshot->worker_count; i++) {
        uint32_t slot = snapshot->workers[i].slot;

        measure_growth(&model->wait_interval[slot], &snapshot->queue_waits[slot],
                       &model->older.queue_waits[slot], &model->waits);
    }
}

bool model_wants_latency(const struct model *model, uint64_t now_ns)
{
    return model->newer.time_ns == 0 || now_ns >= model->newer.time_ns + BASE_EVERY_NS;
}

/* From the base that is nearest to a second before SNAPSHOT. */
static void note_ends(struct model *model, const struct snapshot *snapshot)
{
    bool slow = snapshot->time_ns - model->newer.time_ns >= BASE_EVERY_NS + BASE_EVERY_NS / 2;
    const struct base *from = slow ? &model->newer : &model->older;

    model->ends.from_ns = from->time_ns;
    model->ends.to_ns = snapshot->time_ns;
    memcpy(model->ends.from, from->sums, sizeof(model->ends.from));
    memcpy(model->ends.to, snapshot->sums, sizeof(model->ends.to));
}

int model_take(struct model *model, const struct snapshot *snapshot, bool with_latency)
{
    bool fits = model->now != NULL && model->thread_room == snapshot->thread_room &&
                model->worker_room == snapshot->worker_room;
    struct base unused;

    if (!fits && make_thread_room(model, snapshot) != 0)
        return -1;
    model->now = snapshot;
    model->past = NULL;
    if (!with_latency || !model_wants_latency(model, snapshot->time_ns))
        return 0;
    if (model->newer.time_ns == 0) {
        fill_base(&model->older, snapshot);
        fill_base(&model->newer, snapshot);
        return 0;
    }
    measure_interval(model, snapshot);
    note_ends(model, snapshot);
    unused = model->older;
    model->older = model->newer;
    model->newer = unused;
    fill_base(&model->newer, snapshot);
    return 0;
}

void model_take_past(struct model *model, const struct snapshot *snapshot,
                     const struct sample_copy *before, const struct sample_copy *now,
                     const struct past_thread *threads, uint32_t thread_count)
{
    model->now = snapshot;
    model->past = now;
    model->past_before = before;
    model->past_threads = threads;
    model->past_thread_count = thread_count;
}

void model_keep_thread(const struct model *model, const struct thread_sample *thread, double cores,
                       struct past_thread *past)
{
    *past = (struct past_thread){.slot = thread->slot,
                                 .worker = thread->worker,
                                 .thread = thread->thread,
                                 .tid = thread->activity.tid,
                                 .cores = (float)cores,
                                 .p99_ns = (float)model_thread_percentile(model, thread, 99)};
    for (size_t i = 0; i < PAST_RATES; i++)
        past->rate[i] = (float)model_thread_rate(model, thread, past_metrics[i]);
    for (size_t i = 0; i < PAST_VALUES; i++)
        past->value[i] = thread->values[past_metrics[i]];
}

/* NULL: nothing of it was kept. */
static const struct past_thread *past_thread(const struct model *model, uint32_t slot)
{
    for (uint32_t i = 0; i < model->past_thread_count; i++)
        if (model->past_threads[i].slot == slot)
            return &model->past_threads[i];
    return NULL;
}

/* The position of METRIC in a past thread; PAST_VALUES: it is not kept. */
static size_t past_position(enum metric metric)
{
    size_t i = 0;

    while (i < PAST_VALUES && past_metrics[i] != metric)
        i++;
    return i;
}

const struct snapshot *model_now(const struct model *model)
{
    return model->now;
}

/* The time between the two samples; 1 s if the wall clock was changed between them. */
static uint64_t past_interval_ns(const struct model *model)
{
    uint64_t from, to = model->past->time_ns;

    if (model->past_before == NULL)
        return 0;
    from = model->past_before->time_ns;
    return to <= from || to - from > LONGEST_NS ? NS_PER_S : to - from;
}

uint64_t model_interval_ns(const struct model *model)
{
    uint64_t base = model->older.time_ns;

    if (model->past != NULL)
        return past_interval_ns(model);
    return model->now == NULL || base == 0 || model->now->time_ns < base + INTERVAL_MIN_NS
               ? 0
               : model->now->time_ns - base;
}

static double growth(const struct model *model, uint64_t now, uint64_t then)
{
    return figure_rate(then, now, model_interval_ns(model));
}

double model_value(const struct model *model, enum metric metric)
{
    return model->now->server.published[metric] != PUBLISHED_NOT ? (double)model->now->sums[metric]
                                                                 : NAN;
}

double model_steady_value(const struct model *model, enum metric metric)
{
    double value = model_value(model, metric);

    return isnan(value) || model->past != NULL || model->ends.to_ns == 0
               ? value
               : (double)model->ends.to[metric];
}

double model_rate(const struct model *model, enum metric metric)
{
    if (model->now == NULL || model->now->server.published[metric] == PUBLISHED_NOT)
        return NAN;
    if (model->past != NULL)
        return model->past_before == NULL
                   ? NAN
                   : growth(model, model->past->values[metric], model->past_before->values[metric]);
    if (model->ends.to_ns != 0)
        return figure_rate(model->ends.from[metric], model->ends.to[metric],
                           model->ends.to_ns - model->ends.from_ns);
    return growth(model, model->now->sums[metric], model->older.sums[metric]);
}

double model_thread_value(const struct model *model, const struct thread_sample *thread,
                          enum metric metric)
{
    const struct past_thread *past;
    size_t at = past_position(metric);

    if (model->now->server.published[metric] != PUBLISHED_BY_WRITER)
        return NAN;
    if (model->past == NULL)
        return (double)thread->values[metric];
    past = past_thread(model, thread->slot);
    return past != NULL && at < PAST_VALUES ? (double)past->value[at] : NAN;
}

double model_worker_value(const struct model *model, const struct worker_sample *worker,
                          enum metric metric)
{
    return model->past != NULL || model->now->server.published[metric] == PUBLISHED_NOT
               ? NAN
               : (double)worker->values[metric];
}

double model_thread_rate(const struct model *model, const struct thread_sample *thread,
                         enum metric metric)
{
    const struct past_thread *past;
    size_t at = past_position(metric);

    if (model->now->server.published[metric] != PUBLISHED_BY_WRITER)
        return NAN;
    if (model->past == NULL)
        return growth(model, thread->values[metric], model->older.threads[thread->slot][metric]);
    past = past_thread(model, thread->slot);
    return past != NULL && at < PAST_RATES ? (double)past->rate[at] : NAN;
}

double model_worker_rate(const struct model *model, const struct worker_sample *worker,
                         enum metric metric)
{
    if (model->past != NULL || model->now->server.published[metric] == PUBLISHED_NOT)
        return NAN;
    return growth(model, worker->values[metric], model->older.workers[worker->slot][metric]);
}

static double model_source(const void *model, enum metric metric)
{
    const struct model *own = model;

    return metric_table[metric].kind == KIND_GAUGE ? model_value(own, metric)
                                                   : model_rate(own, metric);
}

double model_figure(const struct model *model, enum figure figure)
{
    return model->now == NULL ? NAN : figure_value(figure, model_source, model);
}

static double percentile_of(const struct histogram *interval, double percent)
{
    return histogram_count(interval) == 0 ? NAN : (double)histogram_percentile(interval, percent);
}

double model_percentile(const struct model *model, double percent)
{
    uint64_t value;

    if (model->past == NULL)
        return percentile_of(&model->interval, percent);
    value = sample_percentile(model->past, percent);
    return value > 0 ? (double)value : NAN;
}

double model_wait_percentile(const struct model *model, const struct worker_sample *worker,
                             double percent)
{
    if (model->past != NULL)
        return NAN;
    return percentile_of(worker != NULL ? &model->wait_interval[worker->slot] : &model->waits,
                         percent);
}

double model_thread_percentile(const struct model *model, const struct thread_sample *thread,
                               double percent)
{
    const struct past_thread *past;

    if (model->past == NULL)
        return percentile_of(&model->thread_interval[thread->slot], percent);
    past = past_thread(model, thread->slot);
    return past != NULL && percent == 99 ? (double)past->p99_ns : NAN;
}

/* ---- Latency by outcome ---- */

#define RECENT_BASE_EVERY_NS (5 * NS_PER_S) /* how often the recent latency gets a new base */
#define LONG_PAUSE_NS        (3 * NS_PER_S) /* then the second of a value is unknown */

struct second {
    uint64_t number; /* wall clock, s; 0: never used */
    bool split;      /* true: counted by outcome; false: all in OUTCOME_ALL */
    uint32_t bucket[OUTCOME_COUNT + 1][HISTOGRAM_COARSE_BUCKETS];
};

struct outcomes {
    struct second second[OUTCOMES_SECONDS];
    bool begun;
    uint64_t last_ns, older_ns, newer_ns; /* wall clock */
    struct histogram last[OUTCOME_COUNT];
    struct histogram older[OUTCOME_COUNT],
        newer[OUTCOME_COUNT]; /* bases that RECENT is measured from */
    struct histogram recent[OUTCOME_COUNT + 1];
};

struct outcomes *outcomes_create(void)
{
    return calloc(1, sizeof(struct outcomes));
}

void outcomes_destroy(struct outcomes *outcomes)
{
    free(outcomes);
}

static void reset_recent(struct outcomes *outcomes)
{
    for (int i = 0; i <= OUTCOME_COUNT; i++)
        histogram_reset(&outcomes->recent[i]);
}

void outcomes_break(struct outcomes *outcomes)
{
    outcomes->begun = false;
    reset_recent(outcomes);
}

static struct second *outcome_second_at(struct outcomes *outcomes, uint64_t number)
{
    struct second *second = &outcomes->second[number % OUTCOMES_SECONDS];

    if (second->number != number) {
        memset(second, 0, sizeof(*second));
        second->number = number;
    }
    return second;
}

void outcomes_push_sample(struct outcomes *outcomes, const struct sample_copy *sample)
{
    struct second *second = outcome_second_at(outcomes, sample->time_ns / NS_PER_S);

    if (!second->split)
        memcpy(second->bucket[OUTCOME_ALL], sample->latency, sizeof(sample->latency));
}

static uint64_t bucket_of(const struct histogram *histogram, uint32_t i)
{
    return atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
}

/* Adds the increase from THEN to NOW to the coarse buckets INTO. */
static void add_growth(uint32_t *into, const struct histogram *now, const struct histogram *then)
{
    uint32_t from = atomic_load_explicit(&now->used_from, memory_order_relaxed);
    uint32_t to = atomic_load_explicit(&now->used_to, memory_order_relaxed);

    for (uint32_t i = from; i < to && i < HISTOGRAM_BUCKETS; i++) {
        uint64_t growth = bucket_of(now, i) - bucket_of(then, i);

        if (growth > 0 && growth <= UINT32_MAX)
            into[i >> HISTOGRAM_COARSE_SHIFT] += (uint32_t)growth;
    }
}

static void copy_outcomes(struct histogram *into, const struct histogram *from)
{
    memcpy((void *)into, (const void *)from, OUTCOME_COUNT * sizeof(*into));
}

static void begin_outcomes(struct outcomes *outcomes, uint64_t wall_ns,
                           const struct histogram *latency)
{
    outcomes->begun = true;
    outcomes->last_ns = outcomes->older_ns = outcomes->newer_ns = wall_ns;
    copy_outcomes(outcomes->last, latency);
    copy_outcomes(outcomes->older, latency);
    copy_outcomes(outcomes->newer, latency);
    reset_recent(outcomes);
}

static void update_recent(struct outcomes *outcomes, const struct histogram *latency)
{
    reset_recent(outcomes);
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        histogram_add(&outcomes->recent[i], &latency[i]);
        histogram_subtract(&outcomes->recent[i], &outcomes->older[i]);
        histogram_add(&outcomes->recent[OUTCOME_ALL], &outcomes->recent[i]);
    }
}

void outcomes_push(struct outcomes *outcomes, uint64_t wall_ns, const struct histogram *latency)
{
    struct second *second;

    if (!outcomes->begun || wall_ns < outcomes->last_ns ||
        wall_ns - outcomes->last_ns > LONG_PAUSE_NS) {
        begin_outcomes(outcomes, wall_ns, latency);
        return;
    }
    second = outcome_second_at(outcomes, wall_ns / NS_PER_S);
    second->split = true;
    memset(second->bucket[OUTCOME_ALL], 0, sizeof(second->bucket[OUTCOME_ALL]));
    for (int i = 0; i < OUTCOME_COUNT; i++)
        add_growth(second->bucket[i], &latency[i], &outcomes->last[i]);
    update_recent(outcomes, latency);
    copy_outcomes(outcomes->last, latency);
    outcomes->last_ns = wall_ns;
    if (wall_ns - outcomes->newer_ns < RECENT_BASE_EVERY_NS)
        return;
    copy_outcomes(outcomes->older, outcomes->newer);
    copy_outcomes(outcomes->newer, latency);
    outcomes->older_ns = outcomes->newer_ns;
    outcomes->newer_ns = wall_ns;
}

bool outcomes_second(const struct outcomes *outcomes, uint64_t number, int outcome,
                     uint64_t *buckets)
{
    const struct second *second = &outcomes->second[number % OUTCOMES_SECONDS];

    if (second->number != number || (!second->split && outcome != OUTCOME_ALL))
        return false;
    for (int i = 0; i <= OUTCOME_COUNT; i++)
        for (int j = 0; (i == outcome || outcome == OUTCOME_ALL) && j < HISTOGRAM_COARSE_BUCKETS;
             j++)
            buckets[j] += second->bucket[i][j];
    return true;
}

const struct histogram *outcomes_recent(const struct outcomes *outcomes, int outcome)
{
    return &outcomes->recent[outcome];
}

uint64_t outcomes_recent_ns(const struct outcomes *outcomes)
{
    return outcomes->last_ns - outcomes->older_ns;
}

double outcomes_percentile(const uint64_t *buckets, double percent)
{
    uint64_t count = 0, seen = 0;

    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        count += buckets[i];
    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS && count > 0; i++) {
        seen += buckets[i];
        if ((double)seen >= (double)count * percent / 100)
            return (double)histogram_highest(((i + 1) << HISTOGRAM_COARSE_SHIFT) - 1);
    }
    return NAN;
}

double outcomes_mean(const uint64_t *buckets)
{
    double count = 0, sum = 0;

    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++) {
        uint32_t first = i << HISTOGRAM_COARSE_SHIFT;
        uint32_t last = ((i + 1) << HISTOGRAM_COARSE_SHIFT) - 1;
        double middle = ((double)histogram_lowest(first) + (double)histogram_highest(last)) / 2;

        count += (double)buckets[i];
        sum += (double)buckets[i] * middle;
    }
    return figure_quotient(sum, count);
}
