/* What a file costs that has to come from the disk, from the kernel's memory, or from our own. */
#include "loadgen/lab/files.h"

#include "common/units.h"

#include <math.h>

enum {
    COLD,
    WARM,
    HOT,
    KINDS,
    CONNECTIONS = 10,
    BIG_BYTES = 1024 * 1024 + 256 * 1024,
    FILES = 200,
    FILES_QUICK = 48,
};

static const char *const names[KINDS] = {"cold: from the disk", "warm: the same, in memory",
                                         "hot: one file of 1 KiB"};

/* What was in memory when the cold trials began; the worst of them. */
struct coldness {
    struct files files;
    double in_memory; /* percent; NAN: not known */
};

static int make_cold(struct lab *lab, struct point *point)
{
    struct coldness *coldness = point->context;
    double left;

    if (files_forget(lab, &coldness->files) != 0)
        return -1;
    left = files_in_memory(&coldness->files);
    coldness->in_memory = isnan(left) ? left : fmax(left, coldness->in_memory);
    return 0;
}

/* Rounds go there and back: what is to be in memory is brought there before each warm trial. */
static int make_warm(struct lab *lab, struct point *point)
{
    const struct coldness *coldness = point->context;

    return files_read(lab, &coldness->files);
}

static void put_table(struct document *findings, const struct point *points, const size_t *bytes)
{
    static const char *const heads[] = {"what",       "requests/s", "mean", "p90",
                                        "server CPU", "a second",   NULL};

    findings_table(findings, "Unique files of 1.25 MiB, and one small one; 10 connections", heads);
    for (size_t i = 0; i < KINDS; i++) {
        char text[UNITS_TEXT];
        double rate = point_median(&points[i], MEASURE_RATE);

        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", names[i]);
        point_cell_rate(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_MEAN);
        point_cell(findings, &points[i], MEASURE_P90);
        point_cell_cpu(findings, &points[i]);
        document_cell(findings, "%s",
                      units_format_bytes(text, sizeof(text), rate * (double)bytes[i]));
    }
}

static void put_plot(struct document *findings, const struct point *points)
{
    document_plot(findings, "Mean latency, round by round", (struct plot_axis){false, axis_count},
                  (struct plot_axis){true, axis_time});
    for (size_t i = 0; i < KINDS; i++) {
        document_line(findings, names[i], false);
        for (uint32_t round = 0; round < points[i].rounds; round++)
            document_point(
                findings, round + 1,
                trials_get(points[i].trials, points[i].index, round)->value[MEASURE_MEAN] * 1e3);
    }
}

static void explain(struct document *findings, const struct point *points,
                    const struct coldness *coldness)
{
    double cold = point_median(&points[COLD], MEASURE_RATE);
    double warm = point_median(&points[WARM], MEASURE_RATE);
    double hot = point_median(&points[HOT], MEASURE_RATE);

    if (isnan(coldness->in_memory) || coldness->in_memory > 5)
        findings_say(findings, FINDINGS_CAUTION,
                     "The cold files were not cold: the kernel kept them in memory although it was "
                     "asked to forget them (TMPDIR may be in memory).");
    findings_say(findings, FINDINGS_LESSON,
                 "The disk: the same files came %.1f times as fast when the kernel had them in "
                 "memory already%s",
                 warm / cold,
                 warm < cold * 1.2 ? "; this disk is hardly slower than memory, or has a cache of "
                                     "its own."
                                   : ".");
    findings_say(findings, FINDINGS_LESSON,
                 "Size: one small file was answered %.0f times as often as those from memory, and "
                 "%.0f times as often as those from the disk; most of that is %d times the bytes, "
                 "not a cache.",
                 hot / warm, hot / cold, BIG_BYTES / LAB_SMALL_BYTES);
    findings_say(findings, FINDINGS_LESSON,
                 "%.0f%% of the small file's requests were hits of the server's own cache; files "
                 "over 1 MiB are not kept there, the kernel sends them.",
                 point_own_median(&points[HOT], POINT_HITS));
}

static int begin(struct lab *lab, struct point *points, struct coldness *coldness)
{
    const struct files *files = &coldness->files;
    uint32_t *numbers = lab_room(lab, files->count, sizeof(*numbers));

    if (numbers == NULL)
        return -1;
    for (uint32_t i = 0; i < files->count; i++)
        numbers[i] = i;
    for (size_t i = 0; i < KINDS; i++)
        point_begin(lab, &points[i], files->server, LAB_SMALL, CONNECTIONS, "%s", names[i]);
    points[COLD].before = make_cold;
    points[WARM].before = make_warm;
    points[COLD].context = points[WARM].context = coldness;
    return files_ask(lab, files, &points[COLD], "cold", numbers, files->count) != 0
               ? -1
               : files_ask(lab, files, &points[WARM], "warm", numbers, files->count);
}

int experiment_cache(struct lab *lab, struct document *findings)
{
    static const size_t bytes[KINDS] = {BIG_BYTES, BIG_BYTES, LAB_SMALL_BYTES};
    struct coldness coldness = {
        .files = {lab_server(lab, NULL), "big", lab->quick ? FILES_QUICK : FILES, BIG_BYTES}};
    struct point *points = points_create(lab, KINDS);

    if (coldness.files.server == NULL || points == NULL)
        return -1;
    lab_progress(lab, "writing %u files", coldness.files.count);
    if (files_write(lab, &coldness.files) != 0 || files_settle(lab, &coldness.files) != 0 ||
        begin(lab, points, &coldness) != 0)
        return -1;
    if (points_measure(lab, points, KINDS) != 0)
        return -1;
    put_table(findings, points, bytes);
    put_plot(findings, points);
    explain(findings, points, &coldness);
    points_caution(findings, points, KINDS);
    return 0;
}
