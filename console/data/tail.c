#include "console/data/tail.h"

#include "common/clock.h"
#include "common/escape.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_WORDS = 32768,       /* read in the first call, divided among the rings */
    RING_FIRST_MIN = 512,      /* per ring, minimum */
    BATCH_WORDS = 32768,       /* merged at a time: bounds the memory */
    GUESSED_RECORD_WORDS = 16, /* until a record has been read */
};

struct ring_reader {
    uint64_t position;
    uint64_t unread; /* words from position to the end of this call's records */
    uint64_t first;  /* where reading started */
    bool begun;      /* true: position is the start of a record */
};

/* The name of an entry of section HOSTS. */
struct known_host {
    uint64_t id; /* 0: not read yet */
    const char *name;
};

struct tail {
    struct tail_line *lines; /* TAIL_LINES of them; line n at n % TAIL_LINES */
    uint64_t total;
    uint64_t missed_words;
    uint64_t records_read, words_read;
    struct host_names *names;
    struct known_host *host; /* by entry */
    uint32_t hosts;
    struct ring_reader *ring;
    uint32_t rings;
    uint64_t readable; /* see tail_attach() */
    uint64_t budget;   /* words that may be read */
    uint64_t read_ns;  /* time of the last tail_read() */
    uint64_t pause_ns; /* from then to the next */
    bool started;      /* tail_read() was called */
    struct tail_line *batch;
    const struct tail_line **order; /* one for each line of the batch */
    size_t batch_count, batch_room;
};

struct tail *tail_create(struct host_names *names)
{
    struct tail *tail = calloc(1, sizeof(*tail));

    if (tail == NULL)
        return NULL;
    tail->names = names;
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
    free(tail->host);
    free(tail->ring);
    free(tail->batch);
    free(tail->order);
    free(tail);
}

