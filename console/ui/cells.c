#include "console/ui/cells.h"

#include "console/ui/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void cell_text(struct cell *cell, enum tone tone, const char *text)
{
    cell->tone = tone;
    snprintf(cell->text, sizeof(cell->text), "%s", text);
}

void cell_print(struct cell *cell, enum tone tone, const char *format, ...)
{
    va_list arguments;

    cell->tone = tone;
    va_start(arguments, format);
    vsnprintf(cell->text, sizeof(cell->text), format, arguments);
    va_end(arguments);
}

void cell_count(struct cell *cell, enum tone tone, double count)
{
    cell->tone = tone;
    cell->number = count;
    text_count(cell->text, count);
}

/* Slow rates with a decimal: one in ten seconds is not none. */
void cell_rate(struct cell *cell, enum tone tone, double per_s)
{
    cell_count(cell, tone, per_s);
    if (per_s >= 0.05 && per_s < 9.95)
        snprintf(cell->text, sizeof(cell->text), "%.1f", per_s);
}

void cell_exact(struct cell *cell, enum tone tone, uint64_t count)
{
    cell->number = (double)count;
    cell_print(cell, tone, "%" PRIu64, count);
}

void cell_bytes(struct cell *cell, enum tone tone, double bytes)
{
    cell->tone = tone;
    cell->number = bytes;
    text_bytes(cell->text, bytes);
}

void cell_latency(struct cell *cell, enum tone tone, double ns)
{
    cell->tone = tone;
    cell->number = ns;
    text_latency(cell->text, ns);
}

void cell_percent(struct cell *cell, enum tone tone, double ratio)
{
    cell->tone = tone;
    cell->number = 100 * ratio;
    text_percent(cell->text, ratio);
}

void cell_age(struct cell *cell, enum tone tone, uint64_t ns)
{
    cell->tone = tone;
    cell->number = (double)ns;
    text_since(cell->text, ns);
}

void cell_clock(struct cell *cell, enum tone tone, uint64_t wall_ns)
{
    cell->tone = tone;
    cell->number = (double)wall_ns;
    text_clock(cell->text, wall_ns);
}

enum tone status_tone(int status)
{
    return status >= 500   ? TONE_BAD
           : status >= 400 ? TONE_WARN
           : status >= 300 ? TONE_NOTE
                           : TONE_GOOD;
}
