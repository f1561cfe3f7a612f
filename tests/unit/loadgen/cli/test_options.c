/* The command line: what it sets, what it refuses, and in which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "loadgen/cli/options.h"

#include <stdlib.h>
#include <string.h>

enum { CORES = 4, WORDS_MAX = 100 };

/* Splits LINE at blanks; a word may hold '_' for a blank. */
static int split(char *line, char **words)
{
    int count = 0;

    words[count++] = (char *)"wsload";
    for (char *rest, *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        for (char *at = word; *at != '\0'; at++)
            if (*at == '_')
                *at = ' ';
        words[count++] = word;
    }
    words[count] = NULL;
    return count;
}

static char line_storage[4096];

static enum options_result parse(const char *line, struct plan *plan, char *why, size_t size)
{
    char *words[WORDS_MAX];
    int count;

    snprintf(line_storage, sizeof(line_storage), "%s", line);
    count = split(line_storage, words);
    why[0] = '\0';
    return options_parse(count, words, CORES, plan, why, size);
}

static struct plan good_plan(const char *line)
{
    struct plan plan;
    char why[512];

    if (parse(line, &plan, why, sizeof(why)) != OPTIONS_RUN)
        fail_msg("'%s' was refused: %s", line, why);
    return plan;
}

static void test_defaults(void **state)
{
    struct plan plan = good_plan("");

    (void)state;
    assert_string_equal(plan.urls[0], OPTIONS_DEFAULT_URL);
    assert_string_equal(plan.method, "GET");
    assert_int_equal(plan.header_count, 0);
    assert_int_equal(plan.connections_requested, 50);
    assert_int_equal(plan.connections, 50);
    assert_int_equal(plan.threads, CORES);
    assert_int_equal(plan.requests, 0);
    assert_int_equal(plan.duration_ms, 10000);
    assert_int_equal(plan.timeout_ms, 30000);
    assert_int_equal(plan.connect_timeout_ms, 5000);
    assert_int_equal(plan.grace_ms, 1000);
    assert_true(plan.max_errors == 0);
    assert_true(plan.keepalive);
    assert_int_equal(plan.format, PLAN_FORMAT_TEXT);
    assert_false(plan.quiet || plan.progress_lines);
}

static void test_all_options(void **state)
{
    static const char *const lines[] = {
        "-c 20 -n 50k -d 2m -t 3 -m PUT -H A:_b -H Empty: --no-keepalive --timeout 1.5s "
        "--connect-timeout 200ms --grace 0 --max-errors 0.5% -j --progress --quiet http://a/b",
        "http://a/b --connections=20 --requests=50k --duration=2m --threads=3 --method=PUT "
        "--header=A:_b --header Empty: --disable-keepalive --timeout=1500ms "
        "--connect-timeout=200ms --grace=0s --max-errors=0.5% --json --progress --quiet",
        "-c20 --clients 20 -n50k -z2m -t3 -XPUT -HA:_b -HEmpty: --no-keepalive --timeout 1500ms "
        "--connect-timeout 0.2s --grace 0ms --max-errors .5% -j --progress --quiet -- http://a/b",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        struct plan plan = good_plan(lines[i]);

        assert_string_equal(plan.urls[0], "http://a/b");
        assert_string_equal(plan.method, "PUT");
        assert_int_equal(plan.header_count, 2);
        assert_string_equal(plan.headers[0], "A: b");
        assert_string_equal(plan.headers[1], "Empty:");
        assert_int_equal(plan.connections, 20);
        assert_int_equal(plan.threads, 3);
        assert_int_equal(plan.requests, 50000);
        assert_int_equal(plan.duration_ms, 120000);
        assert_int_equal(plan.timeout_ms, 1500);
        assert_int_equal(plan.connect_timeout_ms, 200);
        assert_int_equal(plan.grace_ms, 0);
        assert_true(plan.max_errors == 0.5);
        assert_false(plan.keepalive);
        assert_int_equal(plan.format, PLAN_FORMAT_JSON);
        assert_true(plan.quiet && plan.progress_lines);
    }
}

