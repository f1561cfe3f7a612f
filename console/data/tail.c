#include "console/data/tail.h"

#include "common/escape.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUDGET_WORDS = 32768,      /* that one call reads at most, shared among the rings */
    LEAST_RING_WORDS = 512,    /* but at least so many of each */
    MOST_RING_WORDS = 4096,    /* and at most so many, but for the first call */
    GUESSED_RECORD_WORDS = 16, /* until one has been read */
};

struct tail {
    struct tail_line *lines; /* TAIL_LINES; number n lies at n % TAIL_LINES */
    uint64_t total;
    uint64_t missed_words;
    uint64_t records_read, words_read;
    uint64_t *position; /* of each ring */
    uint64_t *first;    /* where reading it began */
    bool *begun;        /* position is a record's beginning */
    bool started;       /* a call has read */
    uint32_t rings;
    struct tail_line *batch;
    const struct tail_line **order; /* as long as the batch */
    size_t batch_count, batch_room;
};

struct tail *tail_create(void)
{
    struct tail *tail = calloc(1, sizeof(*tail));

    if (tail == NULL)
        return NULL;
    tail->lines = calloc(TAIL_LINES, sizeof(*tail->lines));
    if (tail->lines == NULL) {
        free(tail);
        return NULL;
    }
    return tail;
}

void tail_destroy(struct tail *tail)
{
    if (tail == NULL)
        return;
    free(tail->lines);
    free(tail->position);
    free(tail->first);
    free(tail->begun);
    free(tail->batch);
    free(tail->order);
    free(tail);
}

int tail_attach(struct tail *tail, const struct segment_reader *reader)
{
    free(tail->position);
    free(tail->first);
    free(tail->begun);
    tail->started = false;
    tail->rings = segment_count(&reader->map, SEGMENT_RINGS);
    tail->position = calloc(tail->rings, sizeof(*tail->position));
    tail->first = calloc(tail->rings, sizeof(*tail->first));
    tail->begun = calloc(tail->rings, sizeof(*tail->begun));
    if (tail->position != NULL && tail->first != NULL && tail->begun != NULL)
        return 0;
    tail->rings = 0;
    return -1;
}

/* The capacity comes from shared memory: it is used only if it fits the ring's place. */
static bool ring_sound(const struct segment_reader *reader, const struct log_ring *ring)
{
    uint64_t size = reader->map.section[SEGMENT_RINGS].entry_size;

    return ring->capacity > 0 && (ring->capacity & (ring->capacity - 1)) == 0 &&
           ring->capacity <= size / sizeof(uint64_t) && log_ring_bytes(ring->capacity) <= size;
}

/* Moves on to the newest records when there are more than WORDS to read, or none has been read yet.
 */
static void keep_up(struct tail *tail, uint32_t i, const struct log_ring *ring, uint64_t words)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t least = ring->capacity / 2 < words ? ring->capacity / 2 : words;
    uint64_t before = tail->position[i];

    if (tail->begun[i] && head - before <= least)
        return;
    tail->position[i] = head > least ? log_record_first(ring, head - least, head) : 0;
    if (tail->begun[i])
        tail->missed_words += tail->position[i] - before;
    else
        tail->first[i] = tail->position[i];
    tail->begun[i] = true;
}

static struct tail_line *next_in_batch(struct tail *tail)
{
    if (tail->batch_count == tail->batch_room) {
        size_t room = tail->batch_room == 0 ? 256 : tail->batch_room * 2;
        struct tail_line *larger = realloc(tail->batch, room * sizeof(*larger));
        const struct tail_line **order;

        if (larger == NULL)
            return NULL;
        tail->batch = larger;
        order = realloc(tail->order, room * sizeof(*order));
        if (order == NULL)
            return NULL;
        tail->order = order;
        tail->batch_room = room;
    }
    return &tail->batch[tail->batch_count++];
}

static void copy_texts(struct tail_line *line, const struct log_record *record)
{
    escape_bytes(line->request, sizeof(line->request), record->request_line.start,
                 record->request_line.length);
    escape_bytes(line->referer, sizeof(line->referer), record->referer.start,
                 record->referer.length);
    escape_bytes(line->agent, sizeof(line->agent), record->agent.start, record->agent.length);
}

