/* Attacks on words of the worker's own pages, with values that mean something to their readers. */
#include "traitor.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"

#include <string.h>

/* Texts that try to end a line, to control a terminal, or to look like another process's line. */
static const char *const texts[] = {
    "FORGED\n2026/11/22 00:00:00 [error] master 1: FORGED",
    "FORGED\r\n127.0.0.1 - - [22/Nov/2026:00:00:00 +0000] \"GET /FORGED HTTP/1.1\" 200 1",
    ("FORGED \033[2J\033]0;title\007 \x9b"
     "31m"),
    "FORGED \xe2\x80\xae \xc2\x85 \x7f \x01\x02",
    "FORGED %s%n%s \\ \" ' <&>",
};

static const char *pick_text(struct chance *chance)
{
    return texts[chance_below(chance, ARRAY_LENGTH(texts))];
}

static const struct segment *segment_of(const struct traitor *traitor)
{
    return traitor->context->segment;
}

static struct segment_worker *own_block(const struct traitor *traitor)
{
    return segment_worker(segment_of(traitor), traitor->context->worker_slot);
}

/* A thread slot of this worker, in use or not. */
static uint32_t pick_thread(const struct traitor *traitor, struct chance *chance)
{
    uint32_t threads = segment_threads_per_worker(segment_of(traitor));
    uint32_t most = threads < 4 ? threads : 4;

    return traitor->context->worker_slot * threads + (uint32_t)chance_below(chance, most);
}

const char *attack_heartbeat(const struct traitor *traitor, struct chance *chance)
{
    struct segment_worker *block = own_block(traitor);
    uint64_t end = attack_end_ns();

    while (clock_monotonic_ns() < end) {
        block->heartbeat_ns = chance_edge(chance);
        block->answer = chance_edge(chance);
        block->threads_actual = (uint32_t)chance_edge(chance);
        block->offload_actual = (uint32_t)chance_edge(chance);
        block->connections_open = (uint32_t)chance_edge(chance);
    }
    block->heartbeat_ns = clock_monotonic_ns();
    return NULL;
}

const char *attack_no_connections(const struct traitor *traitor, struct chance *chance)
{
    const struct segment *segment = segment_of(traitor);
    uint32_t threads = segment_threads_per_worker(segment);
    uint32_t first = traitor->context->worker_slot * threads;
    uint64_t end = clock_monotonic_ns() + 2 * NS_PER_S;

    (void)chance;
    while (clock_monotonic_ns() < end) {
        own_block(traitor)->connections_open = 0;
        for (uint32_t i = first; i < first + threads; i++)
            if (segment_thread_reserved(segment, i))
                segment_thread(segment, i)->metrics[METRIC_connections_active] = 0;
    }
    return NULL;
}

const char *attack_counters(const struct traitor *traitor, struct chance *chance)
{
    uint64_t end = attack_end_ns();

    while (clock_monotonic_ns() < end) {
        uint32_t slot = pick_thread(traitor, chance);
        struct histogram *latency =
            &segment_latency_of(segment_of(traitor), slot)[chance_below(chance, OUTCOME_COUNT)];

        segment_thread(segment_of(traitor), slot)->metrics[chance_below(chance, METRIC_COUNT)] =
            chance_edge(chance);
        own_block(traitor)->metrics[chance_below(chance, METRIC_COUNT)] = chance_edge(chance);
        latency->used_from = (uint32_t)chance_edge(chance);
        latency->used_to = (uint32_t)chance_edge(chance);
        latency->max = chance_edge(chance);
        latency->bucket[chance_below(chance, HISTOGRAM_BUCKETS)] = chance_edge(chance);
    }
    return NULL;
}

/* Log rings */

const char *attack_ring_positions(const struct traitor *traitor, struct chance *chance)
{
    uint64_t end = attack_end_ns();

    while (clock_monotonic_ns() < end) {
        const struct log_ring ring =
            segment_ring(segment_of(traitor), pick_thread(traitor, chance));
        uint64_t head = ring.words->head;

        ring.words->head = chance_below(chance, 2) == 0
                               ? chance_edge(chance)
                               : head + chance_below(chance, 2 * ring.capacity) - ring.capacity;
        ring.words->claimed = chance_edge(chance);
    }
    return NULL;
}