static void test_shown(void **state)
{
    struct plan plan = good_plan("-o a.csv -p 50,99.9999");

    (void)state;
    assert_string_equal(plan.output, "a.csv");
    assert_int_equal(plan.format, PLAN_FORMAT_CSV);
    assert_int_equal(plan.percentile_count, 2);
    assert_true(plan.percentiles[0] == 50 && plan.percentiles[1] == 99.9999);
    assert_int_equal(good_plan("-o a.csv --format md").format, PLAN_FORMAT_MD);
    assert_int_equal(good_plan("-o dir.csv/a").format, PLAN_FORMAT_TEXT);
    assert_int_equal(good_plan("--format=hdr").format, PLAN_FORMAT_HDR);
    assert_int_equal(good_plan("-p 1,2 -p 3").percentile_count, 1);
    assert_null(good_plan("-o -").output);
    plan = good_plan("--compare a.json b.json");
    assert_string_equal(plan.compare, "a.json");
    assert_string_equal(plan.urls[0], "b.json");
}

static void test_sweep(void **state)
{
    struct plan plan = good_plan("sweep");

    (void)state;
    assert_int_equal(plan.command, PLAN_SWEEP);
    assert_int_equal(plan.sweep.connections.count, 8);
    assert_int_equal(plan.sweep.connections.value[7], 200);
    assert_int_equal(plan.rounds, 5);
    assert_int_equal(plan.duration_ms, 2000);
    assert_int_equal(plan.warmup_ms, 300);
    assert_int_equal(plan.sweep.keepalive, PLAN_KEEPALIVE_ON);
    plan = good_plan("sweep -c 100,10,1k,10 --keepalive both --server-threads 6,1 "
                     "--server-workers=2 --rounds 3 -w 0 -o a.html http://a/");
    assert_int_equal(plan.sweep.connections.count, 3);
    assert_int_equal(plan.sweep.connections.value[0], 10);
    assert_int_equal(plan.sweep.connections.value[2], 1000);
    assert_int_equal(plan.sweep.keepalive, PLAN_KEEPALIVE_BOTH);
    assert_int_equal(plan.sweep.server_threads.value[0], 1);
    assert_int_equal(plan.sweep.server_workers.value[0], 2);
    assert_int_equal(plan.rounds, 3);
    assert_int_equal(plan.warmup_ms, 0);
    assert_int_equal(plan.format, PLAN_FORMAT_HTML);
    assert_int_equal(good_plan("sweep -n 500").duration_ms, 0);
    assert_int_equal(good_plan("sweep --no-keepalive").sweep.keepalive, PLAN_KEEPALIVE_OFF);
    plan = good_plan("--repeat 7");
    assert_int_equal(plan.command, PLAN_RUN);
    assert_int_equal(plan.rounds, 7);
    assert_int_equal(good_plan("-- sweep").command, PLAN_RUN);
}

/* What one number makes of another. */
static void test_completion(void **state)
{
    struct plan plan = good_plan("-n 10 -c 100");

    (void)state;
    assert_int_equal(plan.connections_requested, 100);
    assert_int_equal(plan.connections, 10);
    assert_int_equal(plan.duration_ms, 0);
    assert_int_equal(good_plan("-c 2 -t 8").threads, 2);
    assert_int_equal(good_plan("-n 1").threads, 1);
    assert_int_equal(good_plan("-n 100 -d 3s").duration_ms, 3000);
    assert_int_equal(good_plan("-c 1 -c 7").connections, 7);
    assert_true(good_plan("--max-errors 0").max_errors == 0);
    assert_true(good_plan("--max-errors 100%").max_errors == 100);
}

/* The load's course and what is good. */
static void test_load_and_checks(void **state)
{
    struct plan plan = good_plan("-r 2k/s --arrivals poisson -w 2s --ramp 1s -n 5 -c 10");

    (void)state;
    assert_true(plan.rate == 2000 && plan.poisson && plan_is_open(&plan));
    assert_int_equal(plan.warmup_ms, 2000);
    assert_int_equal(plan.ramp_ms, 1000);
    assert_int_equal(plan.connections, 10); /* which of them send the five is not known */
    assert_true(good_plan("-q 0.5").rate == 0.5);
    plan = good_plan("--stages 10s:100,30s:1k");
    assert_true(plan.stage_count == 2 && plan.stages[1].value == 1000 && plan_is_open(&plan));
    assert_int_equal(plan.duration_ms, 40000);
    plan = good_plan("--stages 1s:5c,1s:500c -d 9s");
    assert_true(plan.stages_of_connections && !plan_is_open(&plan));
    assert_int_equal(plan.connections, 500);
    assert_int_equal(plan.duration_ms, 9000);
    plan = good_plan("--think 500ms-2s --expect-status 200,304 --expect-size 0 --fail-if p99>20ms");
    assert_true(plan.think_min_ms == 500 && plan.think_max_ms == 2000);
    assert_true(plan.checks.status_count == 2 && plan.checks.statuses[1] == 304);
    assert_true(plan.checks.size_known && plan.checks.size == 0 && plan.fail_if_count == 1);
    plan = good_plan("--expect-sha256 "
                     "ff00000000000000000000000000000000000000000000000000000000000001");
    assert_true(plan.checks.digest_known && plan.checks.digest[0] == 255);
    assert_int_equal(plan.checks.digest[31], 1);
}

