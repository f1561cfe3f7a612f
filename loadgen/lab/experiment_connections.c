/* How many connections are too many. */
#include "loadgen/lab/experiments.h"
#include "loadgen/lab/growth.h"

#include <sys/resource.h>

static const uint32_t steps[] = {100, 500, 1000, 2000, 5000};

enum { STEPS = ARRAY_LENGTH(steps), OTHER_FILES = 200 };

/* How many of the steps this user's limit of open files allows; client and server need as many each. */
static size_t allowed_steps(void)
{
    struct rlimit limit;
    size_t count = 0;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return STEPS;
    while (count < STEPS && steps[count] + OTHER_FILES <= limit.rlim_max)
        count++;
    return count;
}

int experiment_connections(struct lab *lab, struct findings *findings)
{
    size_t count = allowed_steps();
    struct private_server *server = lab_server(lab, NULL);
    struct point *points = points_create(lab, STEPS);
    const struct curve curve = {"Kept alive", points, count};

    if (server == NULL || points == NULL)
        return -1;
    if (count == 0)
        return lab_fail(lab, "this user may have too few files open (ulimit -Hn)");
    curve_begin(lab, points, server, LAB_SMALL, steps, count, "kept alive");
    if (points_measure(lab, points, count) != 0)
        return -1;
    curve_table(findings, "1 KiB from the cache, kept alive", &curve);
    curves_plot(findings, "Requests a second, by connections", &curve, 1, MEASURE_RATE);
    curves_plot(findings, "99th percentile, by connections", &curve, 1, MEASURE_P99);
    curve_explain(findings, &curve);
    if (curve_at(&curve, GROWTH_MANY) != NULL && growth_judge(lab, findings, &curve, 1) != 0)
        return -1;
    if (count < STEPS)
        findings_say(findings, FINDINGS_CAUTION,
                     "%u connections and more were left out: this user may not have so many files "
                     "open (ulimit -Hn).",
                     steps[count]);
    points_caution(findings, points, count);
    return 0;
}
