#include "console/data/history.h"

#include "common/clock.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NS     (HISTORY_STEP_S * NS_PER_S)
#define TOO_LONG_NS (2 * STEP_NS) /* between two samples: the wall clock was changed */

enum {
    THREADS_KEPT = HISTORY_THREADS * SEGMENT_HISTORY_SAMPLES,
    PROCESSES_KEPT = HISTORY_PROCESSES * SEGMENT_HISTORY_SAMPLES,
    SECONDS_BYTES_MAX = 8 * 1024 * 1024,
    STEPS_BYTES_MAX = 16 * 1024 * 1024,
};

/* Numbers FROM to FROM + COUNT of the threads or processes that were kept. */
struct kept {
    uint64_t from;
    uint32_t count;
};

/* One second. The sample has counters, not rates: a rate needs the previous second, too. */
struct second {
    bool present;    /* false: a gap */
    bool continuous; /* the previous second belongs to the same daemon */
    struct kept threads, processes;
    struct cpu_shortage shortage;
    struct sample_copy sample;
    char letters[HISTORY_LETTERS];
};

static_assert(sizeof(struct second) * SEGMENT_HISTORY_SAMPLES +
                      sizeof(struct past_thread) * THREADS_KEPT +
                      sizeof(struct process_usage) * PROCESSES_KEPT <=
                  SECONDS_BYTES_MAX,
              "wsconsole(1) states the memory of the history");

/*
 * The seconds whose time (wall clock) divided by the step has this number. A long graph has
 * thousands of values, so they are computed once, and are apart from the samples.
 */
struct step {
    uint64_t number;  /* 0: never used */
    uint64_t time_ns; /* when its last second ended */
    bool continuous;  /* the previous step belongs to the same daemon */
    float series[SERIES_COUNT];
};

static_assert((sizeof(struct step) + sizeof(struct sample_copy)) * HISTORY_VALUES <=
                  STEPS_BYTES_MAX,
              "wsconsole(1) states the memory of the history");

/* A master that was attached. */
struct tenure {
    uint64_t started_ns, server_ns; /* start of it, and of the server (wall clock) */
    int32_t pid;
};

enum { TENURES = 32 };

struct history {
    struct second *ring;
    struct tenure tenure[TENURES]; /* number n has index n % TENURES */
    uint64_t tenures;
    struct past_thread *thread;    /* THREADS_KEPT; number n has index n % THREADS_KEPT */
    uint64_t thread_next;          /* number of the next one */
    struct process_usage *process; /* the same, PROCESSES_KEPT */
    uint64_t process_next;
    struct step *step;               /* HISTORY_VALUES; number n has index n % HISTORY_VALUES */
    struct sample_copy *step_sample; /* by step: the counters of its last second, all latency */
    uint64_t first_step;
    uint64_t next; /* number of the next second; its index is number % SEGMENT_HISTORY_SAMPLES */
    bool broken;
    uint64_t back; /* see history_look_back() */
};

struct history *history_create(void)
{
    struct history *history = calloc(1, sizeof(*history));

    if (history == NULL)
        return NULL;
    history->ring = calloc(SEGMENT_HISTORY_SAMPLES, sizeof(*history->ring));
    history->thread = calloc(THREADS_KEPT, sizeof(*history->thread));
    history->process = calloc(PROCESSES_KEPT, sizeof(*history->process));
    history->step = calloc(HISTORY_VALUES, sizeof(*history->step));
    history->step_sample = calloc(HISTORY_VALUES, sizeof(*history->step_sample));
    if (history->step == NULL || history->step_sample == NULL || history->ring == NULL ||
        history->thread == NULL || history->process == NULL) {
        history_destroy(history);
        return NULL;
    }
    return history;
}

void history_destroy(struct history *history)
{
    if (history == NULL)
        return;
    free(history->step_sample);
    free(history->step);
    free(history->process);
    free(history->thread);
    free(history->ring);
    free(history);
}

static struct second *history_second_at(const struct history *history, uint64_t number)
{
    return &history->ring[number % SEGMENT_HISTORY_SAMPLES];
}