/* What is sent, and how it connects. */
static void test_request(void **state)
{
    struct plan plan =
        good_plan("-b x=1 -u me:pw --range 0-9 --gzip --engine raw http://a/ http://b/");

    (void)state;
    assert_string_equal(plan.method, "POST");
    assert_true(plan.engine == PLAN_ENGINE_RAW && plan.url_count == 2 && plan.gzip);
    assert_string_equal(plan.urls[1], "http://b/");
    assert_string_equal(plan.range, "0-9");
    plan = good_plan("--replay log --speed 2x -k -6 --http1.0 --unix-socket /s "
                     "--connect-to a:1:[::1]:2 --max-reqs-per-conn 3");
    assert_string_equal(plan.replay_file, "log");
    assert_true(plan.replay_speed == 2 && plan.insecure && plan.http == PLAN_HTTP_1_0);
    assert_int_equal(plan.duration_ms, 0); /* the log ends */
    assert_int_equal(plan.requests_per_connection, 3);
    assert_int_equal(plan.connect_to_count, 1);
    plan = good_plan("-x socks5://me:pw@h:1080 --interface lo --local-port 20000-20009 -v");
    assert_string_equal(plan.proxy, "socks5://me:pw@h:1080");
    assert_string_equal(plan.interface, "lo");
    assert_true(plan.local_port == 20000 && plan.local_ports == 10 && plan.verbose);
    plan = good_plan("--proxy 127.0.0.1:3128 --local-port 5 --fps 60 --no-tui --no-color");
    assert_string_equal(plan.proxy, "127.0.0.1:3128");
    assert_true(plan.local_port == 5 && plan.local_ports == 1 && plan.frames_per_second == 60);
    assert_true(plan.no_tui && plan.no_color);
}

