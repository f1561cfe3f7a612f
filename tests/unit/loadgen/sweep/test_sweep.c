/* The points of a sweep, its conclusions and its reports. */
#include "common/macros.h"
#include "tests/test.h"
#include "tests/unit/loadgen/sweep_results.h"

#include <stdlib.h>

#define LOADS "-c 1,2,5,10,20,50,100,200 "

/* A server with contention, on a machine with idle cores. */
static struct invented contention(void)
{
    return (struct invented){.law = {.lambda = 1000, .sigma = 0.05},
                             .ripple = 0.01,
                             .client_percent = 30,
                             .server_cores = 0.5,
                             .machine_percent = 40,
                             .cores = 4,
                             .server = {1, 4},
                             .rounds_done = 5};
}

static const char *finding(const struct sweep_curve *curve, const char *name)
{
    for (size_t i = 0; i < curve->finding_count; i++)
        if (strcmp(curve->finding[i].name, name) == 0)
            return curve->finding[i].text;
    return NULL;
}

TEST(points_are_all_combinations)
{
    const struct invented nothing = {.cores = 1};
    struct sweep *sweep = invent_sweep(
        &nothing,
        "-c 100,10,10,1k --keepalive both --server-threads 6,1 --server-workers 1,2 -t 20");

    assert_int_equal(sweep->curve_count, 8);
    assert_int_equal(sweep->point_count, 24);
    assert_string_equal(sweep->curves[0].name, "keep-alive, 1 worker x 1 thread");
    assert_string_equal(sweep->curves[1].name, "keep-alive, 1 worker x 6 threads");
    assert_string_equal(sweep->curves[7].name, "connection per request, 2 workers x 6 threads");
    assert_string_equal(sweep->points[5].name,
                        "1000 connections, keep-alive, 1 worker x 6 threads");
    assert_int_equal(sweep->points[0].plan.connections, 10);
    assert_int_equal(sweep->points[0].plan.threads, 10);
    assert_int_equal(sweep->points[1].plan.threads, 20);
    assert_true(sweep->points[11].plan.keepalive);
    assert_false(sweep->points[12].plan.keepalive);
    assert_int_equal(sweep->curves[0].measured, 0);
    assert_int_equal(sweep->curves[0].finding_count, 0);
    sweep_free(sweep);
}

struct limit_case {
    const char *name;
    double client_percent, server_cores, machine_percent, kappa;
    enum sweep_limit limit;
    const char *text; /* part of the finding */
};

static const struct limit_case limit_cases[] = {
    {"client", 90, 3, 99, 0, SWEEP_LIMIT_CLIENT,
     "The client is the limit: each of its threads used 90 %"},
    {"threads", 30, 1.9, 70, 0, SWEEP_LIMIT_SERVER_THREADS,
     "The server's threads are the limit: its 2 threads kept 1.90 cores busy at the maximum, and "
     "this machine has 4 cores. More threads may increase the throughput."},
    {"machine", 60, 1.5, 97, 0, SWEEP_LIMIT_MACHINE,
     "(server 1.50, client 2.40, other programs and interrupts 0.00)"},
    {"contention", 30, 0.2, 40, 0, SWEEP_LIMIT_CONTENTION, "Contention is the limit"},
    {"coherency", 30, 0.2, 40, 0.01, SWEEP_LIMIT_COHERENCY, "Coherency is the limit"},
    {"contention, unknown server", 30, NAN, NAN, 0, SWEEP_LIMIT_CONTENTION,
     "Contention is the limit"},
};

TEST(limit_is_found_from_cpu_times_and_law)
{
    for (size_t i = 0; i < ARRAY_LENGTH(limit_cases); i++) {
        const struct limit_case *c = &limit_cases[i];
        struct invented invented = contention();
        struct sweep *sweep;
        const char *text;

        invented.client_percent = c->client_percent;
        invented.server_cores = c->server_cores;
        invented.machine_percent = c->machine_percent;
        invented.law.kappa = c->kappa;
        invented.server.threads_per_worker = 2;
        sweep = invent_sweep(&invented, LOADS);
        text = finding(sweep->curves, "limit");
        if (sweep->curves[0].limit != c->limit || text == NULL || strstr(text, c->text) == NULL)
            fail_msg("%s: %d, %s", c->name, (int)sweep->curves[0].limit, text);
        sweep_free(sweep);
    }
}

