#include "console/data/tail.h"

#include "common/escape.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUDGET_WORDS = 32768,      /* read per call, divided among the rings */
    RING_WORDS_MIN = 512,      /* per ring, minimum */
    RING_WORDS_MAX = 4096,     /* per ring, maximum, except in the first call */
    GUESSED_RECORD_WORDS = 16, /* until a record has been read */
};

struct tail {
    struct tail_line *lines; /* TAIL_LINES of them; line n at n % TAIL_LINES */
    uint64_t total;
    uint64_t missed_words;
    uint64_t records_read, words_read;
    uint64_t *position; /* of each ring */
    uint64_t *first;    /* where reading started */
    bool *begun;        /* true: position is the start of a record */
    bool started;       /* tail_read() was called */
    uint32_t rings;
    struct tail_line *batch;
    const struct tail_line **order; /* one for each line of the batch */
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

/* Skips to the newest WORDS words if there are more to read, or at the first read. */
static void skip_to_newest(struct tail *tail, uint32_t i, const struct log_ring *ring,
                           uint64_t words)
{
    uint64_t head = atomic_load_explicit(&ring->words->head, memory_order_acquire);
    uint64_t reach = ring->capacity / 2 < words ? ring->capacity / 2 : words;
    uint64_t before = tail->position[i];

    if (tail->begun[i] && head - before <= reach)
        return;
    tail->position[i] = head > reach ? log_record_first(ring, head - reach, head) : 0;
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

/* The thread that owns the ring of a record. */
struct origin {
    uint32_t slot;
    uint16_t worker, number;
};

static int hex_digit(char digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = digit != '\0' ? strchr(digits, digit | 0x20) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

/*
 * Decodes the percent-encoded character at BYTES into TEXT. Returns its encoded length; 0: none, or
 * one that is ASCII or unsafe.
 */
static size_t encoded_character(const char *bytes, size_t length, char *text)
{
    size_t count = 0, printable;

    for (size_t i = 0; i + 2 < length && count < 4 && bytes[i] == '%'; i += 3) {
        int high = hex_digit(bytes[i + 1]), low = hex_digit(bytes[i + 2]);

        if (high < 8 || low < 0) /* ASCII, or no triplet */
            break;
        text[count++] = (char)(high << 4 | low);
    }
    printable = count > 0 ? escape_printable(text, count) : 0;
    return 3 * printable;
}

bool tail_readable(char *buffer, size_t size, const char *bytes, size_t length)
{
    char piece[ESCAPE_TEXT_BYTES(4)], text[4];
    size_t used = 0;

    for (size_t i = 0; i < length;) {
        size_t given = encoded_character(bytes + i, length - i, text), wanted;

        if (given > 0) {
            escape_text(piece, sizeof(piece), text, given / 3);
        } else {
            given = escape_printable(bytes + i, length - i);
            given = given > 0 ? given : 1;
            escape_text(piece, sizeof(piece), bytes + i, given);
        }
        wanted = strlen(piece);
        if (used + wanted >= size) {
            buffer[used] = '\0';
            return false;
        }
        memcpy(buffer + used, piece, wanted);
        used += wanted;
        i += given;
    }
    buffer[used] = '\0';
    return true;
}

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
    line->request_bytes = (uint32_t)record->request_line.length;
    line->request_cut = !tail_readable(line->request, sizeof(line->request),
                                       record->request_line.start, record->request_line.length);
    tail_readable(line->referer, sizeof(line->referer), record->referer.start,
                  record->referer.length);
    tail_readable(line->agent, sizeof(line->agent), record->agent.start, record->agent.length);
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

    skip_to_newest(tail, i, ring, words);
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
            tail->begun[i] = false; /* next time, skip to the newest records */
            return;
        }
        before = tail->position[i];
    }
}

static uint64_t words_for_each(uint32_t rings, bool first)
{
    uint64_t words = BUDGET_WORDS / (rings > 0 ? rings : 1);

    return words < RING_WORDS_MIN             ? RING_WORDS_MIN
           : words > RING_WORDS_MAX && !first ? RING_WORDS_MAX
                                              : words;
}

static int earlier(const void *a, const void *b)
{
    const struct tail_line *const *left = a, *const *right = b;

    if ((*left)->time_ns != (*right)->time_ns)
        return (*left)->time_ns < (*right)->time_ns ? -1 : 1;
    return *left < *right ? -1 : *left > *right; /* equal times: in the order of reading */
}

