#include "loadgen/lab/windows.h"

#include <math.h>

static double rate(const struct series_entry *steps, size_t count)
{
    uint64_t answered = 0, ns = 0;

    for (size_t i = 0; i < count; i++) {
        answered += steps[i].answered;
        ns += steps[i].end_ns - steps[i].begin_ns;
    }
    return ns > 0 ? (double)answered * 1e9 / (double)ns : NAN;
}

static double p99(const struct series_entry *steps, size_t count)
{
    double sum = 0, answered = 0;

    for (size_t i = 0; i < count; i++) {
        sum += (double)steps[i].p99_ns * (double)steps[i].answered;
        answered += (double)steps[i].answered;
    }
    return answered > 0 ? sum / answered : NAN;
}

static struct interval over_windows(const struct series *series,
                                    double (*value)(const struct series_entry *steps, size_t count))
{
    size_t count = series->count < WINDOWS_MAX ? series->count : WINDOWS_MAX;
    double values[WINDOWS_MAX];

    for (size_t i = 0; i < count; i++) {
        size_t from = series->count * i / count, to = series->count * (i + 1) / count;

        values[i] = value(&series->entry[from], to - from);
    }
    return statistics_interval(values, count);
}

struct interval windows_rate(const struct series *series)
{
    return over_windows(series, rate);
}

struct interval windows_p99(const struct series *series)
{
    return over_windows(series, p99);
}