/* The server uses all cores: more threads would not help. */
TEST(busy_server_on_all_cores_is_limited_by_cpu)
{
    struct invented invented = contention();
    struct sweep *sweep;

    invented.server_cores = 3.8;
    sweep = invent_sweep(&invented, LOADS);
    assert_int_equal(sweep->curves[0].limit, SWEEP_LIMIT_SERVER_CPU);
    sweep_free(sweep);
}

TEST(growing_throughput_has_no_knee_and_no_limit)
{
    struct invented invented = contention();
    struct sweep *sweep;

    invented.law.sigma = 0;
    sweep = invent_sweep(&invented, LOADS);
    assert_int_equal(sweep->curves[0].limit, SWEEP_LIMIT_NOT_REACHED);
    assert_string_equal(
        finding(sweep->curves, "no_knee"),
        "No knee: the throughput still grows at 200 connections. Extend the sweep to "
        "more connections.");
    assert_null(finding(sweep->curves, "knee"));
    assert_null(finding(sweep->curves, "limit"));
    sweep_free(sweep);
}

TEST(client_limit_and_noise_suppress_conclusions)
{
    struct invented invented = contention();
    struct sweep *sweep;

    invented.client_percent = 90;
    sweep = invent_sweep(&invented, LOADS);
    assert_false(sweep->curves[0].has_usl);
    assert_non_null(strstr(finding(sweep->curves, "client_bound"), "limit at 8 of 8 points"));
    sweep_free(sweep);
    invented = contention();
    invented.ripple = 0.6;
    sweep = invent_sweep(&invented, LOADS);
    assert_non_null(finding(sweep->curves, "noisy"));
    assert_non_null(finding(sweep->curves, "best"));
    assert_null(finding(sweep->curves, "knee"));
    assert_null(finding(sweep->curves, "usl"));
    assert_int_equal(sweep->curves[0].points[0].zone, ZONE_UNKNOWN);
    sweep_free(sweep);
}

/*
 * With contention 0.05, 67.6 connections have 90 % of the rate of 200 connections, so the plateau
 * begins at the point of 100.
 */
static const char whole_text[] =
    "Sweep of GET http://a/\n"
    "8 points of 2s in 5 interleaved rounds; engine curl, up to 4 threads\n"
    "\n"
    "Keep-alive, 1 worker x 4 threads\n"
    "  Connections requests/s    +-     p50     p99  errors  client machine     zone\n"
    "            1      1,000  1.0%  900 us 3.00 ms      0%     30%     40%   linear\n"
    "            2      1,905  1.0%  945 us 3.15 ms      0%     30%     40%   linear\n"
    "            5      4,167  1.0% 1.08 ms 3.60 ms      0%     30%     40%   linear\n"
    "           10      6,897  1.0% 1.30 ms 4.35 ms      0%     30%     40%   linear\n"
    "           20     10,256  1.0% 1.76 ms 5.85 ms      0%     30%     40%   linear\n"
    "           50     14,493  1.0% 3.11 ms 10.4 ms      0%     30%     40%   linear\n"
    "          100     16,807  1.0% 5.36 ms 17.9 ms      0%     30%     40%  plateau\n"
    "          200     18,265  1.0% 9.86 ms 32.9 ms      0%     30%     40%  plateau\n"
    "  - Maximum: 18,265 requests/s with 200 connections (95 % confidence: 18,086 to\n"
    "    18,444); p99 there is 32.9 ms.\n"
    "  - The knee is at about 18 connections: below it the throughput grows (linear);\n"
    "    above it additional connections mostly add waiting time (plateau from 100\n"
    "    on).\n"
    "  - Universal Scalability Law: contention sigma 0.05, coherency kappa 0; mean\n"
    "    error of the fit over 8 points: 0.0 %. It predicts at most 20,000 requests/s\n"
    "    for any number of connections.\n"
    "  - Contention is the limit: requests wait for a shared resource (a lock, a\n"
    "    core, a disk, the network), and the cores were not all busy.\n";

