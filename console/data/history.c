#include "console/data/history.h"

#include "common/clock.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    THREADS_KEPT = HISTORY_THREADS * SEGMENT_HISTORY_SAMPLES,
    PROCESSES_KEPT = HISTORY_PROCESSES * SEGMENT_HISTORY_SAMPLES,
    BYTES_MAX = 8 * 1024 * 1024,
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
                  BYTES_MAX,
              "wsconsole(1) states the memory of the history");

struct history {
    struct second *ring;
    struct past_thread *thread;    /* THREADS_KEPT; number n has index n % THREADS_KEPT */
    uint64_t thread_next;          /* number of the next one */
    struct process_usage *process; /* the same, PROCESSES_KEPT */
    uint64_t process_next;
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
    if (history->ring == NULL || history->thread == NULL || history->process == NULL) {
        history_destroy(history);
        return NULL;
    }
    return history;
}

void history_destroy(struct history *history)
{
    if (history == NULL)
        return;
    free(history->process);
    free(history->thread);
    free(history->ring);
    free(history);
}

static struct second *second_at(const struct history *history, uint64_t number)
{
    return &history->ring[number % SEGMENT_HISTORY_SAMPLES];
}

/* The number of whole seconds without a sample between the last sample and one at TIME_NS. */
static uint64_t missing_seconds(const struct history *history, uint64_t time_ns)
{
    uint64_t last = second_at(history, history->next - 1)->sample.time_ns;
    uint64_t missing = time_ns > last + NS_PER_S ? (time_ns - last) / NS_PER_S - 1 : 0;

    return missing < SEGMENT_HISTORY_SAMPLES ? missing : SEGMENT_HISTORY_SAMPLES;
}

void history_push(struct history *history, const struct sample_copy *sample, const char *letters)
{
    bool first = history->next == 0;
    uint64_t missing = first || !history->broken ? 0 : missing_seconds(history, sample->time_ns);
    struct second *second;

    for (uint64_t i = 0; i < missing; i++)
        second_at(history, history->next++)->present = false;
    second = second_at(history, history->next++);
    second->present = true;
    second->continuous = !first && !history->broken;
    second->sample = *sample;
    second->threads = second->processes = (struct kept){0};
    second->shortage = (struct cpu_shortage){0};
    memset(second->letters, 0, sizeof(second->letters));
    if (letters != NULL)
        memcpy(second->letters, letters, sizeof(second->letters));
    history->broken = false;
}