/* The number of whole seconds without a sample between the last sample and one at TIME_NS. */
static uint64_t missing_seconds(const struct history *history, uint64_t time_ns)
{
    uint64_t last = history_second_at(history, history->next - 1)->sample.time_ns;
    uint64_t missing = time_ns > last + NS_PER_S ? (time_ns - last) / NS_PER_S - 1 : 0;

    return missing < SEGMENT_HISTORY_SAMPLES ? missing : SEGMENT_HISTORY_SAMPLES;
}

static double value_of(const struct sample_copy *before, const struct sample_copy *now,
                       enum series series);

/* NULL: there is no step with this number. */
static struct step *step_at(const struct history *history, uint64_t number)
{
    struct step *step = &history->step[number % HISTORY_VALUES];

    return number != 0 && step->number == number ? step : NULL;
}

static struct sample_copy *sample_of(const struct history *history, const struct step *step)
{
    return &history->step_sample[step->number % HISTORY_VALUES];
}

/* The step before STEP, of the same daemon; NULL: none. */
static const struct sample_copy *sample_before(const struct history *history,
                                               const struct step *step)
{
    const struct step *before = step_at(history, step->number - 1);

    return before != NULL && step->continuous ? sample_of(history, before) : NULL;
}

static void add_to_step(struct history *history, const struct sample_copy *sample, bool continuous)
{
    uint64_t number = sample->time_ns / STEP_NS;
    struct step *step = &history->step[number % HISTORY_VALUES];
    struct sample_copy *sum = &history->step_sample[number % HISTORY_VALUES];

    if (step->number != number) {
        *step = (struct step){.number = number, .continuous = true};
        memset(sum, 0, sizeof(*sum));
    }
    step->continuous &= continuous;
    step->time_ns = sum->time_ns = sample->time_ns;
    memcpy(sum->values, sample->values, sizeof(sample->values));
    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        sum->latency[i] += sample->latency[i];
    if (sample->latency_max_ns > sum->latency_max_ns)
        sum->latency_max_ns = sample->latency_max_ns;
    for (int i = 0; i < SERIES_COUNT; i++)
        step->series[i] = (float)value_of(sample_before(history, step), sum, (enum series)i);
    if (history->first_step == 0 || number < history->first_step)
        history->first_step = number;
}

void history_push(struct history *history, const struct sample_copy *sample, const char *letters)
{
    bool first = history->next == 0;
    uint64_t missing = first || !history->broken ? 0 : missing_seconds(history, sample->time_ns);
    struct second *second;

    for (uint64_t i = 0; i < missing; i++)
        history_second_at(history, history->next++)->present = false;
    second = history_second_at(history, history->next++);
    second->present = true;
    second->continuous = !first && !history->broken;
    second->sample = *sample;
    second->threads = second->processes = (struct kept){0};
    second->shortage = (struct cpu_shortage){0};
    memset(second->letters, 0, sizeof(second->letters));
    if (letters != NULL)
        memcpy(second->letters, letters, sizeof(second->letters));
    add_to_step(history, sample, second->continuous);
    history->broken = false;
}

void history_add_threads(struct history *history, const struct model *model,
                         const struct process_table *processes)
{
    const struct snapshot *now = model_now(model);
    struct second *second = history_second_at(history, history->next - 1);

    if (history->next == 0 || now == NULL)
        return;
    second->threads = (struct kept){.from = history->thread_next};
    for (uint32_t i = 0; i < now->thread_count && second->threads.count < THREADS_KEPT; i++) {
        const struct thread_sample *thread = &now->threads[i];

        if (thread->activity.state == THREAD_STATE_NONE)
            continue;
        model_keep_thread(model, thread, processes_thread_cores(processes, thread->activity.tid),
                          &history->thread[history->thread_next++ % THREADS_KEPT]);
        second->threads.count++;
    }
    second->processes = (struct kept){.from = history->process_next, .count = processes->count};
    for (uint32_t i = 0; i < processes->count; i++)
        history->process[history->process_next++ % PROCESSES_KEPT] = processes->process[i];
    second->shortage = processes->shortage;
}

void history_break(struct history *history)
{
    history->broken = true;
}

void history_begin(struct history *history, int32_t pid, uint64_t master_ns, uint64_t server_ns)
{
    history_break(history);
    history->tenure[history->tenures++ % TENURES] = (struct tenure){master_ns, server_ns, pid};
}

