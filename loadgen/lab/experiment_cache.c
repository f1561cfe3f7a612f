/* The cost of files from the disk, from the kernel's page cache, and from the server's cache. */
#include "loadgen/lab/files.h"
#include "loadgen/lab/rounds.h"

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

static const char *const names[KINDS] = {"cold: from the disk", "warm: in the page cache",
                                         "hot: one file of 1 KiB"};

/* The files, and the highest percentage of them in the page cache at the start of a cold trial. */
struct coldness {
    struct files files;
    double cached; /* percent; NAN: unknown */
};

static int make_cold(struct lab *lab, struct point *point)
{
    struct coldness *coldness = point->context;
    double left;

    if (files_evict(lab, &coldness->files) != 0)
        return -1;
    left = files_cached(&coldness->files);
    coldness->cached = isnan(left) ? left : fmax(left, coldness->cached);
    return 0;
}

/* Loads the files before each warm trial, because a cold trial may have come just before. */
static int make_warm(struct lab *lab, struct point *point)
{
    const struct coldness *coldness = point->context;

    return files_preload(lab, &coldness->files);
}

static void put_table(struct document *findings, const struct point *points, const size_t *bytes)
{
    static const char *const heads[] = {"files",      "requests/s", "mean", "p90",
                                        "server CPU", "bytes/s",    NULL};

    findings_table(findings, "Unique files of 1.25 MiB, and one small file; 10 connections", heads);
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

static void explain(struct document *findings, const struct point *points,
                    const struct coldness *coldness)
{
    struct interval disk = point_rate_ratio(&points[WARM], &points[COLD]);
    struct interval size_warm = point_rate_ratio(&points[HOT], &points[WARM]);
    struct interval size_cold = point_rate_ratio(&points[HOT], &points[COLD]);
    char times[LAB_RATIO], other[LAB_RATIO];

    if (isnan(coldness->cached) || coldness->cached > 5)
        findings_add(findings, FINDINGS_CAUTION,
                     "The cold files were not cold: the kernel did not evict them (TMPDIR may be "
                     "on tmpfs).");
    findings_add(
        findings, FINDINGS_LESSON, "Disk: the same files are %s as fast from the page cache%s",
        lab_times(times, &disk),
        disk.median < 1.2 ? "; this disk is hardly slower than memory, or has its own cache."
                          : ".");
    findings_add(
        findings, FINDINGS_LESSON,
        "Size: the rate of the small file is %s that of the warm files and %s "
        "that of the cold files, mostly because these have %d times the bytes, not because of "
        "a cache.",
        lab_times(times, &size_warm), lab_times(other, &size_cold), BIG_BYTES / LAB_SMALL_BYTES);
    findings_add(findings, FINDINGS_LESSON,
                 "%.0f%% of the requests for the small file were hits in the server's cache. Files "
                 "over 1 MiB are not cached there; the kernel sends them (sendfile).",
                 point_own_median(&points[HOT], POINT_HITS));
}

static int begin(struct lab *lab, struct point *points, struct coldness *coldness)
{
    const struct files *files = &coldness->files;
    uint32_t *numbers = lab_allocate(lab, files->count, sizeof(*numbers));

    if (numbers == NULL)
        return -1;
    for (uint32_t i = 0; i < files->count; i++)
        numbers[i] = i;
    for (size_t i = 0; i < KINDS; i++)
        point_init(lab, &points[i], files->server, LAB_SMALL, CONNECTIONS, "%s", names[i]);
    points[COLD].before = make_cold;
    points[WARM].before = make_warm;
    points[COLD].context = points[WARM].context = coldness;
    return files_request(lab, files, &points[COLD], "cold", numbers, files->count) != 0
               ? -1
               : files_request(lab, files, &points[WARM], "warm", numbers, files->count);
}

int experiment_cache(struct lab *lab, struct document *findings)
{
    static const size_t bytes[KINDS] = {BIG_BYTES, BIG_BYTES, LAB_SMALL_BYTES};
    static const char *const options[] = {"cache.size=10M", NULL};
    struct coldness coldness = {
        .files = {lab_server(lab, options), "big", lab->quick ? FILES_QUICK : FILES, BIG_BYTES}};
    struct point *points = points_create(lab, KINDS);

    if (coldness.files.server == NULL || points == NULL)
        return -1;
    lab_progress(lab, "writing %u files", coldness.files.count);
    if (files_write(lab, &coldness.files) != 0 || files_sync(lab, &coldness.files) != 0 ||
        begin(lab, points, &coldness) != 0)
        return -1;
    if (points_measure(lab, points, KINDS) != 0)
        return -1;
    point_record(lab, &points[COLD], "cold");
    point_record(lab, &points[HOT], "hot");
    put_table(findings, points, bytes);
    points_plot_rounds(findings, "Mean latency by round", true);
    for (size_t i = 0; i < KINDS; i++)
        point_line(findings, &points[i], names[i], MEASURE_MEAN);
    explain(findings, points, &coldness);
    points_add_cautions(findings, points, KINDS);
    return 0;
}
