#include "loadgen/sweep/sweep_report.h"

#include "common/units.h"

#include <inttypes.h>
#include <math.h>

static int (*const writers[PLAN_FORMAT_COUNT])(FILE *out, const struct sweep *sweep,
                                               bool colour) = {
    [PLAN_FORMAT_TEXT] = sweep_text, [PLAN_FORMAT_JSON] = sweep_json, [PLAN_FORMAT_CSV] = sweep_csv,
    [PLAN_FORMAT_HTML] = sweep_html, [PLAN_FORMAT_MD] = sweep_md,     [PLAN_FORMAT_PNG] = sweep_png,
};

int sweep_report(FILE *out, const struct sweep *sweep, bool colour)
{
    return writers[sweep->plan->format](out, sweep, colour);
}

const char *const sweep_heads[SWEEP_COLUMNS] = {
    [SWEEP_CONNECTIONS] = "Connections",
    [SWEEP_RATE] = "requests/s",
    [SWEEP_SURE] = "+-",
    [SWEEP_P50] = "p50",
    [SWEEP_P99] = "p99",
    [SWEEP_ERRORS] = "errors",
    [SWEEP_CLIENT] = "client",
    [SWEEP_MACHINE] = "machine",
    [SWEEP_ZONE] = "zone",
};

static char *put_measure(char *buffer, const struct sweep_point *point, enum measure measure)
{
    return measure_format(buffer, measure, point->of[measure].median);
}

static void put_rounded(char *buffer, double percent, const char *mark)
{
    if (isnan(percent))
        snprintf(buffer, SWEEP_CELL, "-");
    else
        snprintf(buffer, SWEEP_CELL, "%.0f%%%s", percent, mark);
}

char *sweep_cell(char *buffer, const struct sweep_point *point, enum sweep_column column)
{
    double sure = interval_percent(&point->of[MEASURE_RATE]);

    switch (column) {
    case SWEEP_CONNECTIONS:
        snprintf(buffer, SWEEP_CELL, "%" PRIu32, point->plan.connections_asked);
        break;
    case SWEEP_RATE:
        return put_measure(buffer, point, MEASURE_RATE);
    case SWEEP_SURE:
        snprintf(buffer, SWEEP_CELL, isnan(sure) ? "-" : sure < 9.95 ? "%.1f%%" : "%.0f%%", sure);
        break;
    case SWEEP_P50:
        return put_measure(buffer, point, MEASURE_P50);
    case SWEEP_P99:
        return put_measure(buffer, point, MEASURE_P99);
    case SWEEP_ERRORS:
        return put_measure(buffer, point, MEASURE_ERRORS);
    case SWEEP_CLIENT:
        put_rounded(buffer, point->of[MEASURE_CLIENT_SHARE].median, point->client_bound ? "!" : "");
        break;
    case SWEEP_MACHINE:
        put_rounded(buffer, point->of[MEASURE_MACHINE_BUSY].median, "");
        break;
    case SWEEP_ZONE:
        snprintf(buffer, SWEEP_CELL, "%s", zone_names[point->zone]);
        break;
    case SWEEP_COLUMNS:
        break;
    }
    return buffer;
}

/* "5 rounds in turns of 8 points, 2 s each" */
char *sweep_setting(char *buffer, const struct sweep *sweep)
{
    const struct plan *plan = sweep->plan;
    char each[64], time[UNITS_TEXT];

    if (plan->requests > 0)
        snprintf(each, sizeof(each), "%" PRIu64 " requests", plan->requests);
    else
        snprintf(each, sizeof(each), "%s",
                 units_format_time_ms(time, sizeof(time), plan->duration_ms));
    snprintf(buffer, SWEEP_SETTING,
             "%zu point%s of %s in %" PRIu32 " round%s, in turns; engine %s, up to %" PRIu32
             " thread%s",
             sweep->point_count, sweep->point_count == 1 ? "" : "s", each, plan->rounds,
             plan->rounds == 1 ? "" : "s", plan->engine == PLAN_ENGINE_RAW ? "raw" : "curl",
             plan->threads_asked, plan->threads_asked == 1 ? "" : "s");
    return buffer;
}
