#include "common/log_record.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

static_assert(LOG_RECORD_WORDS_MAX * 8 < UINT16_MAX, "lengths are kept in 16 bits");

static size_t cut(struct span text, size_t most)
{
    return text.length < most ? text.length : most;
}

uint64_t log_record_pack(const struct log_record *record, uint64_t *words)
{
    size_t line = cut(record->request_line, LOG_REQUEST_LINE_MAX);
    size_t referer = cut(record->referer, LOG_REFERER_MAX);
    size_t agent = cut(record->agent, LOG_AGENT_MAX);
    uint64_t count = LOG_RECORD_HEAD_WORDS + (line + referer + agent + 7) / 8;
    char *text = (char *)(words + LOG_RECORD_HEAD_WORDS);

    words[count - 1] = 0; /* the padding */
    words[0] = count | (uint64_t)LOG_RECORD_VERSION << 32 | (uint64_t)record->outcome << 40 |
               (uint64_t)record->status << 48;
    words[1] = record->time_ns;
    words[2] = record->duration_ns;
    words[3] = record->body_bytes;
    memcpy(&words[4], record->address, LOG_ADDRESS_BYTES);
    words[6] = line | (uint64_t)referer << 16 | (uint64_t)agent << 32;
    if (line > 0)
        memcpy(text, record->request_line.start, line);
    if (referer > 0)
        memcpy(text + line, record->referer.start, referer);
    if (agent > 0)
        memcpy(text + line + referer, record->agent.start, agent);
    return count;
}

int log_record_unpack(const uint64_t *words, struct log_record *record)
{
    const char *text = (const char *)(words + LOG_RECORD_HEAD_WORDS);
    uint64_t count = words[0] & UINT32_MAX;
    size_t line, referer, agent;

    if ((words[0] >> 32 & 0xff) != LOG_RECORD_VERSION || count < LOG_RECORD_HEAD_WORDS ||
        count > LOG_RECORD_WORDS_MAX)
        return -1;
    line = words[6] & 0xffff;
    referer = words[6] >> 16 & 0xffff;
    agent = words[6] >> 32 & 0xffff;
    if (LOG_RECORD_HEAD_WORDS + (line + referer + agent + 7) / 8 != count)
        return -1;
    record->outcome = (uint8_t)(words[0] >> 40);
    record->status = (uint16_t)(words[0] >> 48);
    record->time_ns = words[1];
    record->duration_ns = words[2];
    record->body_bytes = words[3];
    memcpy(record->address, &words[4], LOG_ADDRESS_BYTES);
    record->request_line = (struct span){text, line};
    record->referer = (struct span){text + line, referer};
    record->agent = (struct span){text + line + referer, agent};
    return 0;
}

static char *put_octet(char *to, uint8_t octet)
{
    if (octet >= 100)
        *to++ = (char)('0' + octet / 100);
    if (octet >= 10)
        *to++ = (char)('0' + octet / 10 % 10);
    *to++ = (char)('0' + octet % 10);
    return to;
}

static char *put_ipv4(char *to, const uint8_t *octets)
{
    to = put_octet(to, octets[0]);
    for (int i = 1; i < 4; i++) {
        *to++ = '.';
        to = put_octet(to, octets[i]);
    }
    return to;
}

char *log_record_put_address(const struct log_record *record, char *to)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static const uint8_t none[LOG_ADDRESS_BYTES];

    if (memcmp(record->address, mapped, sizeof(mapped)) == 0)
        return put_ipv4(to, record->address + sizeof(mapped));
    if (memcmp(record->address, none, sizeof(none)) == 0)
        return (char *)memcpy(to, "unix:", 5) + 5;
    inet_ntop(AF_INET6, record->address, to, LOG_ADDRESS_TEXT);
    return to + strlen(to);
}

static uint64_t word_at(const struct log_ring *ring, uint64_t position)
{
    return atomic_load_explicit(&ring->word[position & (ring->capacity - 1)], memory_order_acquire);
}

/* The length of what looks like a record at POSITION, or 0 when it does not look like one. */
static uint64_t plausible_length(const struct log_ring *ring, uint64_t position, uint64_t head)
{
    uint64_t first = word_at(ring, position), count = first & UINT32_MAX, lengths;

    if ((first >> 32 & 0xff) != LOG_RECORD_VERSION || count < LOG_RECORD_HEAD_WORDS ||
        count > LOG_RECORD_WORDS_MAX || count > head - position)
        return 0;
    lengths = word_at(ring, position + 6);
    if (LOG_RECORD_HEAD_WORDS +
            ((lengths & 0xffff) + (lengths >> 16 & 0xffff) + (lengths >> 32 & 0xffff) + 7) / 8 !=
        count)
        return 0;
    return count;
}

uint64_t log_record_first(const struct log_ring *ring, uint64_t from, uint64_t head)
{
    uint64_t start, position, length;

    for (start = from; start < head; start++) {
        for (position = start; position < head; position += length) {
            length = plausible_length(ring, position, head);
            if (length == 0)
                break;
        }
        if (position == head)
            return start;
    }
    return head;
}