size_t history_length(const struct history *history)
{
    return history->next < SEGMENT_HISTORY_SAMPLES ? (size_t)history->next
                                                   : SEGMENT_HISTORY_SAMPLES;
}

void history_look_back(struct history *history, size_t back)
{
    history->back = back;
}

/*
 * Reads the second that is BACK seconds before the newest one: its sample, its state letters, and
 * in BEFORE the sample of the previous second (NULL: there is none of the same daemon). False in a
 * gap and beyond the oldest second. Valid until the next push.
 */
static bool history_second(const struct history *history, size_t back,
                           const struct sample_copy **sample, const char **letters,
                           const struct sample_copy **before)
{
    const struct second *second, *last;

    if (history->ring == NULL || back >= history_length(history))
        return false;
    second = history_second_at(history, history->next - 1 - back);
    last = back + 1 < history_length(history) ? history_second_at(history, history->next - 2 - back)
                                              : NULL;
    *sample = &second->sample;
    *letters = second->letters;
    *before = last != NULL && last->present && second->continuous ? &last->sample : NULL;
    return second->present;
}

/* Wall clock of the newest second; 0: none. It is never in a gap. */
static uint64_t newest_ns(const struct history *history)
{
    return history->next > 0 ? history_second_at(history, history->next - 1)->sample.time_ns : 0;
}

/* The time BACK seconds before the newest second. */
static uint64_t time_back(const struct history *history, uint64_t back)
{
    uint64_t newest = newest_ns(history);

    return newest > back * NS_PER_S ? newest - back * NS_PER_S : 0;
}

/* How many seconds before the newest second STEP ends. */
static size_t back_of_step(const struct history *history, const struct step *step)
{
    return (size_t)((newest_ns(history) - step->time_ns + NS_PER_S / 2) / NS_PER_S);
}

/* The step at TIME_NS or the next one, if it is older than all seconds; else NULL. */
static const struct step *step_from(const struct history *history, uint64_t time_ns)
{
    uint64_t end = time_back(history, history_length(history)) / STEP_NS; /* older ones are below */
    uint64_t oldest = newest_ns(history) / STEP_NS, number;

    oldest = oldest > HISTORY_VALUES ? oldest - HISTORY_VALUES + 1 : 1;
    number = time_ns / STEP_NS > oldest ? time_ns / STEP_NS : oldest;
    if (number >= end && end > 0)
        number = end - 1;
    for (; number < end; number++)
        if (step_at(history, number) != NULL)
            return step_at(history, number);
    return NULL;
}

size_t history_reach(const struct history *history)
{
    const struct step *oldest = step_from(history, 0);
    size_t length = history_length(history);

    return oldest != NULL ? back_of_step(history, oldest) : length > 0 ? length - 1 : 0;
}

size_t history_resolution(const struct history *history, size_t back)
{
    size_t length = history_length(history);

    /* the newest step ends up to a step and a second before the oldest second */
    return back < length                         ? 1
           : back <= length + HISTORY_STEP_S + 1 ? HISTORY_STEP_S + 2
                                                 : HISTORY_STEP_S;
}

size_t history_back_of(const struct history *history, uint64_t time_ns)
{
    const struct step *step =
        time_ns <= time_back(history, history_length(history)) ? step_from(history, time_ns) : NULL;
    size_t found = 0;

    if (step != NULL)
        return back_of_step(history, step);

    for (size_t back = 0; back < history_length(history); back++) {
        const struct second *second = history_second_at(history, history->next - 1 - back);

        if (!second->present)
            continue;
        if (second->sample.time_ns < time_ns)
            break;
        found = back;
    }
    return found;
}

/* Increase of METRIC from BEFORE to NOW, per second; NAN without BEFORE. */
static double rate_between(const struct sample_copy *before, const struct sample_copy *now,
                           enum metric metric)
{
    uint64_t took;

    if (before == NULL)
        return NAN;
    took = now->time_ns - before->time_ns;
    if (now->time_ns <= before->time_ns || took > TOO_LONG_NS)
        took = NS_PER_S;
    return figure_rate(before->values[metric], now->values[metric], took);
}