/* Appends the batch to the lines, ordered by time. */
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
    const struct segment_thread_slot *owner = segment_thread_slot(&reader->map, slot);
    uint32_t worker = atomic_load_explicit(&owner->worker, memory_order_relaxed);
    uint32_t number = atomic_load_explicit(&owner->thread, memory_order_relaxed);
    bool known = worker < TAIL_NO_THREAD && number < TAIL_NO_THREAD;

    return (struct origin){slot, known ? (uint16_t)worker : TAIL_NO_THREAD,
                           known ? (uint16_t)number : TAIL_NO_THREAD};
}

static uint64_t mean_record_words(const struct tail *tail)
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
        reserved += segment_thread_reserved(&reader->map, i);
    words = words_for_each(reserved, !tail->started);
    tail->started = true;
    tail->batch_count = 0;
    for (uint32_t i = 0; i < tail->rings; i++) {
        const struct log_ring ring = segment_ring(&reader->map, i);
        struct origin origin = origin_of(reader, i);

        if (segment_thread_reserved(&reader->map, i))
            read_ring(tail, &origin, &ring, words);
    }
    merge_batch(tail);
    if (tail->batch_count <= TAIL_LINES)
        return tail->batch_count;
    tail->missed_words += (tail->batch_count - TAIL_LINES) * mean_record_words(tail);
    return TAIL_LINES;
}

/* Backlog */

struct backlog {
    tail_take *take;
    void *context;
    uint64_t since_ns; /* nothing is missing since then */
};

/*
 * The time of the oldest readable record of a ring; 0 if that is the first one ever written. *FROM is
 * its position. The oldest eighth of the ring is skipped, because it is overwritten next.
 */
static uint64_t oldest_in(const struct log_ring *ring, uint64_t *from)
{
    uint64_t head = atomic_load_explicit(&ring->words->head, memory_order_acquire);
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

static void backlog_since(struct backlog *backlog, uint64_t time_ns)
{
    backlog->since_ns = time_ns > backlog->since_ns ? time_ns : backlog->since_ns;
}

/* Passes on the records of a ring from FROM to END. */
static void read_backlog_of(struct backlog *backlog, const struct origin *origin,
                            const struct log_ring *ring, uint64_t from, uint64_t end)
{
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record record;
    struct tail_line line;
    bool overrun = false;

    while (from < end && !overrun) {
        overrun = log_ring_read(ring, &from, words, LOG_RECORD_WORDS_MAX) != LOG_RING_RECORD;
        if (overrun || log_record_unpack(words, &record) != 0 || record.time_ns < backlog->since_ns)
            continue;
        fill_line(&line, origin, &record);
        backlog->take(backlog->context, &line);
    }
    if (overrun)
        backlog_since(backlog, UINT64_MAX);
}

uint64_t tail_read_backlog(struct tail *tail, const struct segment_reader *reader, tail_take *take,
                           void *context)
{
    struct backlog backlog = {.take = take, .context = context};
    uint64_t *from = calloc(tail->rings > 0 ? tail->rings : 1, sizeof(*from));

    if (from == NULL)
        return UINT64_MAX;
    for (uint32_t i = 0; i < tail->rings; i++) {
        const struct log_ring ring = segment_ring(&reader->map, i);

        if (segment_thread_reserved(&reader->map, i))
            backlog_since(&backlog, oldest_in(&ring, &from[i]));
    }
    for (uint32_t i = 0; i < tail->rings; i++) {
        const struct log_ring ring = segment_ring(&reader->map, i);
        struct origin origin = origin_of(reader, i);

        if (segment_thread_reserved(&reader->map, i))
            read_backlog_of(&backlog, &origin, &ring, from[i], tail->first[i]);
    }
    free(from);
    return backlog.since_ns;
}

struct tail *tail_copy(struct tail *copy, const struct tail *tail)
{
    if (copy == NULL && (copy = tail_create()) == NULL)
        return NULL;
    memcpy(copy->lines, tail->lines, TAIL_LINES * sizeof(*tail->lines));
    copy->total = tail->total;
    return copy;
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
    return tail->missed_words / mean_record_words(tail);
}
