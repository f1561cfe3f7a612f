#include "console/data/snapshot.h"

#include "common/escape.h"

#include <stdlib.h>
#include <string.h>

static uint32_t load32(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* Copies a text of the segment, an array, as printable ASCII into the array TO. */
#define TAKE_TEXT(to, from) escape_bytes(to, sizeof(to), from, strnlen(from, sizeof(from)))

static void describe_server(struct server *server, const struct segment_reader *reader)
{
    const struct segment_header *header = &reader->map.header;
    uint32_t states = segment_count(&reader->map, SEGMENT_STATES);

    server->generation = header->generation;
    server->started_ns = segment_counted_since_ns(&reader->map);
    server->pid = header->master_pid;
    TAKE_TEXT(server->name, header->name);
    TAKE_TEXT(server->version, header->version);
    TAKE_TEXT(server->listening, header->listening);
    memcpy(server->socket_path, header->socket_path, sizeof(server->socket_path));
    server->socket_path[sizeof(server->socket_path) - 1] = '\0';
    server->state_count = states < STATES_MAX ? states : STATES_MAX;
    for (uint32_t i = 0; i < server->state_count; i++) {
        const struct segment_state *state = segment_at(&reader->map, SEGMENT_STATES, i);

        server->states[i].letter = escape_printable(&state->letter, 1) > 0 ? state->letter : '?';
        TAKE_TEXT(server->states[i].name, state->name);
        TAKE_TEXT(server->states[i].help, state->help);
    }
    server->one_outcome = header->outcome_count == 1;
    for (int i = 0; i < SEGMENT_KIND_COUNT; i++)
        server->lacks_section[i] = segment_count(&reader->map, (enum segment_kind)i) == 0;
}

int snapshot_prepare(struct snapshot *snapshot, const struct segment_reader *reader)
{
    snapshot_release(snapshot);
    snapshot->worker_room = segment_count(&reader->map, SEGMENT_WORKERS);
    snapshot->thread_room = segment_count(&reader->map, SEGMENT_THREADS);
    snapshot->workers = calloc(snapshot->worker_room, sizeof(*snapshot->workers));
    snapshot->threads = calloc(snapshot->thread_room, sizeof(*snapshot->threads));
    snapshot->latency = calloc(snapshot->thread_room, sizeof(*snapshot->latency));
    snapshot->outcome_latency = calloc(OUTCOME_COUNT, sizeof(*snapshot->outcome_latency));
    snapshot->queue_waits = calloc(snapshot->worker_room, sizeof(*snapshot->queue_waits));
    snapshot->thread_answers = calloc(snapshot->thread_room, sizeof(*snapshot->thread_answers));
    snapshot->worker_answers = calloc(snapshot->worker_room, sizeof(*snapshot->worker_answers));
    if (snapshot->workers == NULL || snapshot->threads == NULL || snapshot->latency == NULL ||
        snapshot->outcome_latency == NULL || snapshot->queue_waits == NULL ||
        snapshot->thread_answers == NULL || snapshot->worker_answers == NULL) {
        snapshot_release(snapshot);
        return -1;
    }
    describe_server(&snapshot->server, reader);
    return 0;
}

void snapshot_release(struct snapshot *snapshot)
{
    free(snapshot->workers);
    free(snapshot->threads);
    free(snapshot->latency);
    free(snapshot->outcome_latency);
    free(snapshot->queue_waits);
    free(snapshot->thread_answers);
    free(snapshot->worker_answers);
    *snapshot = (struct snapshot){0};
}

static void copy_master(struct snapshot *snapshot, const struct segment_reader *reader)
{
    const struct segment_master *master = segment_master(&reader->map);

    snapshot->workers_wanted = load32(&master->workers_wanted);
    snapshot->threads_wanted = load32(&master->threads_wanted);
    snapshot->offload_min = load32(&master->offload_min_wanted);
    snapshot->offload_max = load32(&master->offload_max_wanted);
    snapshot->log_level = load32(&master->log_level);
    snapshot->model = load32(&master->model);
    snapshot->dispatch_master = load32(&master->dispatch_master) != 0;
    snapshot->stopping = load32(&master->stopping) != 0;
    snapshot->logger_pid = atomic_load_explicit(&master->logger_pid, memory_order_relaxed);
    snapshot->keys_pid = atomic_load_explicit(&master->keys_pid, memory_order_relaxed);
    snapshot->metrics_pid = atomic_load_explicit(&master->metrics_pid, memory_order_relaxed);
}

/* With what earlier masters counted in the slot: SLOT is a thread's, that of a worker its first. */
static void copy_values(uint64_t *values, const struct segment_reader *reader, const void *block,
                        enum metric_scope scope, uint32_t slot)
{
    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].scope == scope)
            values[i] = segment_reader_metric(reader, block, (enum metric)i) +
                        segment_reader_earlier(reader, slot + 1, (enum metric)i);
}

