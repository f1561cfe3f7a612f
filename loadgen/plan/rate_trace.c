#include "loadgen/plan/rate_trace.h"

#include "common/macros.h"

#include <string.h>

static void fold(struct rate_trace *trace)
{
    for (size_t i = 0; i < RATE_TRACE_CELLS / 2; i++)
        trace->cell[i] = (trace->cell[2 * i] + trace->cell[2 * i + 1]) / 2;
    trace->count = RATE_TRACE_CELLS / 2;
    trace->samples_in_cell *= 2;
}

void rate_trace_add(struct rate_trace *trace, double rate)
{
    if (trace->samples_in_cell == 0)
        trace->samples_in_cell = 1;
    trace->sum += rate;
    trace->samples++;
    if (trace->samples == trace->samples_in_cell && trace->count == RATE_TRACE_CELLS)
        fold(trace);
    if (trace->samples < trace->samples_in_cell)
        return;
    trace->cell[trace->count++] = trace->sum / trace->samples;
    trace->sum = 0;
    trace->samples = 0;
}

double rate_trace_peak(const struct rate_trace *trace)
{
    double peak = 0;

    for (size_t i = 0; i < trace->count; i++)
        peak = trace->cell[i] > peak ? trace->cell[i] : peak;
    return peak;
}

/* The mean of what column AT of COLUMNS shows. */
static double value_at(const struct rate_trace *trace, size_t at, size_t columns)
{
    size_t from = at * trace->count / columns, to = (at + 1) * trace->count / columns;
    double sum = 0;

    for (size_t i = from; i < to; i++)
        sum += trace->cell[i];
    return sum / (double)(to - from);
}

size_t rate_trace_draw(char text[RATE_TRACE_TEXT], const struct rate_trace *trace, size_t width,
                       bool unicode)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[] = {" ", "_", ".", "-", ":", "=", "+", "*", "#"};
    const char *const *levels = unicode ? blocks : letters;
    size_t columns = trace->count < width ? trace->count : width, steps = ARRAY_LENGTH(blocks) - 1;
    double peak = rate_trace_peak(trace);

    text[0] = '\0';
    for (size_t i = 0; i < columns; i++) {
        double value = value_at(trace, i, columns);
        size_t level = value > 0 ? 1 + (size_t)(value / peak * (double)(steps - 1) + 0.5) : 0;

        strcat(text, levels[level < steps ? level : steps]);
    }
    return columns;
}