static char *write_report(const struct sweep *sweep)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_int_equal(sweep_report(out, sweep, false), 0);
    fclose(out);
    return text;
}

TEST(text_report_is_exact)
{
    const struct invented invented = contention();
    struct sweep *sweep = invent_sweep(&invented, LOADS "http://a/");
    char *text = write_report(sweep);

    assert_string_equal(text, whole_text);
    free(text);
    sweep_free(sweep);
}

TEST(csv_rows_have_equal_columns)
{
    struct invented invented = contention();
    struct sweep *sweep;
    char *text, *rest = NULL;
    size_t lines = 0, commas = 0;

    invented.rounds_done = 3;
    sweep = invent_sweep(&invented, LOADS "--keepalive both --format csv --repeat 3");
    text = write_report(sweep);
    assert_non_null(strstr(text, "\nmedian,,on,1,4,1,1000,1000,900,1500,3000,,10000,0,30,5,0.5,40,"
                                 "linear,no\n"));
    assert_non_null(strstr(text, "\nround,2,off,1,4,200,18447.5,"));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        size_t row_commas = 0;

        for (const char *at = line; *at != '\0'; at++)
            row_commas += *at == ',';
        if (lines++ == 0)
            commas = row_commas;
        assert_int_equal(row_commas, commas);
    }
    assert_int_equal(lines, 1 + 16 * (3 + 3));
    free(text);
    sweep_free(sweep);
}

TEST(formats_escape_url_and_contain_findings)
{
    static const struct {
        const char *format, *url, *knee;
    } formats[] = {
        {"--format html", "http://a/&lt;b&gt;", "<li>The knee is at about 18 connections"},
        {"--json", "http://a/<b>", "\"text\": \"The knee is at about 18 connections"},
    };
    const struct invented invented = contention();

    for (size_t i = 0; i < ARRAY_LENGTH(formats); i++) {
        char line[128], *text;
        struct sweep *sweep;

        snprintf(line, sizeof(line), LOADS "--keepalive both %s http://a/<b>", formats[i].format);
        sweep = invent_sweep(&invented, line);
        text = write_report(sweep);
        assert_non_null(strstr(text, formats[i].url));
        assert_non_null(strstr(text, formats[i].knee));
        assert_non_null(strstr(text, "All curves have the same maximum rate: "));
        assert_null(strstr(text, "the worst"));
        free(text);
        sweep_free(sweep);
    }
}

TEST(best_curve_is_named_only_if_intervals_do_not_overlap)
{
    static const struct {
        double closing;
        const char *text;
    } cases[] = {
        {0.999, "The curves cannot be told apart: their maxima are 18,247 to 18,265 requests/s"},
        {0.5, "Best curve: keep-alive, 1 worker x 4 threads, with 18,265 requests/s, 2.00 times"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct invented invented = contention();
        struct sweep *sweep;
        char *text;

        invented.closing = cases[i].closing;
        sweep = invent_sweep(&invented, LOADS "--keepalive both --json http://a/");
        text = write_report(sweep);
        assert_non_null(strstr(text, cases[i].text));
        free(text);
        sweep_free(sweep);
    }
}

TEST(interrupted_sweep_reports_what_was_measured)
{
    struct invented invented = contention();
    struct sweep *sweep;
    char *text;

    invented.rounds_done = 1;
    invented.end = TRIALS_INTERRUPTED;
    sweep = invent_sweep(&invented, "-c 1,10,100 --keepalive both");
    text = write_report(sweep);
    assert_non_null(strstr(text, "Interrupted after 6 of 30 runs"));
    assert_non_null(strstr(text, "            1      1,000     -"));
    free(text);
    sweep_free(sweep);
}
