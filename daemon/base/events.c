#include "daemon/base/events.h"

#include "common/clock.h"
#include "common/escape.h"

#include <assert.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Set before threads start; only read afterwards. */
static struct {
    enum role role;
    enum level level;
    const struct segment *segment;
    struct event_ring ring;
    bool echo, json;
    int report; /* -1: none */
} process = {.role = ROLE_MASTER, .level = LEVEL_INFO, .report = -1};

static struct {
    unsigned long long device, inode; /* inode 0: none */
} journal;

void events_find_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");

    if (stream == NULL || sscanf(stream, "%llu:%llu", &journal.device, &journal.inode) != 2)
        journal.inode = 0;
}

const char *event_priority(int fd, enum level level)
{
    static const char *const priorities[LEVEL_COUNT] = {
        [LEVEL_DEBUG] = "<7>", [LEVEL_INFO] = "<6>", [LEVEL_WARN] = "<4>", [LEVEL_ERROR] = "<3>"};
    struct stat status;

    if (journal.inode == 0 || fstat(fd, &status) != 0 || status.st_dev != journal.device ||
        status.st_ino != journal.inode)
        return "";
    return priorities[(unsigned)level < LEVEL_COUNT ? level : LEVEL_ERROR];
}

void events_begin_report(void)
{
    const char *number = getenv(EVENTS_REPORT_VARIABLE);

    if (number == NULL)
        return;
    process.report = atoi(number);
    if (process.report <= STDERR_FILENO || fcntl(process.report, F_SETFD, FD_CLOEXEC) != 0)
        process.report = -1;
    unsetenv(EVENTS_REPORT_VARIABLE);
}

void events_report(const char *text, size_t length)
{
    if (process.report >= 0)
        (void)!write(process.report, text, length);
}

void events_end_report(void)
{
    if (process.report >= 0)
        close(process.report);
    process.report = -1;
}

void events_set_role(enum role role)
{
    process.role = role;
    if (role != ROLE_MASTER)
        events_end_report();
}

void events_attach(const struct segment *segment, uint32_t ring)
{
    process.segment = segment;
    process.echo = false;
    if (segment != NULL)
        process.ring = segment_event_ring(segment, ring);
}

void events_echo(bool echo)
{
    process.echo = echo;
}

void events_set_json(bool json)
{
    process.json = json;
}

void events_set_level(enum level level)
{
    process.level = level;
}

static size_t clipped(int length, size_t size)
{
    return length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

size_t event_line_short(const struct event_record *event, char *line, size_t size)
{
    char text[EVENT_LINE_MAX];

    escape_text(text, sizeof(text), event->text, strnlen(event->text, sizeof(event->text)));
    return clipped(snprintf(line, size, "%s %d: %s\n",
                            event->role < ROLE_COUNT ? role_names[event->role] : "?", event->pid,
                            text),
                   size);
}

/* "2026/11/21 06:18:30 [warn] worker 123: text\n"; returns the length. */
static size_t event_line(const struct event_record *event, char *line, size_t size)
{
    time_t seconds = (time_t)(event->time_ns / NS_PER_S);
    char when[32];
    struct tm parts;
    size_t length;

    localtime_r(&seconds, &parts);
    strftime(when, sizeof(when), "%Y/%m/%d %H:%M:%S", &parts);
    length = clipped(snprintf(line, size, "%s [%s] ", when,
                              event->level < LEVEL_COUNT ? level_names[event->level] : "?"),
                     size);
    return length + event_line_short(event, line + length, size - length);
}

/* TEXT without unsafe characters, as in a JSON string. */
static size_t quote_text(const char *text, char *to)
{
    size_t length = 0;

    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            to[length++] = '\\';
        to[length++] = *text;
    }
    return length;
}