static const struct {
    const char *line, *why;
} refusals[] = {
    {"-c", "-c needs a value behind it: -c N"},
    {"--header", "--header needs a value behind it: --header 'NAME: VALUE'"},
    {"-c 0", "-c 0: needs a whole number from 1 to 1000000"},
    {"-c many", "-c many: needs a whole number from 1 to 1000000"},
    {"--connections=-3", "--connections -3: needs a whole number from 1 to 1000000"},
    {"-c 2m", "-c 2m: needs a whole number from 1 to 1000000"},
    {"-n 0", "-n 0: needs a number of requests, such as 1000, 50k or 2m"},
    {"-n 1.5", "-n 1.5: needs a number of requests, such as 1000, 50k or 2m"},
    {"-d soon", "-d soon: needs a time, such as 500ms, 30s, 5m or 1h"},
    {"-d 0", "-d 0: needs a time from 1ms to 15 days (360h)"},
    {"-z 361h", "-z 361h: needs a time from 1ms to 15 days (360h)"},
    {"-t 30s", "-t 30s: takes the number of client threads, not a time; say -d 30s for the length "
               "of the run, or --timeout 30s for the longest time of one request"},
    {"-t 0", "-t 0: needs a whole number from 1 to 1024"},
    {"-t x", "-t x: needs a whole number from 1 to 1024"},
    {"-m G(T", "-m 'G(T': is not a request method; say for example GET or HEAD"},
    {"-m CONNECT", "-m CONNECT: asks for a tunnel, which is not load; use another method"},
    {"-H nonsense", "-H 'nonsense': needs a name, a colon and a value: 'Accept: text/html'"},
    {"-H :_x", "-H ': x': needs a name, a colon and a value: 'Accept: text/html'"},
    {"-H A:\r\nB:", "-H: a header field has no line break in it"},
    {"-H content-length:_5",
     "-H 'content-length: 5': is set by wsload itself, which sends no body"},
    {"--no-keepalive=yes", "--no-keepalive takes no value"},
    {"--timeout 0", "--timeout 0: needs a time from 1ms to 15 days (360h)"},
    {"--connect-timeout x", "--connect-timeout x: needs a time, such as 500ms, 30s, 5m or 1h"},
    {"--grace x", "--grace x: needs a time, such as 500ms, 30s, 5m or 1h"},
    {"--max-errors 0.1", "--max-errors 0.1: needs a percentage from 0% to 100%, such as 0.1%"},
    {"--max-errors 101%", "--max-errors 101%: needs a percentage from 0% to 100%, such as 0.1%"},
    {"--max-errors %", "--max-errors %: needs a percentage from 0% to 100%, such as 0.1%"},
    {"-q http://a/", "-q http://a/: takes the rate of all requests, not a URL; say --quiet for no "
                     "live view"},
    {"-d {\"a\":1}", "-d {\"a\":1}: takes the length of the run, such as 30s; a body is sent with "
                     "-b TEXT or --body-file FILE"},
    {"-m 100", "-m '100': is not a request method; say for example GET or HEAD"},
    {"-x ftp://a", "-x 'ftp://a': needs a proxy, such as http://127.0.0.1:3128 or "
                   "socks5://127.0.0.1:1080"},
    {"--proxy http://", "--proxy 'http://': needs a proxy, such as http://127.0.0.1:3128 or "
                        "socks5://127.0.0.1:1080"},
    {"--local-port 0", "--local-port 0: needs a port or a range of them: 20000-29999"},
    {"--local-port 9-8", "--local-port 9-8: needs a port or a range of them: 20000-29999"},
    {"--local-port 1-65536", "--local-port 1-65536: needs a port or a range of them: 20000-29999"},
    {"--fps 0", "--fps 0: needs a number from 1 to 60"},
    {"--fps 61", "--fps 61: needs a number from 1 to 60"},
    {"-o json",
     "-o json: needs the name of a file; say --format json for the format, or -o ./json"},
    {"-duration=30s", "-duration=30s: a long name has two dashes before it: --duration=30s"},
    {"-h2", "-h2 is not an option here: say --http2"},
    {"--latency", "--latency is not an option here: the report gives percentiles and maximum "
                  "anyway; -p chooses which"},
    {"-T text/plain", "-T is not an option here: say it as a header field: -H 'Content-Type: "
                      "application/json'"},
    {"--qps=5", "--qps is not an option here: say -r N: requests a second in all"},
    {"-r 0", "-r 0: needs requests a second, such as 100, 0.5 or 20k"},
    {"-R 10/m", "-R 10/m: needs requests a second, such as 100, 0.5 or 20k"},
    {"-r 5 --arrivals odd", "--arrivals odd: is either constant or poisson"},
    {"--arrivals poisson", "--arrivals poisson needs a rate: -r N"},
    {"--stages 10s", "--stages 10s: needs up to 64 stages of time and rate, such as "
                     "10s:100,30s:1000, or all with connections: 10s:5c,10s:50c"},
    {"--stages 1s:5,1s:5c", "--stages 1s:5,1s:5c: needs up to 64 stages of time and rate, such as "
                            "10s:100,30s:1000, or all with connections: 10s:5c,10s:50c"},
    {"--stages 1s:5 -r 5", "--stages says the load; --rate and --ramp say it too"},
    {"--think 2s-1s", "--think 2s-1s: needs a time, such as 1s, or a range: 500ms-2s"},
    {"--speed 2", "--speed is that of a replay: --replay FILE"},
    {"--think 1s -r 5", "--think is for a closed loop: a rate says when requests are sent"},
    {"--order any", "--order any: is either seq or random"},
    {"--speed 0", "--speed 0: needs a factor above 0, such as 2 or 0.5"},
    {"--replay x -r 5",
     "--replay keeps the times of the log; for another rate say -f FILE --rate N"},
    {"--replay x -w 1s", "--replay says all that is sent, and when: -f, --ramp, --stages and "
                         "--warmup do not go with it"},
    {"-b x --body-file y", "--body and --body-file are two bodies for one request"},
    {"--range all", "--range all: needs bytes, such as 0-99, 500- or -100"},
    {"-u me", "-u: needs a name, a colon and a password"},
    {"--engine go", "--engine go: is either curl or raw"},
    {"--engine raw --http2", "--engine raw speaks HTTP/1 only; leave it out for --http2"},
    {"--max-reqs-per-conn 0", "--max-reqs-per-conn 0: needs a number of requests, such as 100"},
    {"--connect-to a:1", "--connect-to a:1: needs HOST1:PORT1:HOST2:PORT2, each may be empty"},
    {"--cert x", "--cert and --key belong together"},
    {"--expect-status 2xx", "--expect-status 2xx: needs up to 16 statuses, such as 200,304"},
    {"--expect-size 1k", "--expect-size 1k: needs a number of bytes, in digits"},
    {"--expect-sha256 ab", "--expect-sha256 ab: needs 64 hexadecimal digits, as sha256sum prints"},
    {"--fail-if p99",
     "--fail-if: invalid condition 'p99': no < or > (examples: p99>20ms, rate<1000, "
     "errors>0.1%)"},
    {"--abort-on p99>20",
     "--abort-on: invalid condition 'p99>20': no time with a unit after the sign "
     "(examples: p99>20ms, rate<1000, errors>0.1%)"},
    {"--format xml", "--format xml: needs one of text, json, csv, hdr, html, md, png"},
    {"-p 50,100", "-p 50,100: needs up to 16 numbers between 0 and 100, such as 50,95,99.9; a body "
                  "from a file is sent with --body-file"},
    {"-p p99", "-p p99: needs up to 16 numbers between 0 and 100, such as 50,95,99.9; a body from "
               "a file is sent with --body-file"},
    {"--compare a.json b.json -j", "--compare writes text only: leave the format out"},
    {"--compare a.json", "--compare needs two reports: --compare A.json B.json"},
    {"--control-fd 1", "--control-fd 1: needs the number of an open descriptor; 0 is standard "
                       "input"},
    {"-jy", "unknown option -y; wsload -h lists the options"},
    {"--conections 5", "unknown option --conections; did you mean --connections?"},
    {"--keep-alive", "--keep-alive is not an option here: connections are kept alive anyway; "
                     "--no-keepalive turns that off"},
    {"-c 1,2", "-c 1,2: takes one number; several are for a sweep: wsload sweep -c 1,2"},
    {"sweep -c 1,x", "-c 1,x: needs up to 32 whole numbers from 1 to 1000000 with commas between, "
                     "such as 1,2,5"},
    {"--keepalive both",
     "--keepalive is for sweeps (wsload sweep --keepalive both): connections are "
     "kept alive anyway; --no-keepalive turns that off"},
    {"sweep --keepalive x", "--keepalive x: needs on, off or both"},
    {"--server-threads 2", "--server-threads is for sweeps: wsload sweep --server-threads 2"},
    {"sweep -r 5", "a sweep is a closed loop over connections: --rate, --ramp, --stages and "
                   "--replay do not go with it"},
    {"sweep -o a.hgrm", "--format hdr is the distribution of one run; a sweep has text, json, csv, "
                        "html, md and png"},
    {"--repeat 0", "--repeat 0: needs a whole number from 1 to 1000"},
    {"--repeat 2 --control-fd 0", "--control-fd changes one run; --repeat makes several"},
    {"--zzz=1", "unknown option --zzz; wsload -h lists the options"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++) {
        struct plan plan;
        char why[512];
        enum options_result result = parse(refusals[i].line, &plan, why, sizeof(why));

        if (result != OPTIONS_WRONG || strcmp(why, refusals[i].why) != 0)
            fail_msg("'%s' gave %d: %s", refusals[i].line, (int)result, why);
    }
}