int tail_attach(struct tail *tail, const struct segment_reader *reader, uint64_t readable)
{
    free(tail->ring);
    free(tail->host);
    tail->started = false;
    tail->read_ns = tail->pause_ns = 0;
    tail->readable = readable;
    tail->rings = segment_count(&reader->map, SEGMENT_RINGS);
    tail->ring = calloc(tail->rings, sizeof(*tail->ring));
    tail->hosts = segment_count(&reader->map, SEGMENT_HOSTS);
    tail->host = calloc(tail->hosts + 1, sizeof(*tail->host));
    if (tail->ring != NULL && tail->host != NULL)
        return 0;
    tail->rings = tail->hosts = 0;
    return -1;
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
    const struct segment *segment;
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

/* True if BYTE is shown as it is, whatever follows. */
static bool is_plain(char byte)
{
    return byte >= ' ' && byte <= '~' && byte != '%';
}

bool tail_readable(char *buffer, size_t size, const char *bytes, size_t length)
{
    char piece[ESCAPE_TEXT_BYTES(4)], text[4];
    size_t used = 0;

    for (size_t i = 0; i < length;) {
        size_t given, wanted;

        if (is_plain(bytes[i]) && used + 1 < size) {
            buffer[used++] = bytes[i++];
            continue;
        }
        given = encoded_character(bytes + i, length - i, text);
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

/* The name of entry ENTRY of section HOSTS, which a reload may give to another host. */
static const char *host_name(struct tail *tail, const struct segment *segment, uint32_t entry)
{
    char name[HOST_NAME_BYTES];
    struct known_host *known;
    uint64_t id;

    if (entry >= tail->hosts)
        return "";
    known = &tail->host[entry];
    id = atomic_load_explicit(&segment_host(segment, entry)->id, memory_order_acquire);
    if (id == 0 || (id != known->id && (id = host_name_read(segment, entry, name)) == 0))
        return "";
    if (id != known->id)
        *known = (struct known_host){.id = id, .name = host_names_keep(tail->names, name)};
    return known->name;
}

static void fill_line(struct tail *tail, struct tail_line *line, const struct origin *origin,
                      const struct log_record *record)
{
    line->time_ns = record->time_ns;
    line->duration_ns = record->duration_ns;
    line->body_bytes = record->body_bytes;
    line->host = host_name(tail, origin->segment, record->host);
    line->thread = origin->slot;
    line->worker = origin->worker;
    line->number = origin->number;
    line->status = record->status;
    line->outcome = record->outcome;
    line->protocol = record->protocol;
    line->tls = record->tls;
    line->streams = record->streams;
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
    fill_line(tail, line, origin, &record);
    tail->records_read++;
    tail->words_read += log_ring_words(words[0]);
}

/* Reads records of at least WORDS words, or all that are unread. */
static void read_ring(struct tail *tail, const struct origin *origin, const struct log_ring *ring,
                      uint64_t words)
{
    struct ring_reader *at = &tail->ring[origin->slot];
    uint64_t record[LOG_RECORD_WORDS_MAX];
    uint64_t rest = at->unread > words ? at->unread - words : 0;

    while (at->unread > rest) {
        uint64_t before = at->position, advance;
        enum log_ring_result result =
            log_ring_read(ring, &at->position, record, LOG_RECORD_WORDS_MAX);

        advance = at->position - before;
        if (result == LOG_RING_RECORD)
            keep_record(tail, origin, record);
        if (result == LOG_RING_OVERRUN)
            tail->missed_words += advance;
        at->unread = result == LOG_RING_RECORD && advance < at->unread ? at->unread - advance : 0;
    }
}

static int earlier(const void *a, const void *b)
{
    const struct tail_line *const *left = a, *const *right = b;

    if ((*left)->time_ns != (*right)->time_ns)
        return (*left)->time_ns < (*right)->time_ns ? -1 : 1;
    return *left < *right ? -1 : *left > *right; /* equal times: in the order of reading */
}

static void keep_line(struct tail *tail, const struct tail_line *line)
{
    memcpy(&tail->lines[tail->total++ % TAIL_LINES], line,
           offsetof(struct tail_line, request) + strlen(line->request) + 1);
}

/* Appends the batch to the lines, ordered by time. */
static void merge_batch(struct tail *tail, tail_take *take, void *context)
{
    size_t count = tail->batch_count;
    const struct tail_line **order = tail->order;
    bool ordered = true;

    if (tail->batch == NULL) /* no record was ever kept */
        return;
    for (size_t i = 0; i < count; i++) {
        order[i] = &tail->batch[i];
        ordered = ordered && (i == 0 || order[i - 1]->time_ns <= order[i]->time_ns);
    }
    if (!ordered)
        qsort(order, count, sizeof(*order), earlier);
    for (size_t i = 0; i < count; i++) {
        keep_line(tail, order[i]);
        take(context, order[i]);
    }
}

static struct origin origin_of(const struct segment_reader *reader, uint32_t slot)
{
    const struct segment_thread_slot *owner = segment_thread_slot(&reader->map, slot);
    uint32_t worker = atomic_load_explicit(&owner->worker, memory_order_relaxed);
    uint32_t number = atomic_load_explicit(&owner->thread, memory_order_relaxed);
    bool known = worker < TAIL_NO_THREAD && number < TAIL_NO_THREAD;

    return (struct origin){&reader->map, slot, known ? (uint16_t)worker : TAIL_NO_THREAD,
                           known ? (uint16_t)number : TAIL_NO_THREAD};
}

/* Planning a call: which words of each ring are read */

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint32_t reserved_rings(const struct tail *tail, const struct segment_reader *reader)
{
    uint32_t reserved = 0;

    for (uint32_t i = 0; i < tail->rings; i++)
        reserved += segment_thread_reserved(&reader->map, i);
    return reserved > 0 ? reserved : 1;
}

static void refill_budget(struct tail *tail, uint64_t elapsed_ns, uint32_t rings)
{
    uint64_t most = (uint64_t)TAIL_WORDS_PER_S * rings;

    tail->budget = tail->started ? lower(tail->budget + most * elapsed_ns / NS_PER_S, most) : most;
}

/* The next call is due before a quarter of a ring is written as fast as UNREAD words were in ELAPSED_NS. */
static void shorten_pause(struct tail *tail, const struct log_ring *ring, uint64_t unread,
                          uint64_t elapsed_ns)
{
    uint64_t quarter = ring->capacity / 4;

    if (unread > quarter * elapsed_ns / TAIL_PAUSE_MAX_NS)
        tail->pause_ns = lower(tail->pause_ns, elapsed_ns * quarter / unread);
}

/* The most that may be unread: the writer overwrites the oldest eighth of the ring next. */
static uint64_t reach_of(const struct tail *tail, const struct log_ring *ring, uint32_t rings)
{
    uint64_t reach = ring->capacity - ring->capacity / 8;
    uint64_t first = FIRST_WORDS / rings > RING_FIRST_MIN ? FIRST_WORDS / rings : RING_FIRST_MIN;

    if (!tail->started)
        reach = lower(ring->capacity / 2, first);
    return lower(reach, tail->readable);
}

static void skip_to_newest(struct tail *tail, struct ring_reader *at, const struct log_ring *ring,
                           uint64_t words)
{
    uint64_t head = at->position + at->unread, before = at->position;

    if (at->begun && at->unread <= words)
        return;
    at->position = head > words ? log_record_first(ring, head - words, head) : 0;
    at->unread = head - at->position;
    if (at->begun)
        tail->missed_words += at->position - before;
    else
        at->first = at->position;
    at->begun = true;
}

/* Sets what is unread in each ring, and when to read again; returns the sum. */
static uint64_t find_unread(struct tail *tail, const struct segment_reader *reader,
                            uint64_t elapsed_ns, uint32_t rings)
{
    uint64_t sum = 0;

    tail->pause_ns = TAIL_PAUSE_MAX_NS;
    for (uint32_t i = 0; i < tail->rings; i++) {
        struct ring_reader *at = &tail->ring[i];
        struct log_ring ring;

        at->unread = 0;
        if (!segment_thread_reserved(&reader->map, i))
            continue;
        ring = segment_ring(&reader->map, i);
        at->unread = atomic_load_explicit(&ring.words->head, memory_order_acquire) - at->position;
        if (at->begun)
            shorten_pause(tail, &ring, at->unread, elapsed_ns);
        skip_to_newest(tail, at, &ring, reach_of(tail, &ring, rings));
        sum += at->unread;
    }
    return sum;
}

/* Reduces what is unread, SUM words, to the budget: the same part of each ring. */
static void keep_to_budget(struct tail *tail, const struct segment_reader *reader, uint64_t sum)
{
    for (uint32_t i = 0; i < tail->rings && sum > tail->budget; i++) {
        const struct log_ring ring = segment_ring(&reader->map, i);
        struct ring_reader *at = &tail->ring[i];

        if (at->unread > 0)
            skip_to_newest(tail, at, &ring, at->unread * tail->budget / sum);
    }
    tail->budget -= lower(sum, tail->budget);
}

static void read_batch(struct tail *tail, const struct segment_reader *reader, uint64_t sum)
{
    for (uint32_t i = 0; i < tail->rings; i++) {
        uint64_t unread = tail->ring[i].unread;
        struct origin origin;
        struct log_ring ring;

        if (unread == 0)
            continue;
        origin = origin_of(reader, i);
        ring = segment_ring(&reader->map, i);
        read_ring(tail, &origin, &ring,
                  sum > BATCH_WORDS ? unread * BATCH_WORDS / sum + 1 : unread);
    }
}

static uint64_t unread_words(const struct tail *tail)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < tail->rings; i++)
        sum += tail->ring[i].unread;
    return sum;
}

uint64_t tail_read(struct tail *tail, const struct segment_reader *reader, uint64_t now_ns,
                   tail_take *take, void *context)
{
    uint32_t rings = reserved_rings(tail, reader);
    uint64_t before = tail->total, elapsed_ns = lower(now_ns - tail->read_ns, NS_PER_S), sum;

    refill_budget(tail, elapsed_ns, rings);
    sum = find_unread(tail, reader, elapsed_ns, rings);
    tail->started = true;
    tail->read_ns = now_ns;
    keep_to_budget(tail, reader, sum);
    while ((sum = unread_words(tail)) > 0) {
        tail->batch_count = 0;
        read_batch(tail, reader, sum);
        merge_batch(tail, take, context);
    }
    return tail->total - before;
}

uint64_t tail_due_ns(const struct tail *tail)
{
    uint64_t pause_ns = tail->pause_ns > TAIL_PAUSE_MIN_NS ? tail->pause_ns : TAIL_PAUSE_MIN_NS;

    return tail->read_ns + pause_ns;
}

/* Backlog */

struct backlog {
    struct tail *tail;
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
        fill_line(backlog->tail, &line, origin, &record);
        backlog->take(backlog->context, &line);
    }
    if (overrun)
        backlog_since(backlog, UINT64_MAX);
}

