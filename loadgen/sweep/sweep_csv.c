/*
 * A sweep as comma-separated values (RFC 4180, lines ended by LF): for each point a row with the
 * medians, rows with the ends of the 95 % confidence intervals, and one for each round. What is not
 * known is empty.
 */
#include "loadgen/sweep/sweep_report.h"

#include <inttypes.h>
#include <math.h>

static void put_names(FILE *out)
{
    fputs("row,round,keepalive,server_workers,server_threads,connections", out);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        fprintf(out, ",%s", measure_table[i].name);
    fputs(",zone,client_bound\n", out);
}

/* What stands before the measures; ROUND 0: of all. */
static void put_begin(FILE *out, const struct sweep_curve *curve, const struct sweep_point *point,
                      const char *row, uint32_t round)
{
    fprintf(out, "%s,", row);
    if (round > 0)
        fprintf(out, "%" PRIu32, round);
    fprintf(out, ",%s,", curve->keepalive ? "on" : "off");
    if (curve->server.threads > 0)
        fprintf(out, "%" PRIu32 ",%" PRIu32, curve->server.workers, curve->server.threads);
    else
        fputc(',', out);
    fprintf(out, ",%" PRIu32, point->plan.connections_asked);
}

static void put_value(FILE *out, double value)
{
    fputc(',', out);
    if (!isnan(value))
        fprintf(out, "%.6g", value);
}

static void put_end(FILE *out, const struct sweep_point *point)
{
    fprintf(out, ",%s,%s\n", point->zone != ZONE_UNKNOWN ? zone_names[point->zone] : "",
            point->client_bound ? "yes" : "no");
}

static void put_point(FILE *out, const struct sweep *sweep, const struct sweep_curve *curve,
                      const struct sweep_point *point)
{
    size_t number = (size_t)(point - sweep->points);

    put_begin(out, curve, point, "median", 0);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        put_value(out, point->of[i].median);
    put_end(out, point);
    put_begin(out, curve, point, "low", 0);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        put_value(out, point->of[i].low);
    put_end(out, point);
    put_begin(out, curve, point, "high", 0);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        put_value(out, point->of[i].high);
    put_end(out, point);
    for (uint32_t k = 0; k < trials_done(sweep->trials, number); k++) {
        put_begin(out, curve, point, "round", k + 1);
        for (size_t i = 0; i < MEASURE_COUNT; i++)
            put_value(out, trials_get(sweep->trials, number, k)->value[i]);
        put_end(out, point);
    }
}

int sweep_csv(FILE *out, const struct sweep *sweep, bool colour)
{
    (void)colour;
    put_names(out);
    for (size_t i = 0; i < sweep->curve_count; i++)
        for (size_t k = 0; k < sweep->curves[i].measured; k++)
            put_point(out, sweep, &sweep->curves[i], &sweep->curves[i].points[k]);
    return 0;
}
