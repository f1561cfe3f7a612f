#include "loadgen/report/percentiles.h"

#include "common/macros.h"

#include <math.h>
#include <stdio.h>

const double *report_percentiles(const struct plan *plan, size_t *count)
{
    static const double usual[] = {50, 90, 99, 99.9, 99.99, 99.999};

    *count = plan->percentile_count > 0 ? plan->percentile_count : ARRAY_LENGTH(usual);
    return plan->percentile_count > 0 ? plan->percentiles : usual;
}

char *report_percentile_name(char *buffer, double percent)
{
    snprintf(buffer, REPORT_PERCENTILE_NAME, "p%.10g", percent);
    return buffer;
}

double report_next_level(double percent)
{
    const double steps = 5;
    double halvings = floor(log2(100 / (100 - percent))) + 1;

    return percent + 100 / (steps * exp2(halvings));
}
