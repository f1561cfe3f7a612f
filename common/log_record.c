#include "common/log_record.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/tables.h"
#include "common/units.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#if defined(__SSE2__) && !defined(LOG_LINE_PORTABLE)
#include <emmintrin.h>
#endif

static_assert(LOG_RECORD_WORDS_MAX * 8 < UINT16_MAX, "lengths have 16 bits");

static const struct {
    unsigned int id;
    const char *version, *name;
} ciphers[] = {
    {0, "?", "?"}, /* unknown */
#define TLS_CIPHER(id, version, name) {id, version, name},
#include "common/tls_ciphers.def"
#undef TLS_CIPHER
};

static const char *const groups[] = {
    "?",
#define TLS_GROUP(metric, name) name,
#include "common/tls_groups.def"
#undef TLS_GROUP
};

enum { TLS_CIPHER_BITS = 5, TLS_RESUMED = 1 << TLS_CIPHER_BITS, TLS_GROUP = TLS_RESUMED << 1 };
static_assert(ARRAY_LENGTH(ciphers) <= TLS_RESUMED - 1, "the last position is for unknown suites");
static_assert(ARRAY_LENGTH(groups) <= 8, "a group has 3 bits");

uint16_t log_record_tls(unsigned int id, const char *group, bool resumed)
{
    size_t position = 1, in_groups = group != NULL ? ARRAY_LENGTH(groups) - 1 : 0;

    while (position < ARRAY_LENGTH(ciphers) && ciphers[position].id != id)
        position++;
    if (position == ARRAY_LENGTH(ciphers))
        position = TLS_RESUMED - 1;
    while (in_groups > 0 && strcmp(groups[in_groups], group) != 0)
        in_groups--;
    return (uint16_t)(position | (resumed ? TLS_RESUMED : 0) | TLS_GROUP * in_groups);
}

struct log_tls log_record_read_tls(uint16_t tls)
{
    size_t position = tls & (TLS_RESUMED - 1), in_groups = tls / TLS_GROUP;

    if (position >= ARRAY_LENGTH(ciphers))
        position = 0;
    if (in_groups >= ARRAY_LENGTH(groups))
        in_groups = 0;
    return (struct log_tls){ciphers[position].version, ciphers[position].name, groups[in_groups],
                            (tls & TLS_RESUMED) != 0};
}

const char *const log_protocol_names[LOG_PROTOCOLS] = {
    [LOG_PROTOCOL_HTTP_1_0] = "HTTP/1.0",
    [LOG_PROTOCOL_HTTP_1_1] = "HTTP/1.1",
    [LOG_PROTOCOL_HTTP_2] = "HTTP/2.0",
};
static_assert(LOG_PROTOCOLS <= 4, "a protocol has 2 bits");

const char *const log_coding_names[LOG_CODINGS] = {"identity", "gzip", "zstd", "br"};

static size_t cut_length(struct span text, size_t most)
{
    return text.length < most ? text.length : most;
}

static const uint64_t duration_mask = (UINT64_C(1) << LOG_DURATION_BITS) - 1;

