#include "loadgen/report/report.h"

#include "common/macros.h"

#include <math.h>

static int (*const writers[])(FILE *out, const struct result *result, bool colour) = {
#define FORMAT(id, name, ending, write) [PLAN_FORMAT_##id] = (write),
#include "loadgen/plan/formats.def"
#undef FORMAT
};

int report_write(FILE *out, const struct result *result, bool colour)
{
    return writers[result->plan->format](out, result, colour);
}

const double *report_percentiles(const struct plan *plan, size_t *count)
{
    static const double usual[] = {50, 90, 99, 99.9, 99.99, 99.999};

    *count = plan->percentile_count > 0 ? plan->percentile_count : ARRAY_LENGTH(usual);
    return plan->percentile_count > 0 ? plan->percentiles : usual;
}

char *report_percentile_name(char *buffer, size_t size, double percent)
{
    snprintf(buffer, size, "p%.10g", percent);
    return buffer;
}

double report_next_level(double percent)
{
    const double ticks = 5; /* for each halving of what is left */
    double halvings = floor(log2(100 / (100 - percent))) + 1;

    return percent + 100 / (ticks * exp2(halvings));
}
