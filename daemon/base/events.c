#include "daemon/base/events.h"

#include "common/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Set before threads start; only read afterwards. */
static struct {
    enum role role;
    enum level level;
    struct segment *segment;
} process = {ROLE_MASTER, LEVEL_INFO, NULL};

void events_set_role(enum role role)
{
    process.role = role;
}

void events_attach(struct segment *segment)
{
    process.segment = segment;
}

void events_set_level(enum level level)
{
    process.level = level;
}

static enum level current_level(void)
{
    if (process.segment == NULL)
        return process.level;
    return (enum level)atomic_load_explicit(&segment_master(process.segment)->log_level,
                                            memory_order_relaxed);
}

static size_t clipped(int length, size_t size)
{
    return length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

size_t event_line_short(const struct event_record *event, char *line, size_t size)
{
    return clipped(snprintf(line, size, "%s %d: %s\n",
                            event->role < ROLE_COUNT ? role_names[event->role] : "?", event->pid,
                            event->text),
                   size);
}

size_t event_line(const struct event_record *event, char *line, size_t size)
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

void event_log(enum level level, const char *format, ...)
{
    struct event_record event = {
        .level = (uint8_t)level, .role = (uint8_t)process.role, .pid = getpid()};
    char line[EVENT_TEXT_BYTES + 80];
    va_list arguments;

    if (level < current_level())
        return;
    event.time_ns = clock_wall_ns();
    va_start(arguments, format);
    vsnprintf(event.text, sizeof(event.text), format, arguments);
    va_end(arguments);
    if (process.segment != NULL) {
        event_ring_append(segment_events(process.segment), &event);
        return;
    }
    if (write(STDERR_FILENO, line, event_line(&event, line, sizeof(line))) < 0)
        return; /* no target is left for a report */
}