static void copy_offload(struct worker_sample *sample, const struct segment_reader *reader,
                         const struct segment_worker *worker)
{
    sample->offload_count = 0;
    for (uint32_t i = 0; i < segment_reader_offload_threads(reader); i++) {
        const struct segment_activity *activity = segment_reader_offload(reader, worker, i);
        struct offload_sample *offload = &sample->offload[sample->offload_count];

        if (load32(&activity->state) == THREAD_STATE_NONE)
            continue;
        segment_read_activity(activity, &offload->activity);
        offload->number = i;
        sample->offload_count++;
    }
}

/* The worker publishes the age of the oldest item only when the queue changes, or each second. */
static void update_queue_age(struct worker_sample *sample, const struct segment_worker *worker,
                             uint64_t now_ns)
{
    uint64_t since_ns = atomic_load_explicit(&worker->queue_since_ns, memory_order_relaxed);

    if (since_ns != 0)
        sample->values[METRIC_queue_oldest] = now_ns > since_ns ? now_ns - since_ns : 0;
}

/* A thread that runs answers each question of the master within a second. */
static uint64_t silence_ns(struct last_answer *last, const _Atomic uint64_t *answer,
                           const struct segment_reader *reader, uint64_t now_ns)
{
    uint64_t number = atomic_load_explicit(answer, memory_order_relaxed);

    if (last->since_ns == 0 || number != last->answer ||
        number ==
            atomic_load_explicit(&segment_master(&reader->map)->question, memory_order_relaxed))
        *last = (struct last_answer){number, now_ns};
    return now_ns > last->since_ns ? now_ns - last->since_ns : 0;
}

static void copy_worker(struct worker_sample *sample, const struct segment_reader *reader,
                        uint32_t slot, struct last_answer *last, uint64_t now_ns)
{
    const struct segment_worker_slot *entry = segment_worker_slot(&reader->map, slot);
    const struct segment_worker *worker = segment_worker(&reader->map, slot);

    sample->slot = slot;
    sample->pid = atomic_load_explicit(&entry->pid, memory_order_relaxed);
    sample->state = load32(&entry->state);
    sample->starts = load32(&entry->starts);
    sample->started_ns = atomic_load_explicit(&entry->started_ns, memory_order_relaxed);
    sample->threads_wanted = load32(&entry->threads_wanted);
    sample->threads_actual = load32(&worker->threads_actual);
    sample->model = load32(&worker->model);
    sample->queue_order = load32(&worker->queue_order);
    sample->queue_full = load32(&worker->queue_full);
    sample->acceptors = load32(&worker->acceptors);
    sample->offload_actual = load32(&worker->offload_actual);
    copy_values(sample->values, reader, worker, SCOPE_WORKER,
                slot * segment_threads_per_worker(&reader->map));
    update_queue_age(sample, worker, now_ns);
    sample->silent_ns = silence_ns(last, &worker->answer, reader, now_ns);
    copy_offload(sample, reader, worker);
}

static void copy_thread(struct thread_sample *sample, const struct segment_reader *reader,
                        uint32_t slot, struct last_answer *last, uint64_t now_ns)
{
    const struct segment_thread *thread = segment_thread(&reader->map, slot);
    const struct segment_thread_slot *owner = segment_thread_slot(&reader->map, slot);

    sample->slot = slot;
    sample->worker = load32(&owner->worker);
    sample->thread = load32(&owner->thread);
    segment_read_activity(&thread->activity, &sample->activity);
    sample->name[0] = '\0';
    if (segment_count(&reader->map, SEGMENT_NAMES) > 0) {
        const char *name = segment_at(&reader->map, SEGMENT_NAMES, slot);

        escape_bytes(sample->name, sizeof(sample->name), name, strnlen(name, sizeof(sample->name)));
    }
    if (sample->activity.state == THREAD_STATE_NONE)
        last->since_ns = 0;
    sample->silent_ns = silence_ns(last, &thread->answer, reader, now_ns);
    copy_values(sample->values, reader, thread, SCOPE_THREAD, slot);
}

static void copy_latency(struct snapshot *snapshot, const struct segment_reader *reader,
                         uint32_t slot)
{
    const struct histogram *outcome = segment_latency_of(&reader->map, slot);

    histogram_reset(&snapshot->latency[slot]);
    segment_add_latency(&reader->map, slot, &snapshot->latency[slot]);
    for (uint32_t i = 0; i < OUTCOME_COUNT && i < reader->map.header.outcome_count; i++)
        histogram_add(&snapshot->outcome_latency[i], &outcome[i]);
}

static void copy_threads(struct snapshot *snapshot, const struct segment_reader *reader,
                         bool with_latency)
{
    snapshot->thread_count = 0;
    for (int i = 0; i < OUTCOME_COUNT && with_latency; i++)
        histogram_reset(&snapshot->outcome_latency[i]);
    for (uint32_t i = 0; i < snapshot->thread_room; i++) {
        if (!segment_thread_reserved(&reader->map, i))
            continue;
        copy_thread(&snapshot->threads[snapshot->thread_count++], reader, i,
                    &snapshot->thread_answers[i], snapshot->time_ns);
        if (with_latency)
            copy_latency(snapshot, reader, i);
    }
}

