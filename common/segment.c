#include "common/segment.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Readers of other versions, and writers of other programs, rely on these sizes and offsets. */
#define AT(structure, member, bytes)                                                               \
    static_assert(offsetof(struct structure, member) == (bytes), "raise SEGMENT_MAJOR")
#define SIZE(structure, bytes) static_assert(sizeof(struct structure) == (bytes), "the same")
SIZE(segment_section, 32);
AT(segment_header, ready, 52);
AT(segment_header, name, 80);
AT(segment_header, listening, 284);
AT(segment_header, section, 544);
SIZE(segment_metric, 184);
SIZE(segment_state, 80);
SIZE(segment_worker_slot, 32);
SIZE(segment_thread_slot, 16);
AT(segment_master, stopping, 20);
AT(segment_master, history_next, 40);
AT(segment_master, question, 72);
AT(segment_master, model, 80);
AT(segment_master, counted_since_ns, 88);
AT(segment_master, metrics, 128);
AT(segment_logger, metrics, 128);
SIZE(segment_activity, 120);
AT(segment_worker, answer, 24);
AT(segment_worker, acceptors, 36);
AT(segment_worker, queue_since_ns, 48);
AT(segment_worker, offload, 4096);
AT(segment_worker, metrics, 11776);
SIZE(segment_cache_entry, 256);
AT(segment_thread, answer, 120);
AT(segment_thread, metrics, 128);
SIZE(segment_hits, 24);
SIZE(segment_client, 16);
SIZE(segment_rate, 64);
SIZE(segment_address_limit, 40);
AT(segment_address_limits, entry, 8);
AT(segment_challenge, kind, 440);
SIZE(segment_certificate, 616);
AT(segment_certificates, entry, 8);
SIZE(segment_rate_bucket, 128);
SIZE(segment_host, 264);
SIZE(segment_process, 32);
AT(segment_maintenance, host, 8);
AT(segment_host_counts, latency, 64);
SIZE(segment_host_counts, 1152);
AT(segment_sample, values, 24 + 4 * HISTOGRAM_COARSE_BUCKETS);

const struct segment_block segment_blocks[SCOPE_COUNT] = {
    [SCOPE_THREAD] = {SEGMENT_THREADS, offsetof(struct segment_thread, metrics)},
    [SCOPE_WORKER] = {SEGMENT_WORKERS, offsetof(struct segment_worker, metrics)},
    [SCOPE_MASTER] = {SEGMENT_MASTER, offsetof(struct segment_master, metrics)},
    [SCOPE_LOGGER] = {SEGMENT_LOGGER, offsetof(struct segment_logger, metrics)},
};

void segment_store_text(_Atomic uint64_t *words, size_t count, const char *text, size_t length)
{
    size_t room = count * sizeof(uint64_t) - 1;

    if (length > room)
        length = room;
    for (size_t i = 0; i < count; i++) {
        size_t done = i * sizeof(uint64_t);
        uint64_t word = 0;

        if (done < length)
            memcpy(&word, text + done, length - done < sizeof(word) ? length - done : sizeof(word));
        atomic_store_explicit(&words[i], word, memory_order_release);
        if (done + sizeof(word) > length)
            break; /* the text ends in this word */
    }
}

void segment_load_text(const _Atomic uint64_t *words, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word = atomic_load_explicit(&words[i], memory_order_acquire);

        memcpy(text + i * sizeof(word), &word, sizeof(word));
    }
    text[count * sizeof(uint64_t) - 1] = '\0';
}

struct event_ring segment_event_ring(const struct segment *segment, uint32_t number)
{
    enum segment_kind kind = number == SEGMENT_RING_MASTER   ? SEGMENT_EVENTS
                             : number == SEGMENT_RING_LOGGER ? SEGMENT_LOGGER_EVENTS
                                                             : SEGMENT_WORKER_EVENTS;
    uint32_t index = number < SEGMENT_RING_WORKERS ? 0 : number - SEGMENT_RING_WORKERS;

    return (struct event_ring){
        .shared = (struct event_ring_slots *)segment_at(segment, kind, index),
        .slots = event_ring_capacity(segment->section[kind].entry_size),
    };
}

void segment_listening(const struct segment *segment, char *text, size_t size)
{
    snprintf(text, size, "%.*s", (int)sizeof(segment->header.listening),
             segment_shared_header(segment)->listening);
}

/* Whether block I of SCOPE has memory. */
static bool is_reserved(const struct segment *segment, enum metric_scope scope, uint32_t i)
{
    return scope == SCOPE_THREAD   ? segment_thread_reserved(segment, i)
           : scope == SCOPE_WORKER ? segment_worker_reserved(segment, i)
                                   : true;
}

uint64_t segment_sum_at(const struct segment *segment, enum metric metric, uint32_t line,
                        uint32_t offset)
{
    enum metric_scope scope = metric_table[metric].scope;
    enum segment_kind section = segment_blocks[scope].section;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < segment_count(segment, section); i++)
        if (is_reserved(segment, scope, i)) {
            const char *entry = segment_at(segment, section, i);

            sum = metric_join(
                metric, sum,
                atomic_load_explicit((const _Atomic uint64_t *)(const void *)(entry + offset),
                                     memory_order_relaxed));
        }
    for (uint32_t i = 0; i < segment_earlier_entries(segment); i++)
        if (segment_has_earlier(segment, i))
            sum += metric_get(segment_earlier(segment, i), (enum metric)line);
    return sum;
}