/* A record with one wrong length: of the record or of one of its texts. */
const char *attack_ring_lengths(const struct traitor *traitor, struct chance *chance)
{
    uint64_t end = attack_end_ns();

    while (clock_monotonic_ns() < end) {
        const struct log_ring ring =
            segment_ring(segment_of(traitor), pick_thread(traitor, chance));
        const struct log_record record = {.request_line = SPAN("GET /FORGED HTTP/1.1"),
                                          .status = 200};
        uint64_t words[LOG_RECORD_WORDS_MAX], head = ring.words->head;
        uint64_t count = log_record_pack(&record, words);

        if (chance_below(chance, 2) == 0)
            words[0] = (words[0] & ~(uint64_t)UINT32_MAX) | (chance_edge(chance) & UINT32_MAX);
        else
            words[6] = chance_edge(chance);
        for (uint64_t i = 0; i < count; i++)
            ring.words->word[(head + i) & (ring.capacity - 1)] = words[i];
        ring.words->claimed = head + count;
        ring.words->head = head + count;
    }
    return NULL;
}

const char *attack_ring_records(const struct traitor *traitor, struct chance *chance)
{
    for (int i = 0; i < 200; i++) {
        const struct log_ring ring =
            segment_ring(segment_of(traitor), pick_thread(traitor, chance));
        const char *line = pick_text(chance), *agent = pick_text(chance);
        const struct log_record record = {.request_line = span_of(line),
                                          .referer = span_of(agent),
                                          .agent = span_of(agent),
                                          .outcome = (uint8_t)chance_number(chance),
                                          .status = (uint16_t)chance_number(chance),
                                          .host = (uint16_t)(chance_number(chance) & 1
                                                                 ? chance_below(chance, 4)
                                                                 : chance_number(chance)),
                                          .time_ns = chance_edge(chance),
                                          .duration_ns = chance_edge(chance),
                                          .body_bytes = chance_edge(chance)};
        uint64_t words[LOG_RECORD_WORDS_MAX];

        log_ring_append(&ring, words, log_record_pack(&record, words));
    }
    return NULL;
}

/* Event ring */

static struct event_ring own_events(const struct traitor *traitor)
{
    return segment_event_ring(segment_of(traitor),
                              SEGMENT_RING_WORKERS + traitor->context->worker_slot);
}

const char *attack_events(const struct traitor *traitor, struct chance *chance)
{
    const struct event_ring ring = own_events(traitor);

    for (int i = 0; i < 1000; i++) {
        struct event_record event = {.level = (uint8_t)chance_number(chance),
                                     .role = (uint8_t)chance_below(chance, 5),
                                     .pid = (int32_t)chance_number(chance),
                                     .time_ns = chance_below(chance, 2) == 0 ? clock_wall_ns()
                                                                             : chance_edge(chance)};

        strcpy(event.text, pick_text(chance));
        event_ring_append(&ring, &event);
    }
    return NULL;
}

const char *attack_event_slots(const struct traitor *traitor, struct chance *chance)
{
    const struct event_ring ring = own_events(traitor);
    uint64_t end = attack_end_ns();

    while (clock_monotonic_ns() < end) {
        struct event_slot *slot = &ring.shared->slot[chance_below(chance, ring.slots)];

        ring.shared->next = chance_below(chance, 2) == 0
                                ? chance_edge(chance)
                                : ring.shared->next + chance_below(chance, 1000);
        slot->sequence = chance_edge(chance);
        slot->time_ns = chance_edge(chance);
        slot->source = chance_number(chance);
        slot->text[chance_below(chance, EVENT_TEXT_WORDS)] = UINT64_C(0x0a0a0a0a0a0a0a0a);
    }
    return NULL;
}

/* What threads do; the tables */

static void forge_activity(struct segment_activity *activity, struct chance *chance)
{
    activity->sequence = chance_edge(chance);
    activity->since_ns = chance_edge(chance);
    activity->state =
        (uint32_t)(chance_below(chance, 2) == 0 ? chance_below(chance, 16) : chance_edge(chance));
    activity->tid = (int32_t)(chance_below(chance, 2) == 0 ? 1 : chance_edge(chance));
    for (int i = 0; i < SEGMENT_WORK_WORDS; i++)
        memcpy((void *)&activity->work[i], pick_text(chance), sizeof(uint64_t));
}

