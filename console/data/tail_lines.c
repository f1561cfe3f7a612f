#include "console/data/tail_lines.h"

#include "common/escape.h"
#include "common/macros.h"

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

char *tail_address(const struct tail_line *line, char *buffer)
{
    struct log_record record = {0};

    memcpy(record.address, line->address, sizeof(record.address));
    *client_address_put(record.address, buffer) = '\0';
    return buffer;
}

char *tail_protocol_text(uint8_t protocol, uint8_t tls, char *buffer)
{
    const char *http = log_protocol_names[protocol % LOG_PROTOCOLS];
    struct log_tls what = log_record_read_tls(tls);

    http = http != NULL ? http : "";
    if (tls == 0)
        snprintf(buffer, TAIL_PROTOCOL_TEXT, "%s", http);
    else
        snprintf(buffer, TAIL_PROTOCOL_TEXT, "%s%sTLS %s %s%s", http, http[0] != '\0' ? " " : "",
                 what.version, what.cipher, what.resumed ? ", resumed" : "");
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

/* Store */

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

struct words {
    uint64_t *word;
    size_t used, room;
};

struct tail_lines {
    uint64_t total;
    uint64_t ordered; /* as many lines, the first ones, are ordered by time */
    struct words store, spare;
    struct kept kept[KEPT];      /* number n at n % KEPT */
    struct kept order[2][KEPT];  /* while they are ordered */
    uint64_t filled[TAIL_LINES]; /* number of the line in each place, plus 1; 0: none */
    struct tail_line line[TAIL_LINES];
};

struct tail_lines *tail_lines_create(void)
{
    return calloc(1, sizeof(struct tail_lines));
}

void tail_lines_destroy(struct tail_lines *lines)
{
    if (lines == NULL)
        return;
    free(lines->store.word);
    free(lines->spare.word);
    free(lines);
}

static uint64_t first_kept(const struct tail_lines *lines)
{
    return lines->total > KEPT ? lines->total - KEPT : 0;
}

static int make_room(struct words *words, size_t room)
{
    uint64_t *larger;

    if (room <= words->room)
        return 0;
    larger = malloc(room * sizeof(*larger));
    if (larger == NULL)
        return -1;
    free(words->word);
    *words = (struct words){.word = larger, .room = room};
    return 0;
}

/* Copies a record to the end of INTO. */
static void move_record(struct words *into, const uint64_t *words)
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
    struct words full = lines->store;
    size_t live = 0;

    for (uint64_t i = first_kept(lines); i < lines->total; i++)
        live += (size_t)log_ring_words(full.word[lines->kept[i % KEPT].at]);
    if (make_room(&lines->spare, live + words + SLACK_WORDS) != 0)
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

uint64_t *tail_lines_room(struct tail_lines *lines, size_t words)
{
    if (lines->store.room - lines->store.used < words && compact(lines, words) != 0)
        return NULL;
    return lines->store.word + lines->store.used;
}

void tail_lines_skip(struct tail_lines *lines, size_t words)
{
    lines->store.used += words;
}

void tail_lines_keep(struct tail_lines *lines, const struct tail_record *record, size_t words)
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

uint64_t tail_lines_total(const struct tail_lines *lines)
{
    return lines->total;
}

/* Order. The records of a ring are nearly ordered, so runs of them are merged. */

/* End of the run that begins at FROM. */
static size_t run_end(const struct kept *kept, size_t from, size_t count)
{
    while (from + 1 < count && kept[from].time_ns <= kept[from + 1].time_ns)
        from++;
    return from < count ? from + 1 : count;
}

/* Merges each two neighbouring runs of COUNT records at FROM into one at INTO; true: one is left. */
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

uint64_t tail_lines_time_ns(struct tail_lines *lines, size_t back)
{
    return kept_at(lines, back)->time_ns;
}

void tail_lines_record(struct tail_lines *lines, size_t back, struct tail_record *record)
{
    const struct kept *kept = kept_at(lines, back);

    *record = (struct tail_record){.words = lines->store.word + kept->at,
                                   .host = kept->host,
                                   .thread = kept->thread,
                                   .request_bytes = kept->request_bytes,
                                   .worker = kept->worker,
                                   .number = kept->number};
    log_record_unpack(record->words, &record->log); /* it was valid when kept */
}

const struct tail_line *tail_lines_line(struct tail_lines *lines, size_t back)
{
    uint64_t number = lines->total - 1 - back;
    struct tail_line *line = &lines->line[number % TAIL_LINES];
    struct tail_record record;

    if (lines->filled[number % TAIL_LINES] != number + 1) {
        tail_lines_record(lines, back, &record);
        tail_fill_line(line, &record);
        lines->filled[number % TAIL_LINES] = number + 1;
    }
    return line;
}

int tail_lines_copy(struct tail_lines *copy, const struct tail_lines *lines)
{
    if (make_room(&copy->store, lines->store.used) != 0)
        return -1;
    if (lines->store.used > 0)
        memcpy(copy->store.word, lines->store.word, lines->store.used * sizeof(uint64_t));
    copy->store.used = lines->store.used;
    memcpy(copy->kept, lines->kept, sizeof(copy->kept));
    memset(copy->filled, 0, sizeof(copy->filled));
    copy->total = lines->total;
    copy->ordered = lines->ordered;
    return 0;
}
