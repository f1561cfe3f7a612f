#include "loadgen/lab/verdict.h"

#include "common/clock.h"
#include "common/units.h"

#include "loadgen/lab/points.h"

#include <math.h>
#include <stdio.h>

/* Keeps an exact number of values from being rounded up. */
#define ROUNDING 1e-6

enum findings_kind verdict_at_most(const struct interval *value, double limit)
{
    if (value->high <= limit)
        return FINDINGS_MET;
    if (value->low > limit)
        return FINDINGS_NOT_MET;
    return FINDINGS_UNDECIDED;
}

enum findings_kind verdict_above(const struct interval *value, double limit)
{
    if (value->low > limit)
        return FINDINGS_MET;
    if (value->high <= limit)
        return FINDINGS_NOT_MET;
    return FINDINGS_UNDECIDED;
}

double verdict_values_needed(const struct interval *value, double limit)
{
    double distance = fabs(value->median - limit);
    double reach = value->median > limit ? value->median - value->low : value->high - value->median;

    if (isnan(value->low) || isnan(value->high))
        return NAN;
    return ceil((double)value->count * pow(reach / distance, 2) - ROUNDING);
}

char *verdict_advice(char *buffer, const struct interval *value, double limit,
                     uint32_t values_a_round, uint64_t trial_ms)
{
    double rounds = ceil(verdict_values_needed(value, limit) / values_a_round);
    char time[UNITS_TEXT];

    if (isnan(rounds))
        snprintf(buffer, VERDICT_ADVICE,
                 " At least %d rounds (--rounds) are necessary to estimate how many decide.",
                 (STATISTICS_INTERVAL_MIN + (int)values_a_round - 1) / (int)values_a_round);
    else if (value->low > limit || value->high < limit)
        snprintf(buffer, VERDICT_ADVICE, " Only the busy machine prevents a verdict.");
    else if (rounds <= POINT_ROUNDS)
        snprintf(buffer, VERDICT_ADVICE,
                 " About %.0f rounds (--rounds %.0f, or --until-decided) would decide.", rounds,
                 rounds);
    else if (isinf(rounds))
        snprintf(buffer, VERDICT_ADVICE, " The median is at the limit: no number decides.");
    else
        snprintf(buffer, VERDICT_ADVICE,
                 " It is close to the limit: about %d rounds with trials of %s would decide.",
                 POINT_ROUNDS,
                 units_format_ns(time, sizeof(time),
                                 (double)trial_ms * (double)NS_PER_MS * rounds / POINT_ROUNDS));
    return buffer;
}