uint64_t segment_sum(const struct segment *segment, enum metric metric)
{
    enum metric_scope scope = metric_table[metric].scope;

    return segment_sum_at(segment, metric, metric,
                          segment_blocks[scope].metrics_offset +
                              metric * (uint32_t)sizeof(uint64_t));
}

static void add_block(const segment_metrics metrics, enum metric_scope scope,
                      uint64_t sums[METRIC_COUNT])
{
    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].scope == scope)
            sums[i] = metric_join((enum metric)i, sums[i], metric_get(metrics, (enum metric)i));
}

void segment_sum_all(const struct segment *segment, uint64_t sums[METRIC_COUNT])
{
    memset(sums, 0, METRIC_COUNT * sizeof(*sums));
    add_block(segment_master(segment)->metrics, SCOPE_MASTER, sums);
    add_block(segment_logger(segment)->metrics, SCOPE_LOGGER, sums);
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_WORKERS); i++)
        if (segment_worker_reserved(segment, i))
            add_block(segment_worker(segment, i)->metrics, SCOPE_WORKER, sums);
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++)
        if (segment_thread_reserved(segment, i))
            add_block(segment_thread(segment, i)->metrics, SCOPE_THREAD, sums);
    for (uint32_t i = 0; i < segment_earlier_entries(segment); i++)
        for (int metric = 0; segment_has_earlier(segment, i) && metric < METRIC_COUNT; metric++)
            sums[metric] += metric_get(segment_earlier(segment, i), (enum metric)metric);
}

uint64_t segment_connections_open(const struct segment *segment)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_WORKERS); i++)
        if (segment_worker_reserved(segment, i))
            sum += atomic_load_explicit(&segment_worker(segment, i)->connections_open,
                                        memory_order_relaxed);
    return sum;
}

void segment_add_latency(const struct segment *segment, uint32_t i, struct histogram *into)
{
    const struct histogram *latency = segment_latency_of(segment, i);

    for (uint32_t outcome = 0; outcome < segment->header.outcome_count; outcome++)
        histogram_add(into, &latency[outcome]);
}

void segment_add_all_latency(const struct segment *segment, struct histogram *into)
{
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++)
        if (segment_thread_reserved(segment, i))
            segment_add_latency(segment, i, into);
    for (uint32_t i = 0; i < segment_earlier_entries(segment); i++)
        for (uint32_t outcome = 0;
             segment_has_earlier(segment, i) && outcome < segment->header.outcome_count; outcome++)
            histogram_add(into, &segment_earlier_latency(segment, i)[outcome]);
}

void segment_add_queue_waits(const struct segment *segment, struct histogram *into)
{
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_QUEUE_WAITS); i++)
        if (segment_worker_reserved(segment, i))
            histogram_add(into, segment_queue_waits_of(segment, i));
    for (uint32_t i = 0; i < segment_earlier_entries(segment); i++)
        if (segment_has_earlier(segment, i))
            histogram_add(into,
                          segment_earlier_latency(segment, i) + segment->header.outcome_count);
}

uint64_t segment_cache_hits(const struct segment *segment, uint32_t worker, uint32_t slot,
                            uint64_t id)
{
    uint32_t threads = segment_threads_per_worker(segment), first = worker * threads;
    uint64_t sum = 0;

    for (uint32_t i = first; i < first + threads; i++) {
        const struct segment_hits *hits;

        if (!segment_thread_reserved(segment, i))
            continue;
        hits = &segment_hits_of(segment, i)[slot];
        if (atomic_load_explicit(&hits->id, memory_order_acquire) == id)
            sum += atomic_load_explicit(&hits->hits, memory_order_relaxed);
    }
    return sum;
}

enum { STATE_FIELD = 3, THREADS_FIELD = 20, START_TIME_FIELD = 22, STAT_BYTES = 1024 };

/* Copies field NUMBER of /proc/PID/stat, after the name. Returns false if it cannot be read. */
static bool read_process_field(pid_t pid, int number, char *value, size_t size)
{
    char path[40], text[STAT_BYTES];
    const char *field;
    size_t length;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    field = strrchr(text, ')'); /* the command name (field 2) may contain anything */
    for (int i = 2; field != NULL && i < number; i++)
        field = strchr(field + 1, ' ');
    if (field == NULL)
        return false;
    snprintf(value, size, "%.*s", (int)strcspn(field + 1, " "), field + 1);
    return true;
}

uint64_t process_start_ticks(pid_t pid)
{
    char ticks[24];

    return read_process_field(pid, START_TIME_FIELD, ticks, sizeof(ticks))
               ? strtoull(ticks, NULL, 10)
               : 0;
}

uint64_t process_threads(pid_t pid)
{
    char count[24];

    return read_process_field(pid, THREADS_FIELD, count, sizeof(count)) ? strtoull(count, NULL, 10)
                                                                        : 0;
}

bool process_is_stopped(pid_t pid)
{
    char state[2];

    return read_process_field(pid, STATE_FIELD, state, sizeof(state)) &&
           (state[0] == 'T' || state[0] == 't');
}

bool process_has_ended(pid_t pid, uint64_t start_ticks)
{
    uint64_t ticks;
    char state[2];

    if (kill(pid, 0) != 0 && errno == ESRCH)
        return true;
    if (read_process_field(pid, STATE_FIELD, state, sizeof(state)) &&
        (state[0] == 'Z' || state[0] == 'X'))
        return true;
    ticks = process_start_ticks(pid);
    return ticks != 0 && ticks != start_ticks;
}