/* The source of a figure: two consecutive samples. */
struct samples {
    const struct sample_copy *before, *now;
};

static double sample_source(const void *samples, enum metric metric)
{
    const struct samples *own = samples;

    return metric_table[metric].kind == KIND_GAUGE ? (double)own->now->values[metric]
                                                   : rate_between(own->before, own->now, metric);
}

static double figure_between(const struct sample_copy *before, const struct sample_copy *now,
                             enum figure figure)
{
    return figure_value(figure, sample_source, &(struct samples){before, now});
}

static double percentile_of_sample(const struct sample_copy *now, double percent)
{
    uint64_t value = sample_percentile(now, percent);

    return value > 0 ? (double)value : NAN;
}

static double value_of(const struct sample_copy *before, const struct sample_copy *now,
                       enum series series)
{
    switch (series) {
    case SERIES_REQUESTS:
        return rate_between(before, now, METRIC_requests);
    case SERIES_BYTES_SENT:
        return rate_between(before, now, METRIC_bytes_sent);
    case SERIES_LATENCY_P50:
        return percentile_of_sample(now, 50);
    case SERIES_LATENCY_P99:
        return percentile_of_sample(now, 99);
    case SERIES_LATENCY_MAX:
        return percentile_of_sample(now, 100);
    case SERIES_CONNECTIONS:
        return (double)now->values[METRIC_connections_open];
    case SERIES_ERRORS:
        return figure_between(before, now, FIGURE_errors);
    case SERIES_QUEUE:
        return (double)now->values[METRIC_queue_length];
    case SERIES_QUEUE_WAIT:
        return (double)now->values[now->values[METRIC_queue_wait_p99] > 0 ? METRIC_queue_wait_p99
                                                                          : METRIC_queue_oldest];
    case SERIES_HIT_RATIO:
        return figure_between(before, now, FIGURE_cache_hit_ratio);
    case SERIES_REQUESTS_PER_CORE:
        return figure_between(before, now, FIGURE_requests_per_core);
    case SERIES_SWITCHES_PER_REQUEST:
        return figure_between(before, now, FIGURE_switches_per_request);
    case SERIES_COUNT:
        break;
    }
    return NAN;
}

/* The value of the step with NUMBER. */
static double step_value(const struct history *history, uint64_t number, enum series series)
{
    const struct step *step = step_at(history, number);

    return step != NULL                   ? (double)step->series[series]
           : number < history->first_step ? NAN
                                          : HISTORY_GAP;
}

/* The step of the second BACK seconds before the newest one, which is older than all seconds. */
static uint64_t older_step(const struct history *history, uint64_t back)
{
    return history_length(history) == SEGMENT_HISTORY_SAMPLES ? time_back(history, back) / STEP_NS
                                                              : 0;
}

/* The value of the second BACK seconds before the newest one; of an older one, that of its step. */
static double second_value(const struct history *history, uint64_t back, enum series series)
{
    const struct second *now, *before;

    if (back >= history_length(history))
        return step_value(history, older_step(history, back), series);
    now = history_second_at(history, history->next - 1 - back);
    before = back + 1 < history_length(history)
                 ? history_second_at(history, history->next - 2 - back)
                 : NULL;
    if (!now->present)
        return HISTORY_GAP;
    return value_of(before != NULL && before->present && now->continuous ? &before->sample : NULL,
                    &now->sample, series);
}

/* Fills VALUES with the COUNT seconds up to the one BACK seconds before the newest. */
static void fill_series(const struct history *history, uint64_t back, enum series series,
                        double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = second_value(history, back + count - 1 - i, series);
}

/* The number of the last step without data that is newer than the second shown. */
static uint64_t step_shown(const struct history *history)
{
    uint64_t shown_ns = time_back(history, history->back);
    const struct step *step = step_at(history, shown_ns / STEP_NS);

    return shown_ns / STEP_NS - (step != NULL && step->time_ns > shown_ns + NS_PER_S / 2);
}

/* The end of the second BACK seconds before the newest one, or of its step; 0: none. */
static uint64_t second_time(const struct history *history, uint64_t back)
{
    const struct second *second;
    const struct step *step;

    if (back >= history_length(history)) {
        step = step_at(history, older_step(history, back));
        return step != NULL ? step->time_ns : 0;
    }
    second = history_second_at(history, history->next - 1 - back);
    return second->present ? second->sample.time_ns : 0;
}