uint64_t log_record_pack(const struct log_record *record, uint64_t *words)
{
    size_t line = cut_length(record->request_line, LOG_REQUEST_LINE_MAX);
    size_t referer = cut_length(record->referer, LOG_REFERER_MAX);
    size_t agent = cut_length(record->agent, LOG_AGENT_MAX);
    size_t user = cut_length(record->user, LOG_USER_MAX);
    size_t host = cut_length(record->requested_host, LOG_HOST_MAX);
    size_t id = cut_length(record->request_id, LOG_REQUEST_ID_MAX);
    uint64_t count = LOG_RECORD_HEAD_WORDS + (line + referer + agent + user + host + id + 7) / 8;
    char *text = (char *)(words + LOG_RECORD_HEAD_WORDS);

    words[count - 1] = 0; /* padding */
    words[0] = count | (uint64_t)record->host << 16 | (uint64_t)LOG_RECORD_VERSION << 32 |
               (uint64_t)record->outcome << 40 | (uint64_t)record->status << 48;
    words[1] = record->time_ns;
    words[2] = (record->duration_ns & duration_mask) | (uint64_t)host << LOG_DURATION_BITS;
    words[3] = record->body_bytes | (uint64_t)record->streams << LOG_BODY_BITS;
    memcpy(&words[4], record->address, CLIENT_ADDRESS_BYTES);
    words[6] = line | (uint64_t)record->coding << 13 | (uint64_t)(id >> 5) << 15 |
               (uint64_t)referer << 16 | (uint64_t)(id & 0x1f) << 27 | (uint64_t)agent << 32 |
               (uint64_t)(record->tls / TLS_GROUP) << 45 |
               (uint64_t)(record->tls % TLS_GROUP) << 48 | (uint64_t)record->protocol << 54 |
               (uint64_t)user << 56;
    if (line > 0)
        memcpy(text, record->request_line.start, line);
    if (referer > 0)
        memcpy(text + line, record->referer.start, referer);
    if (agent > 0)
        memcpy(text + line + referer, record->agent.start, agent);
    if (user > 0)
        memcpy(text + line + referer + agent, record->user.start, user);
    if (host > 0)
        memcpy(text + line + referer + agent + user, record->requested_host.start, host);
    if (id > 0)
        memcpy(text + line + referer + agent + user + host, record->request_id.start, id);
    return count;
}

static bool is_known_version(uint64_t first)
{
    return (first >> 32 & 0xff) == LOG_RECORD_VERSION;
}

/* The lengths of the texts of a record with these words 2 and 6. */
struct text_lengths {
    size_t line, referer, agent, user, host, id;
};

static struct text_lengths read_lengths(uint64_t word2, uint64_t word6)
{
    return (struct text_lengths){
        .line = word6 & 0x1fff,
        .referer = word6 >> 16 & 0x7ff,
        .agent = word6 >> 32 & 0x1fff,
        .user = word6 >> 56,
        .host = word2 >> LOG_DURATION_BITS,
        .id = (word6 >> 27 & 0x1f) | (word6 >> 15 & 1) << 5,
    };
}

static uint64_t record_words(const struct text_lengths *of)
{
    return LOG_RECORD_HEAD_WORDS +
           (of->line + of->referer + of->agent + of->user + of->host + of->id + 7) / 8;
}

int log_record_unpack(const uint64_t *words, struct log_record *record)
{
    const char *text = (const char *)(words + LOG_RECORD_HEAD_WORDS);
    uint64_t count = log_ring_words(words[0]);
    struct text_lengths of;

    if (!is_known_version(words[0]) || count < LOG_RECORD_HEAD_WORDS ||
        count > LOG_RECORD_WORDS_MAX)
        return -1;
    of = read_lengths(words[2], words[6]);
    if (record_words(&of) != count)
        return -1;
    record->host = (uint16_t)(words[0] >> 16);
    record->host_name = (struct span){.length = 0};
    record->outcome = (uint8_t)(words[0] >> 40);
    record->tls = (uint16_t)((words[6] >> 48) % TLS_GROUP + TLS_GROUP * (words[6] >> 45 & 7));
    record->protocol = (uint8_t)(words[6] >> 54 & 3);
    record->status = (uint16_t)(words[0] >> 48);
    record->time_ns = words[1];
    record->duration_ns = words[2] & duration_mask;
    record->body_bytes = words[3] & ((UINT64_C(1) << LOG_BODY_BITS) - 1);
    record->streams = (uint16_t)(words[3] >> LOG_BODY_BITS);
    memcpy(record->address, &words[4], CLIENT_ADDRESS_BYTES);
    record->coding = (uint8_t)(words[6] >> 13 & 3);
    record->request_line = (struct span){text, of.line};
    record->referer = (struct span){text += of.line, of.referer};
    record->agent = (struct span){text += of.referer, of.agent};
    record->user = (struct span){text += of.agent, of.user};
    record->requested_host = (struct span){text += of.user, of.host};
    record->request_id = (struct span){text + of.host, of.id};
    return 0;
}

