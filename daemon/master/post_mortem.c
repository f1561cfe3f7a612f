/*
 * Post-mortem of dead workers: state, current work and last requests of each thread, copied from
 * the segment before the slot is reused.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/log_record.h"
#include "common/tables.h"

#include <string.h>
#include <time.h>

enum {
    TEXT_MAX = 200,         /* bytes of a request */
    SEARCHED_WORDS = 4096,  /* at the end of a log ring; the last requests are among them */
    LIST_BYTES = 900 * 1024 /* fits into a reply (CONTROL_REPLY_MAX) */
};

static json_t *line_of(const uint64_t *words)
{
    static char line[LOG_LINE_MAX]; /* static, because the master has one thread */
    struct log_record record;
    size_t length;

    if (log_record_unpack(words, &record) != 0)
        return NULL;
    length = log_record_format(LOG_FORMAT_COMMON, &record, line);
    if (length > 0)
        length--; /* without the newline */
    return json_stringn(line, length < TEXT_MAX ? length : TEXT_MAX);
}

/* The last requests that a thread logged, oldest first. */
static json_t *last_requests(const struct log_ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->words->head, memory_order_acquire);
    uint64_t span = ring->capacity / 2 < SEARCHED_WORDS ? ring->capacity / 2 : SEARCHED_WORDS;
    uint64_t at = log_record_first(ring, head > span ? head - span : 0, head);
    uint64_t words[LOG_RECORD_WORDS_MAX];
    json_t *list = json_array();

    while (at < head && log_ring_read(ring, &at, words, LOG_RECORD_WORDS_MAX) == LOG_RING_RECORD) {
        json_array_append_new(list, line_of(words));
        if (json_array_size(list) > POST_MORTEM_REQUESTS)
            json_array_remove(list, 0);
    }
    return list;
}

/* NULL if there was no thread. */
static json_t *activity_of(const struct segment_activity *activity, const char *name,
                           uint32_t number)
{
    char bytes[SEGMENT_WORK_WORDS * 8], work[ESCAPE_TEXT_BYTES(sizeof(bytes))];
    uint32_t state = atomic_load_explicit(&activity->state, memory_order_relaxed);
    uint64_t since = atomic_load_explicit(&activity->since_ns, memory_order_relaxed);
    uint64_t now = clock_monotonic_ns();

    if (state == THREAD_STATE_NONE || state >= THREAD_STATE_COUNT)
        return NULL;
    segment_load_text(activity->work, SEGMENT_WORK_WORDS, bytes);
    escape_bytes(work, sizeof(work), bytes, strlen(bytes));
    return json_pack("{s:i, s:i, s:s, s:f, s:s}", name, (int)number, "tid",
                     (int)atomic_load_explicit(&activity->tid, memory_order_relaxed), "state",
                     thread_state_table[state].name, "since_s",
                     (double)(now - since) / (double)NS_PER_S, "work", work);
}

static json_t *list_dead_threads(const struct segment *segment, uint32_t worker)
{
    uint32_t threads = segment_threads_per_worker(segment), first = worker * threads;
    json_t *list = json_array();

    for (uint32_t i = first; i < first + threads; i++) {
        const struct log_ring ring = segment_ring(segment, i);
        const struct segment_thread *block;
        json_t *thread;

        if (!segment_thread_reserved(segment, i))
            continue;
        block = segment_thread(segment, i);
        thread = activity_of(&block->activity, "thread", i - first);
        if (thread == NULL)
            continue;
        json_object_set_new(
            thread, "connections",
            json_integer((json_int_t)metric_get(block->metrics, METRIC_connections_open)));
        json_object_set_new(thread, "last", last_requests(&ring));
        json_array_append_new(list, thread);
    }
    return list;
}

static json_t *list_offload(const struct segment_worker *block)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < SEGMENT_OFFLOAD_THREADS; i++)
        json_array_append_new(list, activity_of(&block->offload[i], "offload", i));
    return list;
}

void post_mortem_record(json_t **deaths, const struct segment *segment, uint32_t slot, int pid,
                        const char *how)
{
    const struct segment_worker *block = segment_worker(segment, slot);
    time_t now = (time_t)(clock_wall_ns() / NS_PER_S);
    uint64_t lived = clock_wall_ns() - atomic_load(&segment_worker_slot(segment, slot)->started_ns);
    char when[32];
    struct tm parts;

    if (*deaths == NULL)
        *deaths = json_array();
    localtime_r(&now, &parts);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &parts);
    json_array_insert_new(
        *deaths, 0,
        json_pack("{s:i, s:i, s:s, s:I, s:s, s:o, s:o}", "worker", (int)slot, "pid", pid, "time",
                  when, "lived_s", (json_int_t)(lived / NS_PER_S), "how", how, "threads",
                  list_dead_threads(segment, slot), "offload", list_offload(block)));
    while (json_array_size(*deaths) > POST_MORTEM_DEATHS)
        json_array_remove(*deaths, POST_MORTEM_DEATHS);
}

json_t *post_mortem_list(const json_t *deaths, size_t count)
{
    json_t *list = json_array();
    size_t bytes = 0;

    for (size_t i = 0; i < count && i < json_array_size(deaths); i++) {
        json_t *death = json_array_get(deaths, i);

        bytes += json_dumpb(death, NULL, 0, JSON_COMPACT);
        if (bytes <= LIST_BYTES)
            json_array_append(list, death);
    }
    return list;
}
