#include "console/scene/summary.h"

#include "common/units.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void summary_append(char *line, size_t size, int width, const char *format, ...)
{
    char item[512];
    size_t length = strlen(line), gap = length > 0 ? 2 : 0, more;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(item, sizeof(item), format, arguments);
    va_end(arguments);
    more = strlen(item);
    if (length + gap + more > (size_t)(width > 0 ? width : 0) || length + gap + more >= size)
        return;
    snprintf(line + length, size - length, "%s%s", gap > 0 ? "  " : "", item);
}

static void append_offload(const struct snapshot *now, char *line, size_t size, int width)
{
    uint32_t offload = 0;

    for (uint32_t i = 0; i < now->worker_count; i++)
        offload += now->workers[i].offload_actual;
    if (now->offload_min == now->offload_max)
        summary_append(line, size, width, "offload %" PRIu32 " (%" PRIu32 " in each)", offload,
                       now->offload_max);
    else
        summary_append(line, size, width, "offload %" PRIu32 " (%" PRIu32 "-%" PRIu32 " in each)",
                       offload, now->offload_min, now->offload_max);
}

void summary_processes(const struct snapshot *now, char *line, size_t size, int width)
{
    line[0] = '\0';
    if (now->workers_wanted == 0) { /* a past moment */
        summary_append(line, size, width, "threads %" PRIu32, snapshot_threads_actual(now));
        summary_append(line, size, width, "workers %" PRIu32, snapshot_workers_actual(now));
        return;
    }
    summary_append(line, size, width, "threads %" PRIu32 " of %" PRIu32 " (%" PRIu32 " in each)",
                   snapshot_threads_actual(now), now->workers_wanted * now->threads_wanted,
                   now->threads_wanted);
    summary_append(line, size, width, "workers %" PRIu32 " of %" PRIu32,
                   snapshot_workers_actual(now), now->workers_wanted);
    append_offload(now, line, size, width);
    summary_append(line, size, width, "dispatch %s", now->dispatch_master ? "master" : "kernel");
}

void summary_identity(const struct snapshot *now, char *line, size_t size, int width)
{
    char age[UNITS_TEXT];
    uint64_t started = now->server.started_ns;

    line[0] = '\0';
    summary_append(line, size, width, "%s", now->server.name);
    summary_append(line, size, width, "pid %" PRId32, now->server.pid);
    summary_append(
        line, size, width, "up %s",
        units_format_age(age, sizeof(age), now->wall_ns > started ? now->wall_ns - started : 0));
    summary_append(line, size, width, "on %s", now->server.listening);
    summary_append(line, size, width, "version %s", now->server.version);
}