static uint64_t ring_word_at(const struct log_ring *ring, uint64_t position)
{
    return atomic_load_explicit(&ring->words->word[position & (ring->capacity - 1)],
                                memory_order_acquire);
}

enum { CHAIN = 64 }; /* consecutive plausible records that prove the start of the first one */

/* Length of the record at POSITION; 0 if the words there cannot be a record. */
static uint64_t plausible_length(const struct log_ring *ring, uint64_t position, uint64_t head)
{
    uint64_t first = ring_word_at(ring, position), count = log_ring_words(first);
    struct text_lengths of;

    if (!is_known_version(first) || count < LOG_RECORD_HEAD_WORDS || count > LOG_RECORD_WORDS_MAX ||
        count > head - position)
        return 0;
    of = read_lengths(ring_word_at(ring, position + 2), ring_word_at(ring, position + 6));
    return record_words(&of) == count ? count : 0;
}

uint64_t log_record_first(const struct log_ring *ring, uint64_t from, uint64_t head)
{
    uint64_t end = head - from < LOG_RECORD_WORDS_MAX ? head : from + LOG_RECORD_WORDS_MAX;

    for (uint64_t start = from; start < end; start++) {
        uint64_t position = start, length = 1;

        for (int i = 0; i < CHAIN && position < head && length > 0; i++) {
            length = plausible_length(ring, position, head);
            position += length;
        }
        if (length > 0)
            return start;
    }
    return head;
}

static_assert(6 * (LOG_REQUEST_LINE_MAX + LOG_REFERER_MAX + LOG_AGENT_MAX + LOG_USER_MAX +
                   2 * LOG_HOST_MAX + LOG_REQUEST_ID_MAX) +
                      512 <
                  LOG_LINE_MAX,
              "an escaped byte takes up to six");

static const char digits[] = "0123456789abcdef";

static inline char *put_text(char *to, const char *text, size_t length)
{
    return (char *)memcpy(to, text, length) + length;
}

#define PUT(to, literal) put_text(to, literal, sizeof(literal) - 1)

/* Escaping. Most texts need none; they are copied and checked in blocks. */

typedef char *escaper(char *to, unsigned char byte);

static char *put_hex_escape(char *to, unsigned char byte)
{
    const char text[4] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};

    return put_text(to, text, sizeof(text));
}

static char *put_json_escape(char *to, unsigned char byte)
{
    const char text[6] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};

    return put_text(to, text, sizeof(text));
}

static inline bool needs_no_escape(unsigned char byte)
{
    return byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\';
}

#if defined(__SSE2__) && !defined(LOG_LINE_PORTABLE)

/* Bit n is set if byte n needs escaping. 0x80 to 0xff are negative, so they are below the space. */
static inline unsigned not_plain(__m128i bytes)
{
    __m128i low = _mm_cmplt_epi8(bytes, _mm_set1_epi8(' '));
    __m128i del = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
    __m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
    __m128i backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));

    return (unsigned)_mm_movemask_epi8(
        _mm_or_si128(_mm_or_si128(low, del), _mm_or_si128(quote, backslash)));
}

/*
 * Copies leading plain bytes in blocks of 16, 8 and 4; leaves at most 3 plain bytes before LENGTH.
 */
static inline size_t copy_plain(char *to, const char *from, size_t length)
{
    size_t done = 0;

    for (; length - done >= 16; done += 16) {
        __m128i block = _mm_loadu_si128((const __m128i *)(const void *)(from + done));
        unsigned found = not_plain(block);

        _mm_storeu_si128((__m128i *)(void *)(to + done), block);
        if (found != 0)
            return done + (size_t)__builtin_ctz(found);
    }
    if (length - done >= 8) {
        __m128i block = _mm_loadl_epi64((const __m128i *)(const void *)(from + done));
        unsigned found = not_plain(block) & 0xff;

        _mm_storel_epi64((__m128i *)(void *)(to + done), block);
        if (found != 0)
            return done + (size_t)__builtin_ctz(found);
        done += 8;
    }
    if (length - done >= 4) {
        int word;
        unsigned found;

        memcpy(&word, from + done, 4);
        memcpy(to + done, &word, 4);
        found = not_plain(_mm_cvtsi32_si128(word)) & 0xf;
        done += found != 0 ? (size_t)__builtin_ctz(found) : 4;
    }
    return done;
}