static void test_too_many_headers(void **state)
{
    char *words[2 * PLAN_HEADERS_MAX + 4] = {(char *)"wsload"}, why[512];
    struct plan plan;
    int count = 1;

    (void)state;
    for (int i = 0; i < PLAN_HEADERS_MAX; i++) {
        words[count++] = (char *)"-H";
        words[count++] = (char *)"A: b";
    }
    assert_int_equal(options_parse(count, words, 1, &plan, why, sizeof(why)), OPTIONS_RUN);
    words[count++] = (char *)"-HOne: more";
    assert_int_equal(options_parse(count, words, 1, &plan, why, sizeof(why)), OPTIONS_WRONG);
    assert_string_equal(why, "-H 'One: more': more than 64 header fields");
}

static void test_help_and_version(void **state)
{
    struct plan plan;
    char why[512], *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    assert_int_equal(parse("-h", &plan, why, sizeof(why)), OPTIONS_HELP);
    assert_int_equal(parse("-c 5 --help -c wrong", &plan, why, sizeof(why)), OPTIONS_HELP);
    assert_int_equal(parse("-jV", &plan, why, sizeof(why)), OPTIONS_VERSION);
    options_help(out);
    fclose(out);
    assert_non_null(strstr(text, "  -c, --connections N"));
    assert_non_null(strstr(text, "      --max-errors PERCENT"));
    assert_null(strstr(text, "--clients"));
    for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strlen(line) > 80)
            fail_msg("wider than a terminal: %s", line);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all_options),
        cmocka_unit_test(test_shown),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_completion),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_too_many_headers),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_load_and_checks),
        cmocka_unit_test(test_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