static void find_published(struct snapshot *snapshot, const struct segment_reader *reader)
{
    bool absent[METRIC_COUNT];

    segment_reader_find_unpublished(reader, snapshot->sums, absent);
    for (int i = 0; i < METRIC_COUNT; i++)
        snapshot->server.published[i] = absent[i] ? PUBLISHED_NOT : PUBLISHED_BY_WRITER;
    if (!absent[METRIC_connections_open] && reader->metric[METRIC_connections_open].line < 0)
        snapshot->server.published[METRIC_connections_open] = PUBLISHED_SUM;
}

/* What earlier masters counted of METRIC in slots of which the snapshot has no row. */
static uint64_t earlier_without_row(const struct segment_reader *reader, enum metric metric)
{
    const struct segment *map = &reader->map;
    uint32_t threads = segment_threads_per_worker(map);
    uint64_t sum = segment_reader_earlier(reader, 0, metric);

    for (uint32_t i = 1; i < segment_earlier_entries(map); i++)
        if (metric_table[metric].scope == SCOPE_THREAD
                ? !segment_thread_reserved(map, i - 1)
                : !segment_worker_reserved(map, (i - 1) / threads))
            sum += segment_reader_earlier(reader, i, metric);
    return sum;
}

/* Sums the copied values, so that the totals match the rows on the screen. */
static void add_up(struct snapshot *snapshot, const struct segment_reader *reader)
{
    for (int metric = 0; metric < METRIC_COUNT; metric++) {
        enum metric_scope scope = metric_table[metric].scope;
        uint64_t sum = 0;

        for (uint32_t i = 0; scope == SCOPE_THREAD && i < snapshot->thread_count; i++)
            sum += snapshot->threads[i].values[metric];
        for (uint32_t i = 0; scope == SCOPE_WORKER && i < snapshot->worker_count; i++)
            sum = metric_join((enum metric)metric, sum, snapshot->workers[i].values[metric]);
        if (scope == SCOPE_THREAD || scope == SCOPE_WORKER)
            sum += earlier_without_row(reader, (enum metric)metric);
        else
            sum = segment_reader_sum(reader, (enum metric)metric);
        snapshot->sums[metric] = sum;
    }
    if (reader->metric[METRIC_connections_open].line < 0)
        snapshot->sums[METRIC_connections_open] = segment_connections_open(&reader->map);
    find_published(snapshot, reader);
}

void snapshot_take(struct snapshot *snapshot, const struct segment_reader *reader, uint64_t now_ns,
                   uint64_t wall_ns, bool with_latency)
{
    snapshot->time_ns = snapshot->states_ns = now_ns;
    snapshot->wall_ns = wall_ns;
    copy_master(snapshot, reader);
    snapshot->worker_count = 0;
    for (uint32_t i = 0; i < snapshot->worker_room; i++)
        if (segment_worker_reserved(&reader->map, i))
            copy_worker(&snapshot->workers[snapshot->worker_count++], reader, i,
                        &snapshot->worker_answers[i], now_ns);
    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_QUEUE_WAITS) && with_latency;
         i++) {
        histogram_reset(&snapshot->queue_waits[i]);
        if (segment_worker_reserved(&reader->map, i))
            histogram_add(&snapshot->queue_waits[i], segment_queue_waits_of(&reader->map, i));
    }
    copy_threads(snapshot, reader, with_latency);
    add_up(snapshot, reader);
}

bool snapshot_refresh_states(struct snapshot *snapshot, const struct segment_reader *reader,
                             uint64_t now_ns)
{
    bool changed = false;

    snapshot->states_ns = now_ns;
    for (uint32_t i = 0; i < snapshot->thread_count; i++) {
        struct thread_sample *sample = &snapshot->threads[i];
        uint32_t before = sample->activity.state;

        segment_read_activity(&segment_thread(&reader->map, sample->slot)->activity,
                              &sample->activity);
        changed |= sample->activity.state != before;
    }
    return changed;
}

/* True if THREAD puts connections into the queue of its worker, and serves none. */
static bool is_acceptor(const struct snapshot *snapshot, const struct thread_sample *thread)
{
    for (uint32_t i = 0; i < snapshot->worker_count; i++)
        if (snapshot->workers[i].slot == thread->worker)
            return thread->thread < snapshot->workers[i].acceptors;
    return false;
}

uint32_t snapshot_threads_actual(const struct snapshot *snapshot)
{
    uint32_t actual = 0;

    for (uint32_t i = 0; i < snapshot->thread_count; i++)
        actual += snapshot->threads[i].activity.state != THREAD_STATE_NONE &&
                  !is_acceptor(snapshot, &snapshot->threads[i]);
    return actual;
}

uint32_t snapshot_workers_actual(const struct snapshot *snapshot)
{
    uint32_t actual = 0;

    for (uint32_t i = 0; i < snapshot->worker_count; i++)
        actual += snapshot->workers[i].state != WORKER_NONE;
    return actual;
}

char server_state_letter(const struct server *server, uint32_t state)
{
    return state < server->state_count ? server->states[state].letter : '?';
}

const char *server_state_name(const struct server *server, uint32_t state)
{
    return state < server->state_count ? server->states[state].name : "unknown";
}