#else

static inline size_t copy_plain(char *to, const char *from, size_t length)
{
    size_t done = 0;

    for (; done < length && needs_no_escape((unsigned char)from[done]); done++)
        to[done] = from[done];
    return done;
}

#endif

static inline char *put_escaped(char *to, struct span text, escaper *escape)
{
    const char *at = text.start, *end;

    if (text.length == 0) /* its start may be NULL */
        return to;
    end = at + text.length;
    while (at < end) {
        size_t plain = copy_plain(to, at, (size_t)(end - at));

        to += plain;
        at += plain;
        for (; at < end && (end - at < 4 || !needs_no_escape((unsigned char)*at)); at++) {
            if (LIKELY(needs_no_escape((unsigned char)*at)))
                *to++ = *at;
            else
                to = escape(to, (unsigned char)*at);
        }
    }
    return to;
}

static inline char *put_quoted(char *to, struct span text)
{
    if (text.length == 0)
        return PUT(to, "\"-\"");
    *to++ = '"';
    to = put_escaped(to, text, put_hex_escape);
    *to++ = '"';
    return to;
}

/* A formatted time, valid for one second. */
struct time_text {
    int64_t second;
    size_t length; /* 0: not formatted yet */
    char text[40];
};

static inline char *put_time(char *to, uint64_t time_ns, struct time_text *cache,
                             void (*make)(struct time_text *cache))
{
    int64_t second = (int64_t)(time_ns / NS_PER_S);

    if (UNLIKELY(cache->length == 0 || second != cache->second)) {
        cache->second = second;
        make(cache);
    }
    return put_text(to, cache->text, cache->length);
}

static void make_local_time(struct time_text *cache)
{
    time_t second = (time_t)cache->second;
    struct tm parts;

    localtime_r(&second, &parts);
    cache->length =
        strftime(cache->text, sizeof(cache->text), " - - [%d/%b/%Y:%H:%M:%S %z] ", &parts);
}

static void make_utc(struct time_text *cache)
{
    time_t second = (time_t)cache->second;
    struct tm parts;

    gmtime_r(&second, &parts);
    cache->length = strftime(cache->text, sizeof(cache->text), "%Y-%m-%dT%H:%M:%S.", &parts);
}

/* Replaces the second '-' of "- -", which begin the cached time. A blank would end the field. */
static char *put_user(char *to, struct span user, const struct time_text *time)
{
    to = PUT(to, " - ");
    for (size_t i = 0; i < user.length; i++) {
        if (needs_no_escape((unsigned char)user.start[i]) && user.start[i] != ' ')
            *to++ = user.start[i];
        else
            to = put_hex_escape(to, (unsigned char)user.start[i]);
    }
    return put_text(to, time->text + strlen(" - -"), time->length - strlen(" - -"));
}

static inline char *put_common(char *to, const struct log_record *record)
{
    static _Thread_local struct time_text cache;
    char *after_address = client_address_put(record->address, to);

    to = put_time(after_address, record->time_ns, &cache, make_local_time);
    if (UNLIKELY(record->user.length > 0))
        to = put_user(after_address, record->user, &cache);
    to = put_quoted(to, record->request_line);
    *to++ = ' ';
    to = decimal_put(to, record->status);
    *to++ = ' ';
    return decimal_put(to, record->body_bytes);
}

static char *put_combined(char *to, const struct log_record *record)
{
    to = put_common(to, record);
    *to++ = ' ';
    to = put_quoted(to, record->referer);
    *to++ = ' ';
    return put_quoted(to, record->agent);
}