uint64_t tail_read_backlog(struct tail *tail, const struct segment_reader *reader, tail_take *take,
                           void *context)
{
    struct backlog backlog = {.tail = tail, .take = take, .context = context};
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
            read_backlog_of(&backlog, &origin, &ring, from[i], tail->ring[i].first);
    }
    free(from);
    return backlog.since_ns;
}

struct tail *tail_copy(struct tail *copy, const struct tail *tail)
{
    if (copy == NULL && (copy = tail_create(tail->names)) == NULL)
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

char *tail_protocol(const struct tail_line *line, char *buffer)
{
    const char *http = log_protocol_names[line->protocol % LOG_PROTOCOLS];
    struct log_tls tls = log_record_read_tls(line->tls);

    http = http != NULL ? http : "";
    if (line->tls == 0)
        snprintf(buffer, TAIL_PROTOCOL_TEXT, "%s", http);
    else
        snprintf(buffer, TAIL_PROTOCOL_TEXT, "%s%sTLS %s %s%s", http, http[0] != '\0' ? " " : "",
                 tls.version, tls.cipher, tls.resumed ? ", resumed" : "");
    return buffer;
}

uint64_t tail_total(const struct tail *tail)
{
    return tail->total;
}

static uint64_t mean_record_words(const struct tail *tail)
{
    uint64_t usual =
        tail->records_read > 0 ? tail->words_read / tail->records_read : GUESSED_RECORD_WORDS;

    return usual > 0 ? usual : 1;
}

uint64_t tail_missed(const struct tail *tail)
{
    return tail->missed_words / mean_record_words(tail);
}