size_t history_values(int span_s)
{
    return (size_t)(span_s <= SEGMENT_HISTORY_SAMPLES ? span_s : span_s / HISTORY_STEP_S);
}

size_t history_span(const struct history *history, enum series series, int span_s, double *values)
{
    size_t count = history_values(span_s);
    uint64_t last = step_shown(history);

    if (span_s <= SEGMENT_HISTORY_SAMPLES) {
        fill_series(history, history->back, series, values, count);
        return count;
    }
    for (size_t i = 0; i < count; i++)
        values[i] =
            last >= count - 1 - i ? step_value(history, last - (count - 1 - i), series) : NAN;
    return count;
}

size_t history_span_times(const struct history *history, int span_s, uint64_t *times_ns)
{
    size_t count = history_values(span_s);
    uint64_t last = step_shown(history);

    for (size_t i = 0; i < count; i++) {
        uint64_t back = count - 1 - i;
        const struct step *step = last > back ? step_at(history, last - back) : NULL;

        times_ns[i] = span_s <= SEGMENT_HISTORY_SAMPLES ? second_time(history, history->back + back)
                      : step != NULL                    ? step->time_ns
                                                        : 0;
    }
    return count;
}

bool history_latency(const struct history *history, uint64_t from_s, uint64_t to_s,
                     uint64_t *buckets)
{
    bool known = false;

    for (uint64_t number = (from_s + HISTORY_STEP_S - 1) / HISTORY_STEP_S;
         number * HISTORY_STEP_S < to_s; number++) {
        const struct step *step = step_at(history, number);

        known |= step != NULL;
        for (int i = 0; step != NULL && i < HISTOGRAM_COARSE_BUCKETS; i++)
            buckets[i] += sample_of(history, step)->latency[i];
    }
    return known;
}

size_t history_all_steps(const struct history *history, enum series series, double *values)
{
    uint64_t newest = newest_ns(history) / STEP_NS;
    size_t count = history_reach(history) / HISTORY_STEP_S + 1;

    count = count < HISTORY_VALUES ? count : HISTORY_VALUES;
    for (size_t i = 0; i < count; i++)
        values[i] = step_value(history, newest - (count - 1 - i), series);
    return count;
}

void history_series(const struct history *history, enum series series, double *values, size_t count)
{
    fill_series(history, history->back, series, values, count);
}

void history_whole(const struct history *history, enum series series, double *values, size_t count)
{
    fill_series(history, 0, series, values, count);
}

/* What the seconds and steps have */

/*
 * Copies what history_add_threads() kept of the second that is BACK seconds before the newest one,
 * unless it is overwritten since: THREADS has PROCESS_THREADS_MAX places. Returns their number.
 */
static uint32_t history_kept(const struct history *history, size_t back,
                             struct past_thread *threads, struct process_table *table)
{
    const struct second *second = history_second_at(history, history->next - 1 - back);
    const struct kept *kept = &second->threads, *processes = &second->processes;

    table->time_ns = second->sample.time_ns;
    table->shortage = second->shortage;
    table->count = table->thread_count = 0;
    for (uint32_t i = 0; i < kept->count && i < PROCESS_THREADS_MAX &&
                         kept->from + THREADS_KEPT >= history->thread_next;
         i++) {
        const struct past_thread *past = &history->thread[(kept->from + i) % THREADS_KEPT];

        threads[i] = *past;
        table->thread[table->thread_count++] =
            (struct thread_usage){.tid = past->tid, .cores = past->cores};
    }
    for (uint32_t i = 0; i < processes->count && i < PROCESSES_MAX &&
                         processes->from + PROCESSES_KEPT >= history->process_next;
         i++)
        table->process[table->count++] = history->process[(processes->from + i) % PROCESSES_KEPT];
    return table->thread_count;
}

/*
 * The step at *BACK seconds before the newest second, if that is beyond the seconds: its counters,
 * and those of the step before (NULL: there is none of the same daemon). Stores in *BACK where it
 * ends.
 */