/* Whose the record is: all of a ring have the thread in common. */
struct origin {
    uint32_t slot;
    uint16_t worker, number;
};

static void fill_line(struct tail_line *line, const struct origin *origin,
                      const struct log_record *record)
{
    line->time_ns = record->time_ns;
    line->duration_ns = record->duration_ns;
    line->body_bytes = record->body_bytes;
    line->thread = origin->slot;
    line->worker = origin->worker;
    line->number = origin->number;
    line->status = record->status;
    line->outcome = record->outcome;
    memcpy(line->address, record->address, sizeof(line->address));
    copy_texts(line, record);
}

static void keep_record(struct tail *tail, const struct origin *origin, const uint64_t *words)
{
    struct log_record record;
    struct tail_line *line;

    if (log_record_unpack(words, &record) != 0 || (line = next_in_batch(tail)) == NULL)
        return;
    fill_line(line, origin, &record);
    tail->records_read++;
    tail->words_read += words[0] & UINT32_MAX;
}

static void read_ring(struct tail *tail, const struct origin *origin, const struct log_ring *ring,
                      uint64_t words)
{
    uint64_t record[LOG_RECORD_WORDS_MAX];
    uint64_t before, end;
    uint32_t i = origin->slot;

    keep_up(tail, i, ring, words);
    before = tail->position[i];
    end = before + words;
    while (before < end) {
        switch (log_ring_read(ring, &tail->position[i], record, LOG_RECORD_WORDS_MAX)) {
        case LOG_RING_RECORD:
            keep_record(tail, origin, record);
            break;
        case LOG_RING_EMPTY:
            return;
        case LOG_RING_OVERRUN:
            tail->missed_words += tail->position[i] - before;
            tail->begun[i] = false; /* look for the newest next time */
            return;
        }
        before = tail->position[i];
    }
}

static uint64_t words_for_each(uint32_t rings, bool first)
{
    uint64_t words = BUDGET_WORDS / (rings > 0 ? rings : 1);

    return words < LEAST_RING_WORDS            ? LEAST_RING_WORDS
           : words > MOST_RING_WORDS && !first ? MOST_RING_WORDS
                                               : words;
}

static int earlier(const void *a, const void *b)
{
    const struct tail_line *const *left = a, *const *right = b;

    if ((*left)->time_ns != (*right)->time_ns)
        return (*left)->time_ns < (*right)->time_ns ? -1 : 1;
    return *left < *right ? -1 : *left > *right; /* of equals, as they were read */
}

/* Moves the batch to the lines in the order of time. */
static void merge_batch(struct tail *tail)
{
    size_t count = tail->batch_count;
    const struct tail_line **order = tail->order;

    for (size_t i = 0; i < count; i++)
        order[i] = &tail->batch[i];
    if (count > 1)
        qsort(order, count, sizeof(*order), earlier);
    for (size_t i = 0; i < count; i++)
        tail->lines[tail->total++ % TAIL_LINES] = *order[i];
}

static struct origin origin_of(const struct segment_reader *reader, uint32_t slot)
{
    const struct segment_slot *tenant = segment_thread_slot(&reader->map, slot);
    uint32_t worker = atomic_load_explicit(&tenant->worker, memory_order_relaxed);
    uint32_t number = atomic_load_explicit(&tenant->thread, memory_order_relaxed);
    bool known = worker < TAIL_NO_THREAD && number < TAIL_NO_THREAD;

    return (struct origin){slot, known ? (uint16_t)worker : TAIL_NO_THREAD,
                           known ? (uint16_t)number : TAIL_NO_THREAD};
}

/* The ring of a slot that may be read, or NULL. */
static const struct log_ring *readable_ring(const struct segment_reader *reader, uint32_t i)
{
    const struct log_ring *ring = segment_ring(&reader->map, i);

    return segment_slot_reserved(segment_thread_slot(&reader->map, i)) && ring_sound(reader, ring)
               ? ring
               : NULL;
}

static uint64_t usual_words(const struct tail *tail)
{
    uint64_t usual =
        tail->records_read > 0 ? tail->words_read / tail->records_read : GUESSED_RECORD_WORDS;

    return usual > 0 ? usual : 1;
}

