#include "loadgen/report/hdr.h"

#include "common/clock.h"

#include "loadgen/report/latencies.h"

#include <inttypes.h>
#include <math.h>

static double milliseconds(double ns)
{
    return ns / (double)NS_PER_MS;
}

static uint64_t in_bucket(const struct histogram *times, uint32_t index)
{
    return atomic_load_explicit(&times->bucket[index], memory_order_relaxed);
}

/* The number of values up to the end of VALUE's bucket. */
static uint64_t count_to(const struct histogram *times, uint64_t value)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i <= histogram_index(value); i++)
        count += in_bucket(times, i);
    return count;
}

static double deviation(const struct histogram *times)
{
    double mean = histogram_mean(times), squares = 0;
    uint64_t count = histogram_count(times);

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        double middle = ((double)histogram_lowest(i) + (double)histogram_highest(i)) / 2;

        squares += (double)in_bucket(times, i) * (middle - mean) * (middle - mean);
    }
    return count > 0 ? sqrt(squares / (double)count) : 0;
}

static void put_lines(FILE *out, const struct histogram *times)
{
    uint64_t count = histogram_count(times), to = 0;
    double level = 0;

    while (to < count) {
        uint64_t value = histogram_percentile(times, level);

        to = count_to(times, value);
        if (to < count)
            fprintf(out, "%12.3f %2.12f %10" PRIu64 " %14.2f\n", milliseconds((double)value),
                    level / 100, to, 100 / (100 - level));
        level = report_next_level(level);
    }
    if (count > 0)
        fprintf(out, "%12.3f %2.12f %10" PRIu64 "\n", milliseconds((double)histogram_max(times)),
                1.0, count);
}

int result_write_hdr(FILE *out, const struct result *result)
{
    const struct histogram *times = &result->tally.latency;

    fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
            "1/(1-Percentile)");
    put_lines(out, times);
    fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n",
            milliseconds(histogram_mean(times)), milliseconds(deviation(times)));
    fprintf(out, "#[Max     = %12.3f, Total count    = %12" PRIu64 "]\n",
            milliseconds((double)histogram_max(times)), histogram_count(times));
    fprintf(out, "#[Buckets = %12d, SubBuckets     = %12d]\n",
            HISTOGRAM_BUCKETS / HISTOGRAM_SUB_BUCKETS, HISTOGRAM_SUB_BUCKETS);
    return 0;
}