void history_add_threads(struct history *history, const struct model *model,
                         const struct process_table *processes)
{
    const struct snapshot *now = model_now(model);
    struct second *second = second_at(history, history->next - 1);

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

size_t history_length(const struct history *history)
{
    return history->next < SEGMENT_HISTORY_SAMPLES ? (size_t)history->next
                                                   : SEGMENT_HISTORY_SAMPLES;
}

void history_look_back(struct history *history, size_t back)
{
    history->back = back;
}

bool history_second(const struct history *history, size_t back, const struct sample_copy **sample,
                    const char **letters, const struct sample_copy **before)
{
    const struct second *second, *last;

    if (history->ring == NULL || back >= history_length(history))
        return false;
    second = second_at(history, history->next - 1 - back);
    last = back + 1 < history_length(history) ? second_at(history, history->next - 2 - back) : NULL;
    *sample = &second->sample;
    *letters = second->letters;
    *before = last != NULL && last->present && second->continuous ? &last->sample : NULL;
    return second->present;
}

void history_times(const struct history *history, uint64_t *times_ns, size_t count)
{
    uint64_t end = history->next - history->back, oldest = history->next - history_length(history);

    for (size_t i = 0; i < count; i++) {
        uint64_t back = count - i;
        const struct second *second = end >= oldest + back ? second_at(history, end - back) : NULL;

        times_ns[i] = second != NULL && second->present ? second->sample.time_ns : 0;
    }
}

size_t history_back_of(const struct history *history, uint64_t time_ns)
{
    size_t found = 0;

    for (size_t back = 0; back < history_length(history); back++) {
        const struct second *second = second_at(history, history->next - 1 - back);

        if (!second->present)
            continue;
        if (second->sample.time_ns < time_ns)
            break;
        found = back;
    }
    return found;
}

/* Increase of METRIC from BEFORE to NOW, per second; NAN if there is no previous second. */
static double rate(const struct second *before, const struct second *now, enum metric metric)
{
    uint64_t took;

    if (!now->continuous || before == NULL || !before->present)
        return NAN;
    took = now->sample.time_ns - before->sample.time_ns;
    if (now->sample.time_ns <= before->sample.time_ns || took > 10 * NS_PER_S)
        took = NS_PER_S; /* the wall clock was changed */
    return figure_rate(before->sample.values[metric], now->sample.values[metric], took);
}

/* The source of a figure: two consecutive seconds. */
struct step {
    const struct second *before, *now;
};

static double source(const void *step, enum metric metric)
{
    const struct step *own = step;

    return metric_table[metric].kind == KIND_GAUGE ? (double)own->now->sample.values[metric]
                                                   : rate(own->before, own->now, metric);
}

static double figure(const struct second *before, const struct second *now, enum figure figure)
{
    return figure_value(figure, source, &(struct step){before, now});
}

static double percentile(const struct second *now, double percent)
{
    uint64_t value = sample_percentile(&now->sample, percent);

    return value > 0 ? (double)value : NAN;
}

static double value_of(const struct second *before, const struct second *now, enum series series)
{
    if (!now->present)
        return HISTORY_GAP;
    switch (series) {
    case SERIES_REQUESTS:
        return rate(before, now, METRIC_requests);
    case SERIES_BYTES_SENT:
        return rate(before, now, METRIC_bytes_sent);
    case SERIES_LATENCY_P50:
        return percentile(now, 50);
    case SERIES_LATENCY_P99:
        return percentile(now, 99);
    case SERIES_LATENCY_MAX:
        return percentile(now, 100);
    case SERIES_CONNECTIONS:
        return (double)now->sample.values[METRIC_connections_open];
    case SERIES_ERRORS:
        return figure(before, now, FIGURE_errors);
    case SERIES_HIT_RATIO:
        return figure(before, now, FIGURE_cache_hit_ratio);
    case SERIES_REQUESTS_PER_CORE:
        return figure(before, now, FIGURE_requests_per_core);
    case SERIES_SWITCHES_PER_REQUEST:
        return figure(before, now, FIGURE_switches_per_request);
    case SERIES_COUNT:
        break;
    }
    return NAN;
}

/* Fills VALUES with the COUNT seconds before number END. */
static void fill_series(const struct history *history, uint64_t end, enum series series,
                        double *values, size_t count)
{
    uint64_t oldest = history->next - history_length(history);

    for (size_t i = 0; i < count; i++) {
        uint64_t back = count - i;

        values[i] = end < oldest + back
                        ? NAN
                        : value_of(end == oldest + back ? NULL : second_at(history, end - back - 1),
                                   second_at(history, end - back), series);
    }
}

void history_series(const struct history *history, enum series series, double *values, size_t count)
{
    fill_series(history, history->next - history->back, series, values, count);
}

void history_whole(const struct history *history, enum series series, double *values, size_t count)
{
    fill_series(history, history->next, series, values, count);
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

/* Copies what was kept of the threads and processes, unless it is overwritten since. */
static void take_kept(struct history_cursor *cursor, const struct history *history,
                      const struct second *second)
{
    const struct kept *threads = &second->threads, *processes = &second->processes;
    struct process_table *table = &cursor->processes;

    table->time_ns = second->sample.time_ns;
    table->shortage = second->shortage;
    table->count = table->thread_count = cursor->thread_count = 0;
    for (uint32_t i = 0; i < threads->count && i < PROCESS_THREADS_MAX &&
                         threads->from + THREADS_KEPT >= history->thread_next;
         i++) {
        const struct past_thread *past = &history->thread[(threads->from + i) % THREADS_KEPT];

        cursor->thread[cursor->thread_count++] = *past;
        table->thread[table->thread_count++] =
            (struct thread_usage){.tid = past->tid, .cores = past->cores};
    }
    for (uint32_t i = 0; i < processes->count && i < PROCESSES_MAX &&
                         processes->from + PROCESSES_KEPT >= history->process_next;
         i++)
        table->process[table->count++] = history->process[(processes->from + i) % PROCESSES_KEPT];
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

/* Fills what the history does not record from PRESENT. Wanted numbers stay zero. */
static void describe(struct snapshot *then, const struct snapshot *present,
                     const struct sample_copy *sample)
{
    uint64_t ago_ns = present->wall_ns > sample->time_ns ? present->wall_ns - sample->time_ns : 0;

    then->server = present->server;
    then->dispatch_master = present->dispatch_master;
    then->wall_ns = sample->time_ns;
    then->time_ns = present->time_ns > ago_ns ? present->time_ns - ago_ns : 0;
    then->log_level = present->log_level;
    memcpy(then->sums, sample->values, sizeof(then->sums));
}

static int make_room(struct history_cursor *cursor, const struct snapshot *present)
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

size_t history_cursor_set(struct history_cursor *cursor, const struct history *history,
                          const struct snapshot *present, size_t back)
{
    const struct sample_copy *sample, *before;
    const char *letters;
    struct snapshot *then = &cursor->snapshot;

    if (back >= history_length(history))
        back = history_length(history) > 0 ? history_length(history) - 1 : 0;
    while (back > 0 && !history_second(history, back, &sample, &letters, &before))
        back--;
    if (back == 0 || make_room(cursor, present) != 0)
        return 0;
    describe(then, present, sample);
    take_kept(cursor, history, second_at(history, history->next - 1 - back));
    describe_workers(cursor, present);
    then->thread_count = 0;
    for (uint32_t slot = 0; slot < then->thread_room && slot < HISTORY_LETTERS; slot++)
        if (letters[slot] != '\0')
            add_thread(cursor, present, slot, letters[slot]);
    model_take_past(cursor->model, then, before, sample, cursor->thread, cursor->thread_count);
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