size_t tail_read(struct tail *tail, const struct segment_reader *reader)
{
    uint32_t reserved = 0;
    uint64_t words;

    for (uint32_t i = 0; i < tail->rings; i++)
        reserved += segment_slot_reserved(segment_thread_slot(&reader->map, i));
    words = words_for_each(reserved, !tail->started);
    tail->started = true;
    tail->batch_count = 0;
    for (uint32_t i = 0; i < tail->rings; i++) {
        const struct log_ring *ring = readable_ring(reader, i);
        struct origin origin = origin_of(reader, i);

        if (ring != NULL)
            read_ring(tail, &origin, ring, words);
    }
    merge_batch(tail);
    if (tail->batch_count <= TAIL_LINES)
        return tail->batch_count;
    tail->missed_words += (tail->batch_count - TAIL_LINES) * usual_words(tail);
    return TAIL_LINES;
}

/* The past */

struct past {
    tail_take *take;
    void *context;
    uint64_t since_ns; /* nothing is missing from there on */
};

/*
 * The time of the oldest record of a ring that can be read, 0 when that is its first one. *FROM is
 * where it lies. The eighth that is written next is left alone.
 */
static uint64_t oldest_in(const struct log_ring *ring, uint64_t *from)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t reach = ring->capacity - ring->capacity / 8, words[LOG_RECORD_WORDS_MAX], position;
    struct log_record record;

    *from = position = log_record_first(ring, head > reach ? head - reach : 0, head);
    if (*from == 0)
        return 0;
    return log_ring_read(ring, &position, words, LOG_RECORD_WORDS_MAX) == LOG_RING_RECORD &&
                   log_record_unpack(words, &record) == 0
               ? record.time_ns
               : UINT64_MAX;
}

static void past_since(struct past *past, uint64_t time_ns)
{
    past->since_ns = time_ns > past->since_ns ? time_ns : past->since_ns;
}

/* The records of a ring from FROM up to where the first call began. */
static void read_past_of(struct past *past, const struct origin *origin,
                         const struct log_ring *ring, uint64_t from, uint64_t end)
{
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record record;
    struct tail_line line;
    bool overtaken = false;

    while (from < end && !overtaken) {
        overtaken = log_ring_read(ring, &from, words, LOG_RECORD_WORDS_MAX) != LOG_RING_RECORD;
        if (overtaken || log_record_unpack(words, &record) != 0 || record.time_ns < past->since_ns)
            continue;
        fill_line(&line, origin, &record);
        past->take(past->context, &line);
    }
    if (overtaken)
        past_since(past, UINT64_MAX);
}

uint64_t tail_read_backlog(struct tail *tail, const struct segment_reader *reader, tail_take *take,
                           void *context)
{
    struct past past = {.take = take, .context = context};
    uint64_t *from = calloc(tail->rings > 0 ? tail->rings : 1, sizeof(*from));
    const struct log_ring *ring;

    if (from == NULL)
        return UINT64_MAX;
    for (uint32_t i = 0; i < tail->rings; i++)
        if ((ring = readable_ring(reader, i)) != NULL)
            past_since(&past, oldest_in(ring, &from[i]));
    for (uint32_t i = 0; i < tail->rings; i++) {
        struct origin origin = origin_of(reader, i);

        if ((ring = readable_ring(reader, i)) != NULL)
            read_past_of(&past, &origin, ring, from[i], tail->first[i]);
    }
    free(from);
    return past.since_ns;
}

size_t tail_count(const struct tail *tail)
{
    return tail->total < TAIL_LINES ? (size_t)tail->total : TAIL_LINES;
}

const struct tail_line *tail_line(const struct tail *tail, size_t back)
{
    return &tail->lines[(tail->total - 1 - back) % TAIL_LINES];
}

size_t tail_younger(const struct tail *tail, uint64_t wall_ns)
{
    size_t younger = 0;

    while (younger < tail_count(tail) && tail_line(tail, younger)->time_ns > wall_ns)
        younger++;
    return younger;
}

char *tail_address(const struct tail_line *line, char *buffer)
{
    struct log_record record = {0};

    memcpy(record.address, line->address, sizeof(record.address));
    *client_address_put(record.address, buffer) = '\0';
    return buffer;
}

uint64_t tail_total(const struct tail *tail)
{
    return tail->total;
}

uint64_t tail_missed(const struct tail *tail)
{
    return tail->missed_words / usual_words(tail);
}
