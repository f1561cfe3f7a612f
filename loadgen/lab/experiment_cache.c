/* The cost of files from the disk, from the kernel's page cache, and from the server's cache. */
#include "common/units.h"

#include "loadgen/lab/points.h"
#include "loadgen/lab/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- Numbered files, and lists of their URLs for wsload's -f ---- */

enum { FILES_PATH = 2 * PRIVATE_SERVER_PATH };

struct files {
    struct private_server *server;
    const char *name; /* "/NAME/NUMBER.bin" */
    uint32_t count;
    size_t bytes_each;
};

static int open_numbered_file(const struct files *files, uint32_t number)
{
    char path[FILES_PATH];

    snprintf(path, sizeof(path), "%s/%s/%u.bin", private_server_root(files->server), files->name,
             number);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* These functions return 0, or -1 with WHY. */
static int files_write(struct lab *lab, const struct files *files)
{
    char *bytes = lab_allocate(lab, 1, files->bytes_each), path[64];

    if (bytes == NULL)
        return -1;
    memset(bytes, 'x', files->bytes_each);
    for (uint32_t i = 0; i < files->count; i++) {
        if (lab_is_interrupted(lab))
            return -1;
        snprintf(path, sizeof(path), "/%s/%u.bin", files->name, i);
        if (private_server_put(files->server, path, bytes, files->bytes_each, lab->why,
                               sizeof(lab->why)) != 0)
            return -1;
    }
    return 0;
}

/* Waits until the files are on the disk: the kernel cannot evict dirty pages. */
static int files_sync(struct lab *lab, const struct files *files)
{
    for (uint32_t i = 0; i < files->count; i++) {
        int fd = open_numbered_file(files, i);
        bool good = fd >= 0 && fdatasync(fd) == 0;

        if (fd >= 0)
            close(fd);
        if (!good)
            return lab_fail(lab, "cannot write %s/%u.bin: %s", files->name, i, strerror(errno));
    }
    return 0;
}

/*
 * Makes POINT request the files with the COUNT NUMBERS, in this order, once. Writes their URLs to
 * NAME.list in the server's directory.
 */
static int files_request(struct lab *lab, const struct files *files, struct point *point,
                         const char *name, const uint32_t *numbers, size_t count)
{
    char *path = lab_allocate(lab, 1, FILES_PATH);
    FILE *list;

    if (path == NULL)
        return -1;
    snprintf(path, FILES_PATH, "%s/%s.list", private_server_directory(files->server), name);
    list = fopen(path, "we");
    for (size_t i = 0; list != NULL && i < count; i++)
        fprintf(list, "/%s/%u.bin\n", files->name, numbers[i]);
    if (list == NULL || fclose(list) != 0)
        return lab_fail(lab, "cannot write %s: %s", path, strerror(errno));
    point->plan.urls_file = path;
    point->plan.order = PLAN_ORDER_SEQUENCE;
    point->plan.requests = count;
    point->plan.duration_ms = point->plan.warmup_ms = 0;
    plan_set_connections(&point->plan, point->plan.connections_requested);
    return 0;
}

/* Asks the kernel to evict them from its page cache. */
static int files_evict(struct lab *lab, const struct files *files)
{
    for (uint32_t i = 0; i < files->count; i++) {
        int fd = open_numbered_file(files, i);

        if (fd < 0)
            return lab_fail(lab, "cannot open %s/%u.bin: %s", files->name, i, strerror(errno));
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    return 0;
}

/* Reads them into the page cache. */
static int files_preload(struct lab *lab, const struct files *files)
{
    char part[65536];

    for (uint32_t i = 0; i < files->count; i++) {
        int fd = open_numbered_file(files, i);
        ssize_t got = 1;

        while (fd >= 0 && got > 0)
            got = read(fd, part, sizeof(part));
        if (fd >= 0)
            close(fd);
        if (fd < 0 || got < 0)
            return lab_fail(lab, "cannot read %s/%u.bin: %s", files->name, i, strerror(errno));
    }
    return 0;
}

/*
 * The percentage of files whose first byte is in the page cache; NAN if unknown. Does not load
 * them.
 */
static double files_cached(const struct files *files)
{
    uint32_t cached = 0;

    for (uint32_t i = 0; i < files->count; i++) {
        int fd = open_numbered_file(files, i);
        char byte;
        struct iovec one = {&byte, 1};
        ssize_t got = fd >= 0 ? preadv2(fd, &one, 1, 0, RWF_NOWAIT) : -1;
        bool known = got >= 0 || errno == EAGAIN;

        if (fd >= 0)
            close(fd);
        if (!known)
            return NAN;
        cached += got > 0;
    }
    return files->count > 0 ? 100.0 * cached / files->count : NAN;
}

enum {
    COLD,
    WARM,
    HOT,
    KINDS,
    CACHE_CONNECTIONS = 10,
    BIG_BYTES = 1024 * 1024 + 256 * 1024,
    BIG_FILES = 200,
    BIG_FILES_QUICK = 48,
};

static const char *const cache_kinds[KINDS] = {"cold: from the disk", "warm: in the page cache",
                                               "hot: one file of 1 KiB"};

/* The files, and the highest percentage of them in the page cache at the start of a cold trial. */
struct coldness {
    struct files files;
    double cached; /* percent; NAN: unknown */
};

static int make_cold(struct lab *lab, struct point *point)
{
    struct coldness *coldness = point->before_context;
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
    const struct coldness *coldness = point->before_context;

    return files_preload(lab, &coldness->files);
}

static void put_cache_table(struct document *findings, const struct point *points,
                            const size_t *bytes)
{
    static const char *const heads[] = {"files",      "requests/s", "mean", "p90",
                                        "server CPU", "bytes/s",    NULL};

    findings_table(findings, "Unique files of 1.25 MiB, and one small file; 10 connections", heads);
    for (size_t i = 0; i < KINDS; i++) {
        char text[UNITS_TEXT];
        double rate = point_median(&points[i], MEASURE_RATE);

        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", cache_kinds[i]);
        point_cell_rate(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_MEAN);
        point_cell(findings, &points[i], MEASURE_P90);
        point_cell_cpu(findings, &points[i]);
        document_cell(findings, "%s",
                      units_format_bytes(text, sizeof(text), rate * (double)bytes[i]));
    }
}

static void explain_cache(struct document *findings, const struct point *points,
                          const struct coldness *coldness)
{
    struct interval disk = point_rate_ratio(&points[WARM], &points[COLD]);
    struct interval size_warm = point_rate_ratio(&points[HOT], &points[WARM]);
    struct interval size_cold = point_rate_ratio(&points[HOT], &points[COLD]);
    const struct named_ratio ratios[] = {{"rate, warm over cold", disk},
                                         {"rate, small over warm", size_warm},
                                         {"rate, small over cold", size_cold}};
    char times[LAB_RATIO], other[LAB_RATIO];

    lab_put_ratios(findings, ratios, ARRAY_LENGTH(ratios));
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
        lab_times(times, &size_warm), lab_times_alone(other, &size_cold),
        BIG_BYTES / LAB_SMALL_BYTES);
    findings_add(findings, FINDINGS_LESSON,
                 "%.0f%% of the requests for the small file were hits in the server's cache. Files "
                 "over 1 MiB are not cached there; the kernel sends them (sendfile).",
                 point_own_median(&points[HOT], POINT_HITS));
}

static int begin_cache_points(struct lab *lab, struct point *points, struct coldness *coldness)
{
    const struct files *files = &coldness->files;
    uint32_t *numbers = lab_allocate(lab, files->count, sizeof(*numbers));

    if (numbers == NULL)
        return -1;
    for (uint32_t i = 0; i < files->count; i++)
        numbers[i] = i;
    for (size_t i = 0; i < KINDS; i++)
        point_init(lab, &points[i], files->server, LAB_SMALL, CACHE_CONNECTIONS, "%s",
                   cache_kinds[i]);
    points[COLD].before = make_cold;
    points[WARM].before = make_warm;
    points[COLD].before_context = points[WARM].before_context = coldness;
    return files_request(lab, files, &points[COLD], "cold", numbers, files->count) != 0
               ? -1
               : files_request(lab, files, &points[WARM], "warm", numbers, files->count);
}

int experiment_cache(struct lab *lab, struct document *findings)
{
    static const size_t bytes[KINDS] = {BIG_BYTES, BIG_BYTES, LAB_SMALL_BYTES};
    static const char *const options[] = {"cache.size=10M", NULL};
    struct coldness coldness = {.files = {lab_server(lab, options), "big",
                                          lab->quick ? BIG_FILES_QUICK : BIG_FILES, BIG_BYTES}};
    struct point *points = points_create(lab, KINDS);

    if (coldness.files.server == NULL || points == NULL)
        return -1;
    lab_progress(lab, "writing %u files", coldness.files.count);
    if (files_write(lab, &coldness.files) != 0 || files_sync(lab, &coldness.files) != 0 ||
        begin_cache_points(lab, points, &coldness) != 0)
        return -1;
    if (points_measure(lab, points, KINDS) != 0)
        return -1;
    point_record(lab, &points[COLD], "cold");
    point_record(lab, &points[HOT], "hot");
    put_cache_table(findings, points, bytes);
    points_plot_rounds(findings, "Mean latency by round", true);
    for (size_t i = 0; i < KINDS; i++)
        point_line(findings, &points[i], cache_kinds[i], MEASURE_MEAN);
    explain_cache(findings, points, &coldness);
    points_add_cautions(findings, points, KINDS);
    return 0;
}

/* ---- policy: LRU against SIEVE, simulated and in the server ---- */

/*
 * The popularity of one half of the files follows Zipf's law. Scans, such as those of a crawler,
 * request the other half in order, each file once.
 */
enum {
    POLICY_FILES = 2000,
    POPULAR = POLICY_FILES / 2,
    FILE_BYTES = 512,
    POLICY_REQUESTS = 50000,
    POLICY_REQUESTS_QUICK = 4000,
    POLICY_REQUESTS_LEAST = 2000, /* fewer would not evict from each cache */
    SCAN_GAP = 700,
    SCAN_LENGTH = 300,
    SEED = 2024,
};

#define EXPONENT 0.9

static const char *const traces[] = {"Zipf", "Zipf with scans"};
static const struct cache_policy *const policies[] = {&cache_policy_lru, &cache_policy_sieve};
static const char *const policy_names[] = {"LRU", "SIEVE"};

/* Cache sizes in files: of the simulation, and of the server. */
static const uint32_t simulated[] = {16, 25, 40, 64, 100, 160, 250, 400, 640, 1000};
static const uint32_t real[] = {25, 100, 400};

enum {
    LRU,
    SIEVE,
    POLICIES,
    TRACES = 2,
    SIZES = ARRAY_LENGTH(simulated),
    REAL = ARRAY_LENGTH(real)
};

struct study {
    struct lab *lab;
    uint32_t *numbers[TRACES];
    size_t requests;
    struct private_server *server[REAL];
    struct point *points; /* [trace][size][policy] */
};

static struct point *point_of(const struct study *study, size_t trace, size_t size, size_t policy)
{
    return &study->points[(trace * REAL + size) * POLICIES + policy];
}

static double simulate_policy(const struct study *study, size_t trace, uint32_t room, size_t policy)
{
    return cache_simulate(policies[policy], study->numbers[trace], study->requests, POLICY_FILES,
                          room);
}

/* ---- Traces and servers ---- */

static int make_traces(struct study *study)
{
    for (size_t i = 0; i < TRACES; i++) {
        study->numbers[i] = lab_allocate(study->lab, study->requests, sizeof(uint32_t));
        if (study->numbers[i] == NULL)
            return -1;
        if (trace_zipf(study->numbers[i], study->requests, POPULAR, EXPONENT, SEED) != 0)
            return lab_fail(study->lab, "out of memory");
    }
    trace_add_scans(study->numbers[1], study->requests, SCAN_GAP, SCAN_LENGTH, POPULAR,
                    POLICY_FILES);
    return 0;
}

/*
 * One worker with one thread: a single cache, which sees the requests in the order of the trace.
 * All servers have the files of the first.
 */
static int make_server(struct study *study, size_t size)
{
    struct private_server *server = lab_create_server(study->lab);
    const struct files files = {server, "files", POLICY_FILES, FILE_BYTES};
    char entries[LAB_LABEL], root[PRIVATE_SERVER_PATH + 16];
    const char *const options[] = {
        "workers.processes=1", "workers.threads=1", "cache.revalidate=1h", entries, root, NULL};

    study->server[size] = server;
    if (server == NULL || (size == 0 && files_write(study->lab, &files) != 0))
        return -1;
    snprintf(entries, sizeof(entries), "cache.max_entries=%u", real[size]);
    snprintf(root, sizeof(root), "server.root=%s", private_server_root(study->server[0]));
    return lab_start(study->lab, server, options);
}

/* Empties the cache, because the simulation begins with an empty one. */
static int empty_cache(struct lab *lab, struct point *point)
{
    return lab_command(lab, point->server, "cache-flush");
}

static int begin_point(struct study *study, size_t trace, size_t size, size_t policy)
{
    const struct files files = {study->server[size], "files", POLICY_FILES, FILE_BYTES};
    struct point *point = point_of(study, trace, size, policy);

    point_init(study->lab, point, files.server, LAB_SMALL, 1, "%s, %u files, %s", traces[trace],
               real[size], policy_names[policy]);
    snprintf(point->command, sizeof(point->command), "cache-policy %s", policies[policy]->name);
    point->before = empty_cache;
    return files_request(study->lab, &files, point, trace == 0 ? "zipf" : "scans",
                         study->numbers[trace], study->requests);
}

/* The result depends on the order only, so one round is enough. */
static int measure_policies(struct study *study)
{
    struct lab *lab = study->lab;
    uint32_t rounds = lab->rounds;
    int result;

    for (size_t size = 0; size < REAL; size++)
        if (make_server(study, size) != 0)
            return -1;
    for (size_t trace = 0; trace < TRACES; trace++)
        for (size_t size = 0; size < REAL; size++)
            for (size_t policy = 0; policy < POLICIES; policy++)
                if (begin_point(study, trace, size, policy) != 0)
                    return -1;
    lab->rounds = 1;
    result = points_measure(lab, study->points, (size_t)TRACES * REAL * POLICIES);
    lab->rounds = rounds;
    return result;
}

/* ---- Findings ---- */

static void plot_policy(struct document *findings, const struct study *study, size_t trace)
{
    char title[LAB_TITLE];

    snprintf(title, sizeof(title), "%s: hits by cache size", traces[trace]);
    document_plot(findings, title, (struct plot_axis){true, axis_count},
                  (struct plot_axis){false, axis_percent});
    for (size_t policy = 0; policy < POLICIES; policy++) {
        char name[LAB_LABEL];

        snprintf(name, sizeof(name), "%s, simulated", policy_names[policy]);
        document_line(findings, name, false);
        for (size_t i = 0; i < SIZES; i++)
            document_point(findings, simulated[i],
                           simulate_policy(study, trace, simulated[i], policy));
    }
    for (size_t policy = 0; policy < POLICIES; policy++) {
        char name[LAB_LABEL];

        snprintf(name, sizeof(name), "%s, server", policy_names[policy]);
        document_line(findings, name, false);
        for (size_t i = 0; i < REAL; i++)
            document_point(findings, real[i],
                           point_own_median(point_of(study, trace, i, policy), POINT_HITS));
    }
}

static void put_policy_table(struct document *findings, const struct study *study, size_t trace)
{
    static const char *const heads[] = {"cache size",      "LRU simulated", "LRU server",
                                        "SIEVE simulated", "SIEVE server",  NULL};

    findings_table(findings, traces[trace], heads);
    for (size_t i = 0; i < REAL; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%u files", real[i]);
        for (size_t policy = 0; policy < POLICIES; policy++) {
            document_cell(findings, "%.1f%%", simulate_policy(study, trace, real[i], policy));
            document_cell(findings, "%.1f%%",
                          point_own_median(point_of(study, trace, i, policy), POINT_HITS));
        }
    }
}

/* Reports the largest and the smallest lead of SIEVE over all simulated sizes. */
static void explain_policy(struct document *findings, const struct study *study, size_t trace)
{
    double least = INFINITY, most = -INFINITY;
    uint32_t most_at = 0, least_at = 0;

    for (size_t i = 0; i < SIZES; i++) {
        double lead = simulate_policy(study, trace, simulated[i], SIEVE) -
                      simulate_policy(study, trace, simulated[i], LRU);

        if (lead > most)
            most_at = simulated[i];
        if (lead < least)
            least_at = simulated[i];
        most = fmax(most, lead);
        least = fmin(least, lead);
    }
    findings_add(findings, FINDINGS_LESSON,
                 "%s: SIEVE is at best %.1f percentage points %s LRU (cache of %u files), and at "
                 "worst %.1f %s (%u files).",
                 traces[trace], fabs(most), most >= 0 ? "ahead of" : "behind", most_at, fabs(least),
                 least >= 0 ? "ahead" : "behind", least_at);
}

static void compare_with_simulation(struct document *findings, const struct study *study)
{
    double most = 0;

    for (size_t trace = 0; trace < TRACES; trace++)
        for (size_t i = 0; i < REAL; i++)
            for (size_t policy = 0; policy < POLICIES; policy++)
                most = fmax(most,
                            fabs(point_own_median(point_of(study, trace, i, policy), POINT_HITS) -
                                 simulate_policy(study, trace, real[i], policy)));
    findings_add(findings, FINDINGS_LESSON,
                 "The server's counters and the simulation, which runs the same policy code, "
                 "differ by at most %.1f percentage points.",
                 most);
}

/* Compares the hits outside scans; scans have almost no hits in a small cache. */
static void explain_scans(struct document *findings, const struct study *study)
{
    const double rest = (double)SCAN_GAP / (SCAN_GAP + SCAN_LENGTH);
    const uint32_t room = real[1];
    double before[POLICIES], after[POLICIES];

    for (size_t policy = 0; policy < POLICIES; policy++) {
        before[policy] = simulate_policy(study, 0, room, policy);
        after[policy] = simulate_policy(study, 1, room, policy) / rest;
    }
    findings_add(
        findings, FINDINGS_LESSON,
        "Requests outside scans, cache of %u files: LRU hits %.1f%% without and %.1f%% with scans, "
        "SIEVE %.1f%% and %.1f%%: %s",
        room, before[LRU], after[LRU], before[SIEVE], after[SIEVE],
        before[SIEVE] - after[SIEVE] < before[LRU] - after[LRU]
            ? "SIEVE evicts files that are requested once early; with LRU they evict all others."
            : "here SIEVE does not protect popular files better.");
}

int experiment_policy(struct lab *lab, struct document *findings)
{
    struct study study = {
        .lab = lab,
        .requests = lab_requests(lab, lab->quick ? POLICY_REQUESTS_QUICK : POLICY_REQUESTS,
                                 POLICY_REQUESTS_LEAST),
        .points = points_create(lab, (size_t)TRACES * REAL * POLICIES)};

    lab_progress(lab, "writing files");
    if (study.points == NULL || make_traces(&study) != 0 || measure_policies(&study) != 0)
        return -1;
    for (size_t trace = 0; trace < TRACES; trace++) {
        put_policy_table(findings, &study, trace);
        plot_policy(findings, &study, trace);
        explain_policy(findings, &study, trace);
    }
    explain_scans(findings, &study);
    compare_with_simulation(findings, &study);
    return 0;
}