static size_t event_line_json(const struct event_record *event, char *line, size_t size)
{
    time_t seconds = (time_t)(event->time_ns / NS_PER_S);
    char when[32], text[ESCAPE_TEXT_BYTES(EVENT_TEXT_BYTES)];
    struct tm parts;
    size_t length;

    gmtime_r(&seconds, &parts);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &parts);
    escape_text(text, sizeof(text), event->text, strnlen(event->text, sizeof(event->text)));
    length =
        clipped(snprintf(line, size,
                         "{\"time\":\"%s.%03uZ\",\"level\":\"%s\",\"process\":\"%s\",\"pid\":%d,"
                         "\"message\":\"",
                         when, (unsigned)(event->time_ns / NS_PER_MS % 1000),
                         event->level < LEVEL_COUNT ? level_names[event->level] : "?",
                         event->role < ROLE_COUNT ? role_names[event->role] : "?", event->pid),
                size);
    if (size < EVENT_LINE_MAX)
        return 0;
    length += quote_text(text, line + length);
    memcpy(line + length, "\"}\n", 4);
    return length + 3;
}

size_t event_line_to(int fd, const struct event_record *event, char *line, size_t size)
{
    const char *priority = event_priority(fd, (enum level)event->level);
    size_t length = strlen(priority);

    if (length == 0 && process.json)
        return event_line_json(event, line, size);
    if (length == 0)
        return event_line(event, line, size);
    memcpy(line, priority, length + 1);
    return length + event_line_short(event, line + length, size - length);
}

/* How much of TEXT, which has LENGTH bytes, is in the next event: up to a blank or a character. */
static size_t part_of_text(const char *text, size_t length)
{
    size_t end = EVENT_TEXT_BYTES - 1;

    if (length <= end)
        return length;
    for (size_t at = end; at > end / 2; at--)
        if (text[at] == ' ')
            return at;
    while (end > EVENT_TEXT_BYTES - 5 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    return end;
}

static void write_event(const struct event_record *event)
{
    char line[EVENT_LINE_MAX];
    size_t length;

    if (process.segment != NULL)
        event_ring_append(&process.ring, event);
    if (process.segment != NULL && (!process.echo || event->level < LEVEL_ERROR))
        return;
    length = event_line_to(STDERR_FILENO, event, line, sizeof(line));
    for (int tries = 0; tries < 2; tries++) /* an interrupted write may succeed the second time */
        if (write(STDERR_FILENO, line, length) >= 0)
            return;
}

void event_log(enum level level, const char *format, ...)
{
    struct event_record event = {
        .level = (uint8_t)level, .role = (uint8_t)process.role, .pid = getpid()};
    static const char mark[] = "... ";
    enum level least = process.level;
    char text[sizeof(mark) - 1 + EVENT_LOG_MAX], *start = text + sizeof(mark) - 1;
    va_list arguments;
    size_t length, part;

    if (process.segment != NULL)
        least = (enum level)atomic_load_explicit(&segment_master(process.segment)->log_level,
                                                 memory_order_relaxed);
    if (level < least)
        return;
    event.time_ns = clock_wall_ns();
    va_start(arguments, format);
    vsnprintf(start, EVENT_LOG_MAX, format, arguments);
    va_end(arguments);
    if (level == LEVEL_ERROR) {
        events_report(start, strlen(start));
        events_report("\n", 1);
    }
    for (length = strlen(start);; length -= part) {
        part = part_of_text(start, length);
        memcpy(event.text, start, part);
        event.text[part] = '\0';
        write_event(&event);
        if (part == length)
            return;
        start += part;
        if (*start == ' ') {
            start++;
            length--;
        }
        start -= sizeof(mark) - 1; /* over what is written already */
        memcpy(start, mark, sizeof(mark) - 1);
        length += sizeof(mark) - 1;
    }
}

/* Replaces that of the C library, because a sandboxed process has no standard error. */
// NOLINTNEXTLINE(clang-diagnostic-reserved-identifier)
void __assert_fail(const char *assertion, const char *file, unsigned int line, const char *function)
{
    event_log(LEVEL_ERROR, "assertion failed: %s (%s:%u, %s)", assertion, file, line, function);
    abort();
}