static bool history_step(const struct history *history, size_t *back,
                         const struct sample_copy **sample, const struct sample_copy **before)
{
    const struct step *step =
        *back >= history_length(history) ? step_from(history, time_back(history, *back)) : NULL;

    if (step == NULL)
        return false;
    *sample = sample_of(history, step);
    *before = sample_before(history, step);
    *back = back_of_step(history, step);
    return true;
}

/* Cursor */

struct history_cursor {
    struct snapshot snapshot;
    struct model *model;
    struct past_thread thread[PROCESS_THREADS_MAX];
    uint32_t thread_count;
    struct process_table processes;
};

struct history_cursor *history_cursor_create(void)
{
    struct history_cursor *cursor = calloc(1, sizeof(*cursor));

    if (cursor == NULL)
        return NULL;
    cursor->model = model_create();
    if (cursor->model == NULL) {
        free(cursor);
        return NULL;
    }
    return cursor;
}

void history_cursor_destroy(struct history_cursor *cursor)
{
    if (cursor == NULL)
        return;
    model_destroy(cursor->model);
    snapshot_release(&cursor->snapshot);
    free(cursor);
}

static uint32_t state_of_letter(const struct server *server, char letter)
{
    for (uint32_t state = 0; state < server->state_count; state++)
        if (server->states[state].letter == letter)
            return state;
    return THREAD_STATE_NONE;
}

static const struct thread_sample *thread_in_slot(const struct snapshot *present, uint32_t slot)
{
    for (uint32_t i = 0; i < present->thread_count; i++)
        if (present->threads[i].slot == slot)
            return &present->threads[i];
    return NULL;
}

static void add_thread(struct history_cursor *cursor, const struct snapshot *present, uint32_t slot,
                       char letter)
{
    struct snapshot *then = &cursor->snapshot;
    const struct thread_sample *now = thread_in_slot(present, slot);
    struct thread_sample *thread = &then->threads[then->thread_count++];

    *thread = (struct thread_sample){.slot = slot, .worker = SEGMENT_NO_WORKER};
    if (now != NULL) {
        thread->worker = now->worker;
        thread->thread = now->thread;
    }
    for (uint32_t i = 0; i < cursor->thread_count; i++)
        if (cursor->thread[i].slot == slot) {
            thread->worker = cursor->thread[i].worker;
            thread->thread = cursor->thread[i].thread;
            thread->activity.tid = cursor->thread[i].tid;
        }
    thread->activity.state = state_of_letter(&then->server, letter);
    thread->activity.since_ns = then->time_ns;
}

static const struct worker_sample *worker_in_slot(const struct snapshot *present, uint32_t slot)
{
    for (uint32_t i = 0; i < present->worker_count; i++)
        if (present->workers[i].slot == slot)
            return &present->workers[i];
    return NULL;
}

/* The workers that were kept; without any, those of PRESENT. Their counters stay zero. */
static void describe_workers(struct history_cursor *cursor, const struct snapshot *present)
{
    const struct process_table *table = &cursor->processes;
    struct snapshot *then = &cursor->snapshot;

    then->worker_count = 0;
    for (uint32_t i = 0; i < table->count && then->worker_count < then->worker_room; i++) {
        const struct process_usage *process = &table->process[i];
        const struct worker_sample *now = worker_in_slot(present, process->slot);

        if (process->role == ROLE_WORKER)
            then->workers[then->worker_count++] = (struct worker_sample){
                .slot = process->slot,
                .pid = process->pid,
                .state = WORKER_SERVING,
                .started_ns = now != NULL && now->pid == process->pid ? now->started_ns : 0};
    }
    for (uint32_t i = 0; i < present->worker_count && table->count == 0; i++)
        then->workers[then->worker_count++] =
            (struct worker_sample){.slot = present->workers[i].slot,
                                   .pid = present->workers[i].pid,
                                   .state = present->workers[i].state,
                                   .started_ns = present->workers[i].started_ns};
}

/* The daemon that ran at TIME_NS (wall clock); NULL: it is not known any more. */
static const struct tenure *tenure_at(const struct history *history, uint64_t time_ns)
{
    uint64_t known = history->tenures < TENURES ? history->tenures : TENURES;

    for (uint64_t back = 1; back <= known; back++) {
        const struct tenure *tenure = &history->tenure[(history->tenures - back) % TENURES];

        if (tenure->started_ns <= time_ns)
            return tenure;
    }
    return NULL;
}

