#include "loadgen/report/measures.h"

#include "common/clock.h"
#include "common/units.h"

#include "loadgen/report/report.h"
#include "loadgen/report/report_facts.h"

#include <math.h>
#include <stdio.h>

const struct measure_info measure_table[MEASURE_COUNT] = {
#define MEASURE(id, name, label, unit) [MEASURE_##id] = {(name), (label), MEASURE_OF_##unit},
#include "loadgen/report/measures.def"
#undef MEASURE
};

static double microseconds(double ns)
{
    return ns / (double)NS_PER_US;
}

static double percentile(const struct histogram *times, double percent)
{
    if (!report_percentile_known(percent, histogram_count(times)))
        return NAN;
    return microseconds((double)histogram_percentile(times, percent));
}

static void take_times(double *value, const struct histogram *times)
{
    bool any = histogram_count(times) > 0;

    value[MEASURE_MEAN] = any ? microseconds(histogram_mean(times)) : NAN;
    value[MEASURE_P50] = percentile(times, 50);
    value[MEASURE_P90] = percentile(times, 90);
    value[MEASURE_P99] = percentile(times, 99);
    value[MEASURE_P99_9] = percentile(times, 99.9);
    value[MEASURE_MAX] = any ? microseconds((double)histogram_max(times)) : NAN;
}

void measures_take(struct measures *measures, const struct result *result)
{
    double *value = measures->value;

    take_times(value, &result->tally.latency);
    value[MEASURE_RATE] = result_rate(result);
    value[MEASURE_ERRORS] = result_bad_percent(result);
    value[MEASURE_CLIENT_SHARE] = 100 * result_cpu_share(result);
    value[MEASURE_CLIENT_CPU] = microseconds(result_cpu_each_ns(result));
    value[MEASURE_SERVER_CORES] = result->server.cores;
    value[MEASURE_MACHINE_BUSY] = 100 * result->machine_busy;
}

char *measure_format(char *buffer, enum measure measure, double value)
{
    if (isnan(value)) {
        snprintf(buffer, MEASURE_TEXT, "-");
        return buffer;
    }
    switch (measure_table[measure].unit) {
    case MEASURE_OF_COUNT:
        return report_count(buffer, MEASURE_TEXT, value);
    case MEASURE_OF_TIME:
        return units_format_ns(buffer, MEASURE_TEXT, value * (double)NS_PER_US);
    case MEASURE_OF_PERCENT:
        snprintf(buffer, MEASURE_TEXT, value > 0 && value < 0.995 ? "%.2g%%" : "%.3g%%", value);
        break;
    case MEASURE_OF_CORES:
        snprintf(buffer, MEASURE_TEXT, "%.2f", value);
        break;
    }
    return buffer;
}