static char *put_milliseconds(char *to, uint64_t time_ns)
{
    unsigned number = (unsigned)(time_ns / NS_PER_MS % 1000);
    const char text[3] = {digits[number / 100], digits[number / 10 % 10], digits[number % 10]};

    return put_text(to, text, sizeof(text));
}

/* What was negotiated. */
static char *put_protocol(char *to, const struct log_record *record)
{
    const char *name = log_protocol_names[record->protocol % LOG_PROTOCOLS];

    if (name != NULL) {
        to = PUT(to, ",\"protocol\":\"");
        to = put_text(to, name, strlen(name));
        *to++ = '"';
    }
    if (record->streams > 0) {
        to = PUT(to, ",\"streams\":");
        to = decimal_put(to, record->streams);
    }
    return to;
}

static char *put_tls(char *to, uint16_t tls)
{
    struct log_tls what = log_record_read_tls(tls);

    to = PUT(to, ",\"tls\":\"");
    to = put_text(to, what.version, strlen(what.version));
    to = PUT(to, "\",\"cipher\":\"");
    to = put_text(to, what.cipher, strlen(what.cipher));
    to = PUT(to, "\",\"tls_group\":\"");
    to = put_text(to, what.group, strlen(what.group));
    return what.resumed ? PUT(to, "\",\"resumed\":true") : PUT(to, "\",\"resumed\":false");
}

static char *put_json(char *to, const struct log_record *record)
{
    static _Thread_local struct time_text cache;
    const char *outcome =
        record->outcome < OUTCOME_COUNT ? outcome_names[record->outcome] : "unknown";

    to = PUT(to, "{\"time\":\"");
    to = put_time(to, record->time_ns, &cache, make_utc);
    to = put_milliseconds(to, record->time_ns);
    to = PUT(to, "Z\",\"address\":\"");
    to = client_address_put(record->address, to);
    if (record->user.length > 0) {
        to = PUT(to, "\",\"user\":\"");
        to = put_escaped(to, record->user, put_json_escape);
    }
    if (record->host_name.length > 0) {
        to = PUT(to, "\",\"host\":\"");
        to = put_escaped(to, record->host_name, put_json_escape);
    }
    if (record->requested_host.length > 0) {
        to = PUT(to, "\",\"requested_host\":\"");
        to = put_escaped(to, record->requested_host, put_json_escape);
    }
    to = PUT(to, "\",\"request\":\"");
    to = put_escaped(to, record->request_line, put_json_escape);
    to = PUT(to, "\",\"status\":");
    to = decimal_put(to, record->status);
    to = PUT(to, ",\"bytes\":");
    to = decimal_put(to, record->body_bytes);
    to = PUT(to, ",\"duration_us\":");
    to = decimal_put(to, record->duration_ns / NS_PER_US);
    to = PUT(to, ",\"outcome\":\"");
    to = put_text(to, outcome, strlen(outcome));
    to = PUT(to, "\",\"referer\":\"");
    to = put_escaped(to, record->referer, put_json_escape);
    to = PUT(to, "\",\"agent\":\"");
    to = put_escaped(to, record->agent, put_json_escape);
    *to++ = '"';
    to = put_protocol(to, record);
    if (record->tls != 0)
        to = put_tls(to, record->tls);
    if (record->coding > 0) {
        const char *coding = log_coding_names[record->coding % LOG_CODINGS];

        to = PUT(to, ",\"coding\":\"");
        to = put_text(to, coding, strlen(coding));
        *to++ = '"';
    }
    if (record->request_id.length > 0) {
        to = PUT(to, ",\"request_id\":\"");
        to = put_escaped(to, record->request_id, put_json_escape);
        *to++ = '"';
    }
    *to++ = '}';
    return to;
}

size_t log_record_format(enum log_format format, const struct log_record *record, char *line)
{
    char *to = line;

    if (LIKELY(format == LOG_FORMAT_COMBINED))
        to = put_combined(to, record);
    else if (format == LOG_FORMAT_COMMON)
        to = put_common(to, record);
    else
        to = put_json(to, record);
    *to++ = '\n';
    return (size_t)(to - line);
}