/* Fills what the history does not record from PRESENT. Wanted numbers stay zero. */
static void describe_second(struct snapshot *then, const struct history *history,
                            const struct snapshot *present, const struct sample_copy *sample)
{
    const struct tenure *tenure = tenure_at(history, sample->time_ns);
    uint64_t ago_ns = present->wall_ns > sample->time_ns ? present->wall_ns - sample->time_ns : 0;

    then->server = present->server;
    if (tenure != NULL) {
        then->server.pid = tenure->pid;
        then->server.started_ns = tenure->server_ns;
        then->server.start_ns = tenure->pid == present->server.pid ? present->server.start_ns : 0;
    }
    then->dispatch_master = present->dispatch_master;
    then->wall_ns = sample->time_ns;
    then->time_ns = present->time_ns > ago_ns ? present->time_ns - ago_ns : 0;
    then->log_level = present->log_level;
    memcpy(then->sums, sample->values, sizeof(then->sums));
}

static int make_cursor_room(struct history_cursor *cursor, const struct snapshot *present)
{
    struct snapshot *then = &cursor->snapshot;

    if (then->thread_room == present->thread_room && then->worker_room == present->worker_room)
        return 0;
    snapshot_release(then);
    then->threads = calloc(present->thread_room, sizeof(*then->threads));
    then->workers = calloc(present->worker_room, sizeof(*then->workers));
    if (then->threads == NULL || then->workers == NULL) {
        snapshot_release(then);
        return -1;
    }
    then->thread_room = present->thread_room;
    then->worker_room = present->worker_room;
    return 0;
}

/* Of a step only the sums and the latency are known. */
static void show_step(struct history_cursor *cursor, const struct history *history,
                      const struct snapshot *present, const struct sample_copy *sample,
                      const struct sample_copy *before)
{
    struct process_table *table = &cursor->processes;

    describe_second(&cursor->snapshot, history, present, sample);
    *table = (struct process_table){.count = 0};
    cursor->snapshot.worker_count = cursor->snapshot.thread_count = cursor->thread_count = 0;
    model_take_past(cursor->model, &cursor->snapshot, before, sample, NULL, 0);
}

static void show_second(struct history_cursor *cursor, const struct history *history,
                        const struct snapshot *present, size_t back)
{
    const struct sample_copy *sample, *before;
    const char *letters;
    struct snapshot *then = &cursor->snapshot;

    history_second(history, back, &sample, &letters, &before);
    describe_second(then, history, present, sample);
    cursor->thread_count = history_kept(history, back, cursor->thread, &cursor->processes);
    describe_workers(cursor, present);
    then->thread_count = 0;
    for (uint32_t slot = 0; slot < then->thread_room && slot < HISTORY_LETTERS; slot++)
        if (letters[slot] != '\0')
            add_thread(cursor, present, slot, letters[slot]);
    model_take_past(cursor->model, then, before, sample, cursor->thread, cursor->thread_count);
}

/* The second to show for BACK; 0: there is none. */
static size_t find_second(const struct history *history, size_t back)
{
    const struct sample_copy *sample, *before;
    const char *letters;

    if (back >= history_length(history))
        back = history_length(history) > 0 ? history_length(history) - 1 : 0;
    while (back > 0 && !history_second(history, back, &sample, &letters, &before))
        back--;
    return back;
}

size_t history_cursor_set(struct history_cursor *cursor, const struct history *history,
                          const struct snapshot *present, size_t back)
{
    const struct sample_copy *sample, *before;

    if (make_cursor_room(cursor, present) != 0)
        return 0;
    if (history_step(history, &back, &sample, &before)) {
        show_step(cursor, history, present, sample, before);
        return back;
    }
    back = find_second(history, back);
    if (back > 0)
        show_second(cursor, history, present, back);
    return back;
}

const struct model *history_cursor_model(const struct history_cursor *cursor)
{
    return cursor->model;
}

const struct process_table *history_cursor_processes(const struct history_cursor *cursor)
{
    return &cursor->processes;
}
