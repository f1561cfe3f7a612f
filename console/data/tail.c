#include "console/data/tail.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts */

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
static bool is_shown_as_is(char byte)
{
    return byte >= ' ' && byte <= '~' && byte != '%';
}

bool tail_readable(char *buffer, size_t size, const char *bytes, size_t length)
{
    char piece[ESCAPE_TEXT_BYTES(4)], text[4];
    size_t used = 0;

    for (size_t i = 0; i < length;) {
        size_t given, wanted;

        if (is_shown_as_is(bytes[i]) && used + 1 < size) {
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

char *tail_address(const struct tail_line *line, char *buffer)
{
    struct log_record record = {0};

    memcpy(record.address, line->address, sizeof(record.address));
    *client_address_put(record.address, buffer) = '\0';
    return buffer;
}

char *tail_protocol_text(uint8_t protocol, uint16_t tls, char *buffer)
{
    const char *http = log_protocol_names[protocol % LOG_PROTOCOLS];
    struct log_tls what = log_record_read_tls(tls);

    http = http != NULL ? http : "";
    if (tls == 0)
        snprintf(buffer, TAIL_PROTOCOL_TEXT, "%s", http);
    else
        snprintf(buffer, TAIL_PROTOCOL_TEXT, "%s%sTLS %s %s%s%s%s", http,
                 http[0] != '\0' ? " " : "", what.version, what.cipher,
                 what.group[0] == '?' ? "" : ", ", what.group[0] == '?' ? "" : what.group,
                 what.resumed ? ", resumed" : "");
    return buffer;
}

char *tail_protocol(const struct tail_line *line, char *buffer)
{
    return tail_protocol_text(line->protocol, line->tls, buffer);
}

static struct span cut_to(struct span text, size_t most)
{
    return (struct span){text.start, text.length < most ? text.length : most};
}

/* Cuts the texts of RECORD to what a line can have. */
static void cut_texts(struct log_record *record)
{
    record->request_line = cut_to(record->request_line, TAIL_REQUEST_BYTES);
    record->referer = cut_to(record->referer, TAIL_REFERER_BYTES);
    record->agent = cut_to(record->agent, TAIL_AGENT_BYTES);
    record->user.length = 0;
}

void tail_fill_line(struct tail_line *line, const struct tail_record *record)
{
    struct log_record log = record->log;

    cut_texts(&log);
    line->time_ns = log.time_ns;
    line->duration_ns = log.duration_ns;
    line->body_bytes = log.body_bytes;
    line->host = record->host;
    line->thread = record->thread;
    line->worker = record->worker;
    line->number = record->number;
    line->status = log.status;
    line->outcome = log.outcome;
    line->protocol = log.protocol;
    line->tls = log.tls;
    line->streams = log.streams;
    memcpy(line->address, log.address, sizeof(line->address));
    line->request_bytes = record->request_bytes;
    line->request_cut = !tail_readable(line->request, sizeof(line->request), log.request_line.start,
                                       log.request_line.length) ||
                        record->request_bytes > log.request_line.length;
    tail_readable(line->referer, sizeof(line->referer), log.referer.start, log.referer.length);
    tail_readable(line->agent, sizeof(line->agent), log.agent.start, log.agent.length);
}

/*
 * The newest lines: records as they were read, which become lines when a view asks for them.
 * Keeping a record therefore costs little more than copying it.
 */

enum {
    KEPT = 2 * TAIL_LINES,  /* records: the newest lines are among them, in whatever order read */
    SLACK_WORDS = 1 << 18,  /* what is read between two compactions */
    LONG_RECORD_WORDS = 64, /* longer records are cut by a compaction */
};

/* A record in the store. */
struct kept {
    uint64_t time_ns;
    const char *host;
    uint32_t at; /* first word */
    uint32_t thread;
    uint32_t request_bytes;
    uint16_t worker, number;
};

struct word_store {
    uint64_t *word;
    size_t used, room;
};

struct tail_lines {
    uint64_t total;
    uint64_t ordered; /* as many lines, the first ones, are ordered by time */
    struct word_store store, spare;
    struct kept kept[KEPT];      /* number n at n % KEPT */
    struct kept order[2][KEPT];  /* while they are ordered */
    uint64_t filled[TAIL_LINES]; /* number of the line in each place, plus 1; 0: none */
    struct tail_line line[TAIL_LINES];
};

static uint64_t first_kept(const struct tail_lines *lines)
{
    return lines->total > KEPT ? lines->total - KEPT : 0;
}

static int make_word_room(struct word_store *words, size_t room)
{
    uint64_t *larger;

    if (room <= words->room)
        return 0;
    larger = malloc(room * sizeof(*larger));
    if (larger == NULL)
        return -1;
    free(words->word);
    *words = (struct word_store){.word = larger, .room = room};
    return 0;
}

/* Copies a record to the end of INTO. */
static void move_record(struct word_store *into, const uint64_t *words)
{
    size_t count = (size_t)log_ring_words(words[0]);
    struct log_record record;

    if (count > LONG_RECORD_WORDS && log_record_unpack(words, &record) == 0) {
        cut_texts(&record);
        count = (size_t)log_record_pack(&record, into->word + into->used);
    } else {
        memcpy(into->word + into->used, words, count * sizeof(*words));
    }
    into->used += count;
}

/* Moves what is kept to a store that has room for WORDS more. */
static int compact(struct tail_lines *lines, size_t words)
{
    struct word_store full = lines->store;
    size_t live = 0;

    for (uint64_t i = first_kept(lines); i < lines->total; i++)
        live += (size_t)log_ring_words(full.word[lines->kept[i % KEPT].at]);
    if (make_word_room(&lines->spare, live + words + SLACK_WORDS) != 0)
        return -1;
    lines->store = lines->spare;
    lines->spare = full;
    lines->store.used = 0;
    for (uint64_t i = first_kept(lines); i < lines->total; i++) {
        struct kept *kept = &lines->kept[i % KEPT];
        const uint64_t *from = full.word + kept->at;

        kept->at = (uint32_t)lines->store.used;
        move_record(&lines->store, from);
    }
    return 0;
}

/*
 * The place for WORDS more words, to be filled with records, which tail_lines_keep() keeps. Valid
 * until the next call. NULL: out of memory.
 */
static uint64_t *tail_lines_room(struct tail_lines *lines, size_t words)
{
    if (lines->store.room - lines->store.used < words && compact(lines, words) != 0)
        return NULL;
    return lines->store.word + lines->store.used;
}

/* Keeps RECORD, whose WORDS follow those of the previous record in the place. */
static void tail_lines_keep(struct tail_lines *lines, const struct tail_record *record,
                            size_t words)
{
    lines->kept[lines->total++ % KEPT] = (struct kept){
        .time_ns = record->log.time_ns,
        .host = record->host,
        .at = (uint32_t)lines->store.used,
        .thread = record->thread,
        .request_bytes = record->request_bytes,
        .worker = record->worker,
        .number = record->number,
    };
    lines->store.used += words;
}

/* Order. The records of a ring are nearly ordered, so runs of them are merged. */

/* End of the run that begins at FROM. */
static size_t run_end(const struct kept *kept, size_t from, size_t count)
{
    while (from + 1 < count && kept[from].time_ns <= kept[from + 1].time_ns)
        from++;
    return from < count ? from + 1 : count;
}

/*
 * Merges each two neighbouring runs of COUNT records at FROM into one at INTO; true: one is left.
 */
static bool merge_runs(const struct kept *from, struct kept *into, size_t count)
{
    size_t at = 0, runs = 0;

    while (at < count) {
        size_t left = at, middle = run_end(from, at, count), right = middle,
               end = run_end(from, middle, count);

        while (left < middle || right < end) {
            bool take_left =
                right == end || (left < middle && from[left].time_ns <= from[right].time_ns);

            into[at++] = take_left ? from[left++] : from[right++];
        }
        runs++;
    }
    return runs <= 1;
}

/* Records with equal times stay in the order of reading. */
static void order_lines(struct tail_lines *lines)
{
    uint64_t first = first_kept(lines) > lines->ordered ? first_kept(lines) : lines->ordered;
    size_t count = (size_t)(lines->total - first), from = 0;

    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        lines->order[0][i] = lines->kept[(first + i) % KEPT];
    while (!merge_runs(lines->order[from], lines->order[1 - from], count))
        from = 1 - from;
    for (size_t i = 0; i < count; i++)
        lines->kept[(first + i) % KEPT] = lines->order[1 - from][i];
    lines->ordered = lines->total;
}

static const struct kept *kept_at(struct tail_lines *lines, size_t back)
{
    order_lines(lines);
    return &lines->kept[(lines->total - 1 - back) % KEPT];
}

/* Reading the rings */

enum {
    FIRST_WORDS = 32768,       /* read in the first call, divided among the rings */
    RING_FIRST_MIN = 512,      /* each ring has at least this part */
    BATCH_WORDS = 32768,       /* read at a time from all rings, so that none falls behind */
    GUESSED_RECORD_WORDS = 16, /* before a record has been read */
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
    struct tail_lines *lines;
    uint64_t missed_words;
    uint64_t records_read, words_read;
    struct host_names *names;
    struct known_host *host; /* ordered as HOSTS */
    uint32_t hosts;
    struct ring_reader *ring;
    uint32_t rings;
    uint64_t readable; /* see tail_attach() */
    uint64_t budget;   /* words that may be read */
    uint64_t read_ns;  /* time of the last tail_read() */
    uint64_t pause_ns; /* the next one is due then */
    bool started;      /* tail_read() was called */
};

struct tail *tail_create(struct host_names *names)
{
    struct tail *tail = calloc(1, sizeof(*tail));

    if (tail == NULL)
        return NULL;
    tail->names = names;
    tail->lines = calloc(1, sizeof(*tail->lines));
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
    free(tail->lines->store.word);
    free(tail->lines->spare.word);
    free(tail->lines);
    free(tail->host);
    free(tail->ring);
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

/* The thread that owns the ring of a record. */
struct origin {
    const struct segment *segment;
    uint32_t slot;
    uint16_t worker, number;
    uint32_t host; /* the last record's, plus 1; 0: none */
    const char *host_name;
};

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

/* Returns false if WORDS are not a valid record. */
static bool unpack_record(struct tail *tail, struct origin *origin, const uint64_t *words,
                          struct tail_record *record)
{
    if (log_record_unpack(words, &record->log) != 0)
        return false;
    if (origin->host != record->log.host + 1u) {
        origin->host = record->log.host + 1u;
        origin->host_name = host_name(tail, origin->segment, record->log.host);
    }
    record->request_bytes = (uint32_t)record->log.request_line.length;
    record->host = origin->host_name;
    record->thread = origin->slot;
    record->worker = origin->worker;
    record->number = origin->number;
    return true;
}

struct taker {
    tail_take *take;
    void *context;
};

/*
 * Copies COUNT words at POSITION, at or before a head that was read before; see log_ring.h. Returns
 * false if the writer has meanwhile overwritten any of them.
 */
static bool copy_words(const struct log_ring *ring, uint64_t position, uint64_t *words,
                       uint64_t count)
{
    uint64_t mask = ring->capacity - 1;

    for (uint64_t i = 0; i < count; i++)
        words[i] =
            atomic_load_explicit(&ring->words->word[(position + i) & mask], memory_order_acquire);
    return atomic_load_explicit(&ring->words->claimed, memory_order_relaxed) - position <=
           ring->capacity;
}

/*
 * Reads records of at least WORDS words, or all that are unread: copies them all, then checks once.
 */
static void read_ring(struct tail *tail, struct origin *origin, const struct log_ring *ring,
                      uint64_t words, const struct taker *taker)
{
    struct ring_reader *at = &tail->ring[origin->slot];
    uint64_t count =
        words + LOG_RECORD_WORDS_MAX < at->unread ? words + LOG_RECORD_WORDS_MAX : at->unread;
    struct tail_record record;
    uint64_t *copy = tail_lines_room(tail->lines, (size_t)count);
    bool whole = copy != NULL && copy_words(ring, at->position, copy, count);

    for (uint64_t done = 0, length; whole && done < words && done < count; done += length) {
        length = log_ring_words(copy[done]);
        whole = length > 0 && length <= LOG_RECORD_WORDS_MAX && length <= count - done;
        if (!whole)
            break;
        at->position += length;
        at->unread -= length;
        if (!unpack_record(tail, origin, copy + done, &record)) {
            tail->lines->store.used += length;
            continue;
        }
        tail->records_read++;
        tail->words_read += length;
        taker->take(taker->context, &record);
        tail_lines_keep(tail->lines, &record, (size_t)length);
    }
    if (!whole) { /* what is unread counts as missed */
        tail->missed_words += at->unread;
        at->position += at->unread;
        at->unread = 0;
    }
}

static struct origin origin_of(const struct segment_reader *reader, uint32_t slot)
{
    const struct segment_thread_slot *owner = segment_thread_slot(&reader->map, slot);
    uint32_t worker = atomic_load_explicit(&owner->worker, memory_order_relaxed);
    uint32_t number = atomic_load_explicit(&owner->thread, memory_order_relaxed);
    bool known = worker < TAIL_NO_THREAD && number < TAIL_NO_THREAD;

    return (struct origin){.segment = &reader->map,
                           .slot = slot,
                           .worker = known ? (uint16_t)worker : TAIL_NO_THREAD,
                           .number = known ? (uint16_t)number : TAIL_NO_THREAD};
}

/* Planning a call: which words of each ring are read */

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * The next call is due before a quarter of a ring is written as fast as UNREAD words were in
 * ELAPSED_NS.
 */
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

static void read_batch(struct tail *tail, const struct segment_reader *reader, uint64_t sum,
                       const struct taker *taker)
{
    for (uint32_t i = 0; i < tail->rings; i++) {
        uint64_t unread = tail->ring[i].unread;
        struct origin origin;
        struct log_ring ring;

        if (unread == 0)
            continue;
        origin = origin_of(reader, i);
        ring = segment_ring(&reader->map, i);
        read_ring(tail, &origin, &ring, sum > BATCH_WORDS ? unread * BATCH_WORDS / sum + 1 : unread,
                  taker);
    }
}

uint64_t tail_read(struct tail *tail, const struct segment_reader *reader, uint64_t now_ns,
                   tail_take *take, void *context)
{
    uint64_t before = tail->records_read, elapsed_ns = lower(now_ns - tail->read_ns, NS_PER_S);
    const struct taker taker = {take, context};
    uint64_t sum, words_per_s;
    uint32_t rings = 0; /* that have memory */

    for (uint32_t i = 0; i < tail->rings; i++)
        rings += segment_thread_reserved(&reader->map, i);
    rings = rings > 0 ? rings : 1;
    words_per_s = (uint64_t)TAIL_WORDS_PER_S * rings;
    tail->budget = tail->started
                       ? lower(tail->budget + words_per_s * elapsed_ns / NS_PER_S, words_per_s)
                       : words_per_s;
    sum = find_unread(tail, reader, elapsed_ns, rings);
    tail->started = true;
    tail->read_ns = now_ns;
    keep_to_budget(tail, reader, sum);
    do {
        sum = 0;
        for (uint32_t i = 0; i < tail->rings; i++)
            sum += tail->ring[i].unread;
        read_batch(tail, reader, sum, &taker);
    } while (sum > 0);
    return tail->records_read - before;
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
 * The time of the oldest readable record of a ring; 0 if that is the first one ever written. *FROM
 * is its position. The oldest eighth of the ring is skipped, because it is overwritten next.
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
static void read_backlog_of(struct backlog *backlog, struct origin *origin,
                            const struct log_ring *ring, uint64_t from, uint64_t end)
{
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct tail_record record;
    bool overrun = false;

    while (from < end && !overrun) {
        overrun = log_ring_read(ring, &from, words, LOG_RECORD_WORDS_MAX) != LOG_RING_RECORD;
        if (!overrun && unpack_record(backlog->tail, origin, words, &record) &&
            record.log.time_ns >= backlog->since_ns)
            backlog->take(backlog->context, &record);
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

void tail_order(const struct tail *tail)
{
    order_lines(tail->lines);
}

struct tail *tail_copy(struct tail *copy, const struct tail *tail)
{
    const struct tail_lines *from = tail->lines;
    struct tail_lines *into;

    tail_order(tail);
    if (copy == NULL && (copy = tail_create(tail->names)) == NULL)
        return NULL;
    into = copy->lines;
    if (make_word_room(&into->store, from->store.used) != 0)
        return NULL;
    if (from->store.used > 0)
        memcpy(into->store.word, from->store.word, from->store.used * sizeof(uint64_t));
    into->store.used = from->store.used;
    memcpy(into->kept, from->kept, sizeof(into->kept));
    memset(into->filled, 0, sizeof(into->filled));
    into->total = from->total;
    into->ordered = from->ordered;
    return copy;
}

size_t tail_count(const struct tail *tail)
{
    uint64_t total = tail->lines->total;

    return total < TAIL_LINES ? (size_t)total : TAIL_LINES;
}

void tail_line_record(const struct tail *tail, size_t back, struct tail_record *record)
{
    const struct kept *kept = kept_at(tail->lines, back);

    *record = (struct tail_record){.host = kept->host,
                                   .thread = kept->thread,
                                   .request_bytes = kept->request_bytes,
                                   .worker = kept->worker,
                                   .number = kept->number};
    /* It was valid when kept. */
    log_record_unpack(tail->lines->store.word + kept->at, &record->log);
}

const struct tail_line *tail_line(const struct tail *tail, size_t back)
{
    struct tail_lines *lines = tail->lines;
    uint64_t number = lines->total - 1 - back;
    struct tail_line *line = &lines->line[number % TAIL_LINES];
    struct tail_record record;

    if (lines->filled[number % TAIL_LINES] != number + 1) {
        tail_line_record(tail, back, &record);
        tail_fill_line(line, &record);
        lines->filled[number % TAIL_LINES] = number + 1;
    }
    return line;
}

size_t tail_younger(const struct tail *tail, uint64_t wall_ns)
{
    size_t younger = 0;

    while (younger < tail_count(tail) && kept_at(tail->lines, younger)->time_ns > wall_ns)
        younger++;
    return younger;
}

uint64_t tail_total(const struct tail *tail)
{
    return tail->lines->total;
}

uint64_t tail_missed(const struct tail *tail)
{
    uint64_t usual =
        tail->records_read > 0 ? tail->words_read / tail->records_read : GUESSED_RECORD_WORDS;

    return tail->missed_words / (usual > 0 ? usual : 1);
}