const char *attack_activities(const struct traitor *traitor, struct chance *chance)
{
    uint64_t end = attack_end_ns();

    while (clock_monotonic_ns() < end) {
        forge_activity(&segment_thread(segment_of(traitor), pick_thread(traitor, chance))->activity,
                       chance);
        forge_activity(&own_block(traitor)->offload[chance_below(chance, SEGMENT_OFFLOAD_THREADS)],
                       chance);
    }
    return NULL;
}

static void forge_cache_entry(struct segment_cache_entry *entry, struct chance *chance)
{
    entry->sequence = chance_edge(chance) & ~UINT64_C(1);
    entry->id = chance_below(chance, 100);
    entry->stored_ns = chance_edge(chance);
    entry->bytes = chance_edge(chance);
    entry->state = (uint32_t)chance_below(chance, 4);
    for (int i = 0; i < SEGMENT_CACHE_PATH_WORDS; i++)
        memcpy((void *)&entry->path[i], pick_text(chance), sizeof(uint64_t));
}

const char *attack_cache_table(const struct traitor *traitor, struct chance *chance)
{
    const struct segment *segment = segment_of(traitor);
    uint32_t slot = traitor->context->worker_slot, entries = segment->header.cache_entries;
    uint64_t end = attack_end_ns();

    while (clock_monotonic_ns() < end) {
        struct segment_hits *hits = segment_hits_of(segment, pick_thread(traitor, chance));
        struct segment_client *client =
            &segment_clients(segment, slot)[chance_below(chance, SEGMENT_CLIENTS_PER_WORKER)];

        client->key = chance_edge(chance);
        client->count = chance_edge(chance);
        if (entries == 0)
            continue;
        forge_cache_entry(&segment_cache(segment, slot)[chance_below(chance, entries)], chance);
        hits += chance_below(chance, entries);
        hits->id = chance_below(chance, 100);
        hits->hits = chance_edge(chance);
        hits->last_hit_ns = chance_edge(chance);
    }
    return NULL;
}

/* Half of the counts keep their id, so that readers take the values. */
const char *attack_host_counts(const struct traitor *traitor, struct chance *chance)
{
    const struct segment *segment = segment_of(traitor);
    uint32_t hosts = segment_count(segment, SEGMENT_HOSTS) < 3 ? 0 : 3;
    uint64_t end = attack_end_ns();

    while (hosts > 0 && clock_monotonic_ns() < end) {
        struct segment_host_counts *counts = &segment_host_counts_of(
            segment, pick_thread(traitor, chance))[chance_below(chance, hosts)];

        if (chance_below(chance, 2) == 0)
            counts->id = chance_edge(chance);
        counts->latency_max_ns = chance_edge(chance);
        counts->values[chance_below(chance, HOST_METRIC_COUNT)] = chance_edge(chance);
        counts->latency[chance_below(chance, HISTOGRAM_COARSE_BUCKETS)] = chance_edge(chance);
    }
    return NULL;
}

/* These pages belong to all workers. */
const char *attack_rate_buckets(const struct traitor *traitor, struct chance *chance)
{
    const struct segment *segment = segment_of(traitor);
    uint64_t end = attack_end_ns();

    while (clock_monotonic_ns() < end) {
        struct segment_rate_bucket *bucket = segment_rate_bucket(
            segment, (uint32_t)chance_below(chance, segment_count(segment, SEGMENT_RATE_BUCKETS)));
        struct segment_rate_entry *entry = &bucket->entry[chance_below(chance, SEGMENT_RATE_WAYS)];

        bucket->claimed_ns = chance_edge(chance);
        entry->time_ns = chance_edge(chance);
        entry->rejected = chance_edge(chance);
        if (chance_below(chance, 2) == 0)
            entry->key = chance_edge(chance);
        else if (chance_below(chance, 2) == 0)
            entry->key = client_limit_key(chance_below(chance, 4));
    }
    return NULL;
}

const char *attack_rate_used(const struct traitor *traitor, struct chance *chance)
{
    const struct segment *segment = segment_of(traitor);
    uint64_t end = attack_end_ns();

    (void)chance;
    while (clock_monotonic_ns() < end)
        for (uint32_t i = 0; i < segment_count(segment, SEGMENT_RATE_BUCKETS); i++)
            for (int way = 0; way < SEGMENT_RATE_WAYS; way++)
                segment_rate_bucket(segment, i)->entry[way].time_ns = SEGMENT_RATE_CHANGING - 1;
    return NULL;
}
