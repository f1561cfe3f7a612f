/* Cache eviction: LRU against SIEVE, simulated and in the server. */
#include "loadgen/lab/files.h"
#include "loadgen/lab/rounds.h"
#include "loadgen/lab/trace.h"

#include <math.h>

/*
 * The popularity of one half of the files follows Zipf's law. Scans, such as those of a crawler,
 * request the other half in order, each file once.
 */
enum {
    FILES = 2000,
    POPULAR = FILES / 2,
    FILE_BYTES = 512,
    REQUESTS = 50000,
    REQUESTS_QUICK = 4000,
    REQUESTS_LEAST = 2000, /* for evictions from each cache */
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

static double simulate(const struct study *study, size_t trace, uint32_t room, size_t policy)
{
    return cache_simulate(policies[policy], study->numbers[trace], study->requests, FILES, room);
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
    trace_add_scans(study->numbers[1], study->requests, SCAN_GAP, SCAN_LENGTH, POPULAR, FILES);
    return 0;
}

/*
 * One worker with one thread: a single cache, which sees the requests in the order of the trace. All
 * servers have the files of the first.
 */
static int make_server(struct study *study, size_t size)
{
    struct private_server *server = lab_create_server(study->lab);
    const struct files files = {server, "files", FILES, FILE_BYTES};
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
    const struct files files = {study->server[size], "files", FILES, FILE_BYTES};
    struct point *point = point_of(study, trace, size, policy);

    point_init(study->lab, point, files.server, LAB_SMALL, 1, "%s, %u files, %s", traces[trace],
               real[size], policy_names[policy]);
    snprintf(point->command, sizeof(point->command), "cache-policy %s", policies[policy]->name);
    point->before = empty_cache;
    return files_request(study->lab, &files, point, trace == 0 ? "zipf" : "scans",
                         study->numbers[trace], study->requests);
}

/* The result depends on the order only, so one round is enough. */
static int measure(struct study *study)
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

static void put_plot(struct document *findings, const struct study *study, size_t trace)
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
            document_point(findings, simulated[i], simulate(study, trace, simulated[i], policy));
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

static void put_table(struct document *findings, const struct study *study, size_t trace)
{
    static const char *const heads[] = {"cache size",      "LRU simulated", "LRU server",
                                        "SIEVE simulated", "SIEVE server",  NULL};

    findings_table(findings, traces[trace], heads);
    for (size_t i = 0; i < REAL; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%u files", real[i]);
        for (size_t policy = 0; policy < POLICIES; policy++) {
            document_cell(findings, "%.1f%%", simulate(study, trace, real[i], policy));
            document_cell(findings, "%.1f%%",
                          point_own_median(point_of(study, trace, i, policy), POINT_HITS));
        }
    }
}

/* Reports the largest and the smallest lead of SIEVE over all simulated sizes. */
static void explain(struct document *findings, const struct study *study, size_t trace)
{
    double least = INFINITY, most = -INFINITY;
    uint32_t most_at = 0, least_at = 0;

    for (size_t i = 0; i < SIZES; i++) {
        double lead =
            simulate(study, trace, simulated[i], SIEVE) - simulate(study, trace, simulated[i], LRU);

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

static void compare(struct document *findings, const struct study *study)
{
    double most = 0;

    for (size_t trace = 0; trace < TRACES; trace++)
        for (size_t i = 0; i < REAL; i++)
            for (size_t policy = 0; policy < POLICIES; policy++)
                most = fmax(most,
                            fabs(point_own_median(point_of(study, trace, i, policy), POINT_HITS) -
                                 simulate(study, trace, real[i], policy)));
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
        before[policy] = simulate(study, 0, room, policy);
        after[policy] = simulate(study, 1, room, policy) / rest;
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
        .requests = lab_requests(lab, lab->quick ? REQUESTS_QUICK : REQUESTS, REQUESTS_LEAST),
        .points = points_create(lab, (size_t)TRACES * REAL * POLICIES)};

    lab_progress(lab, "writing files");
    if (study.points == NULL || make_traces(&study) != 0 || measure(&study) != 0)
        return -1;
    for (size_t trace = 0; trace < TRACES; trace++) {
        put_table(findings, &study, trace);
        put_plot(findings, &study, trace);
        explain(findings, &study, trace);
    }
    explain_scans(findings, &study);
    compare(findings, &study);
    return 0;
}
