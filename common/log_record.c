#include "common/log_record.h"

#include "common/clock.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static_assert(LOG_RECORD_WORDS_MAX * 8 < UINT16_MAX, "lengths are kept in 16 bits");
static_assert(4 * (LOG_RECORD_WORDS_MAX * 8) + 256 < LOG_LINE_MAX, "every byte may need four");

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

char *log_record_address(const struct log_record *record, char *buffer, size_t size)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    static const uint8_t none[LOG_ADDRESS_BYTES];

    if (memcmp(record->address, none, sizeof(none)) == 0)
        snprintf(buffer, size, "unix:");
    else if (memcmp(record->address, mapped, sizeof(mapped)) == 0)
        inet_ntop(AF_INET, record->address + sizeof(mapped), buffer, (socklen_t)size);
    else
        inet_ntop(AF_INET6, record->address, buffer, (socklen_t)size);
    return buffer;
}

/* Appends TEXT, escaped, and returns the new end. */
static char *put_escaped(char *to, struct span text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.start[i];

        if (c >= ' ' && c < 0x7f && c != '"' && c != '\\') {
            *to++ = (char)c;
        } else {
            *to++ = '\\';
            *to++ = 'x';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    return to;
}

static char *put_quoted(char *to, struct span text)
{
    *to++ = '"';
    to = put_escaped(to, text.length > 0 ? text : SPAN("-"));
    *to++ = '"';
    return to;
}

static char *put_text(char *to, const char *text, size_t length)
{
    return (char *)memcpy(to, text, length) + length;
}

static char *put_number(char *to, uint64_t number)
{
    char digits[20];
    size_t count = 0;

    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0)
        *to++ = digits[--count];
    return to;
}

/*
 * " [21/Nov/2026:06:18:30 +0000] ": formatted once a second for each thread that writes lines.
 */
static char *put_time(char *to, uint64_t time_ns)
{
    static _Thread_local time_t second = -1;
    static _Thread_local char text[40];
    static _Thread_local size_t length;
    time_t now = (time_t)(time_ns / NS_PER_S);

    if (now != second) {
        struct tm parts;

        localtime_r(&now, &parts);
        length = strftime(text, sizeof(text), " [%d/%b/%Y:%H:%M:%S %z] ", &parts);
        second = now;
    }
    return put_text(to, text, length);
}

size_t log_record_combined(const struct log_record *record, char *line)
{
    char address[INET6_ADDRSTRLEN];
    char *to = line;

    log_record_address(record, address, sizeof(address));
    to = put_text(to, address, strlen(address));
    to = put_text(to, " - -", 4);
    to = put_time(to, record->time_ns);
    to = put_quoted(to, record->request_line);
    *to++ = ' ';
    to = put_number(to, record->status);
    *to++ = ' ';
    to = put_number(to, record->body_bytes);
    *to++ = ' ';
    to = put_quoted(to, record->referer);
    *to++ = ' ';
    to = put_quoted(to, record->agent);
    *to++ = '\n';
    return (size_t)(to - line);
}
