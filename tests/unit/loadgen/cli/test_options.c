/* The command line: values, defaults, errors, help. */
#include "common/macros.h"
#include "loadgen/cli/options.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

#define ONE_SOURCE "only one of --scenarios, --har, --replay and -f can be given"

enum { CORES = 4, WORDS_MAX = 100 };

/* Splits LINE at spaces; '_' stands for a space in a word. */
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
        fail_msg("'%s' was rejected: %s", line, why);
    return plan;
}

TEST(empty_command_line_sets_defaults)
{
    struct plan plan = good_plan("");

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

TEST(every_spelling_sets_the_same_plan)
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

TEST(field_connection_close_disables_keep_alive)
{
    static const struct {
        const char *field;
        bool keepalive;
    } cases[] = {{"Connection:_close", false},
                 {"connection:CLOSE", false},
                 {"Connection:_te,_close", false},
                 {"Connection:_close,te", false},
                 {"Connection:_keep-alive", true},
                 {"Connection:_closed", true},
                 {"Connection:", true},
                 {"X-Connection:_close", true}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char line[80];

        snprintf(line, sizeof(line), "-H %s", cases[i].field);
        assert_int_equal(good_plan(line).keepalive, cases[i].keepalive);
    }
    assert_false(good_plan("--no-keepalive -H Connection:_keep-alive").keepalive);
}

TEST(output_options_select_format_and_percentiles)
{
    struct plan plan = good_plan("-o a.csv -p 50,99.9999");

    assert_string_equal(plan.output, "a.csv");
    assert_int_equal(plan.format, PLAN_FORMAT_CSV);
    assert_int_equal(plan.percentile_count, 2);
    assert_true(plan.percentiles[0] == 50 && plan.percentiles[1] == 99.9999);
    assert_int_equal(good_plan("-o a.csv --format hdr").format, PLAN_FORMAT_HDR);
    assert_int_equal(good_plan("-o dir.csv/a").format, PLAN_FORMAT_TEXT);
    assert_int_equal(good_plan("--format=hdr").format, PLAN_FORMAT_HDR);
    assert_int_equal(good_plan("-p 1,2 -p 3").percentile_count, 1);
    assert_null(good_plan("-o -").output);
    plan = good_plan("--compare a.json b.json");
    assert_string_equal(plan.compare, "a.json");
    assert_string_equal(plan.urls[0], "b.json");
}

TEST(find_sets_its_own_defaults)
{
    struct plan plan = good_plan("find p99<20ms --arrivals poisson");

    assert_int_equal(plan.find.what, PLAN_FIND_RATE);
    assert_true(plan.find.condition.limit == 20e6);
    assert_int_equal(plan.connections, 200);
    assert_int_equal(plan.duration_ms, 3000);
    assert_int_equal(plan.warmup_ms, 300);
    plan = good_plan("find --connections -c 64 -d 2s");
    assert_int_equal(plan.find.what, PLAN_FIND_CONNECTIONS);
    assert_int_equal(plan.connections_requested, 64);
    assert_int_equal(plan.duration_ms, 2000);
    plan = good_plan("find --threads -t 1");
    assert_int_equal(plan.find.what, PLAN_FIND_THREADS);
    assert_int_equal(plan.threads_requested, 1);
}

TEST(sweep_sets_its_own_defaults)
{
    struct plan plan = good_plan("sweep");

    assert_int_equal(plan.command, PLAN_SWEEP);
    assert_int_equal(plan.sweep.connections.count, 8);
    assert_int_equal(plan.sweep.connections.value[7], 200);
    assert_int_equal(plan.rounds, 5);
    assert_int_equal(plan.duration_ms, 2000);
    assert_int_equal(plan.warmup_ms, 300);
    assert_int_equal(plan.sweep.keepalive, PLAN_KEEPALIVE_ON);
    plan = good_plan("sweep -c 100,10,1k,10 --keepalive both --server-threads 6,1 "
                     "--server-workers=2 --repeat 3 -w 0 -o a.html http://a/");
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

TEST(dependent_values_are_limited)
{
    struct plan plan = good_plan("-n 10 -c 100");

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

TEST(connection_options_set_the_plan)
{
    struct plan plan = good_plan("--replay log --speed 2x --interface lo --local-port 5");

    assert_true(plan.replay_speed == 2);
    assert_int_equal(plan.duration_ms, 0); /* the log ends the run */
    assert_string_equal(plan.interface, "lo");
    assert_true(plan.local_port == 5 && plan.local_ports == 1);
}

static const struct {
    const char *line, *why;
} rejected[] = {
    {"-c", "-c needs a value: -c N"},
    {"--header", "--header needs a value: --header 'NAME: VALUE'"},
    {"-c 0", "-c 0: invalid number (1-1000000)"},
    {"-c many", "-c many: invalid number (1-1000000)"},
    {"--connections=-3", "--connections -3: invalid number (1-1000000)"},
    {"-c 2m", "-c 2m: invalid number (1-1000000)"},
    {"-n 0", "-n 0: invalid number of requests (examples: 1000, 50k, 2m)"},
    {"-n 1.5", "-n 1.5: invalid number of requests (examples: 1000, 50k, 2m)"},
    {"-d soon", "-d soon: invalid time (examples: 500ms, 30s, 5m, 1h)"},
    {"-d 0", "-d 0: out of range (1ms to 360h)"},
    {"-z 361h", "-z 361h: out of range (1ms to 360h)"},
    {"-t 30s", "-t 30s: not a number of client threads; use -d 30s for the duration of the run or "
               "--timeout 30s for the timeout of a request"},
    {"-t 0", "-t 0: invalid number (1-1024)"},
    {"-t x", "-t x: invalid number (1-1024)"},
    {"-m G(T", "-m 'G(T': invalid request method (examples: GET, HEAD)"},
    {"-m CONNECT", "-m CONNECT: not supported; use another method"},
    {"-H nonsense", "-H 'nonsense': invalid header field (example: 'Accept: text/html')"},
    {"-H :_x", "-H ': x': invalid header field (example: 'Accept: text/html')"},
    {"-H A:\r\nB:", "-H: line break in a header field"},
    {"-H content-length:_5", "-H 'content-length: 5': set by wsload itself"},
    {"--no-keepalive=yes", "--no-keepalive takes no value"},
    {"--timeout 0", "--timeout 0: out of range (1ms to 360h)"},
    {"--connect-timeout x", "--connect-timeout x: invalid time (examples: 500ms, 30s, 5m, 1h)"},
    {"--seed x", "--seed x: invalid seed (0-9007199254740991)"},
    {"--seed 9007199254740992", "--seed 9007199254740992: invalid seed (0-9007199254740991)"},
    {"--wait-for-server x", "--wait-for-server x: invalid time (examples: 500ms, 30s, 5m, 1h)"},
    {"--grace x", "--grace x: invalid time (examples: 500ms, 30s, 5m, 1h)"},
    {"--max-errors 0.1", "--max-errors 0.1: invalid percentage (0%-100%; example: 0.1%)"},
    {"--max-errors 101%", "--max-errors 101%: invalid percentage (0%-100%; example: 0.1%)"},
    {"--max-errors %", "--max-errors %: invalid percentage (0%-100%; example: 0.1%)"},
    {"-q http://a/", "-q http://a/: not a request rate; use --quiet for no live view"},
    {"-d {\"a\":1}",
     "-d {\"a\":1}: not a duration (example: 30s); use -b TEXT or --body-file FILE for a body"},
    {"-m 100", "-m '100': invalid request method (examples: GET, HEAD)"},
    {"-x ftp://a",
     "-x 'ftp://a': invalid proxy (examples: http://127.0.0.1:3128, socks5://127.0.0.1:1080)"},
    {"--proxy http://",
     "--proxy 'http://': invalid proxy (examples: http://127.0.0.1:3128, socks5://127.0.0.1:1080)"},
    {"--local-port 0", "--local-port 0: invalid port or port range (example: 20000-29999)"},
    {"--local-port 9-8", "--local-port 9-8: invalid port or port range (example: 20000-29999)"},
    {"--local-port 1-65536",
     "--local-port 1-65536: invalid port or port range (example: 20000-29999)"},
    {"--no-tui",
     "--no-tui is not an option of wsload: use --quiet for no live view; it is one line in "
     "a small window"},
    {"--fps 5", "--fps is not an option of wsload: the live view has 10 frames per second; use "
                "--quiet for none"},
    {"--no-color", "--no-color is not an option of wsload: set NO_COLOR=1 in the environment"},
    {"--rounds 3", "--rounds is not an option of wsload: use --repeat N"},
    {"-o json", "-o json: needs a file name; use --json for the format or -o ./json"},
    {"-duration=30s", "-duration=30s: a long option needs two dashes: --duration=30s"},
    {"-h2", "-h2 is not an option of wsload: use --http2"},
    {"--latency", "--latency is not an option of wsload: the report always has percentiles and the "
                  "maximum; -p selects percentiles"},
    {"-T text/plain",
     "-T is not an option of wsload: use a header field: -H 'Content-Type: application/json'"},
    {"--qps=5", "--qps is not an option of wsload: use -r N: requests per second"},
    {"-r 0", "-r 0: invalid rate (requests per second; examples: 100, 0.5, 20k)"},
    {"-R 10/m", "-R 10/m: invalid rate (requests per second; examples: 100, 0.5, 20k)"},
    {"-r 5 --arrivals odd", "--arrivals odd: unknown (constant, poisson)"},
    {"--arrivals poisson", "--arrivals poisson requires a rate: -r N"},
    {"--stages 10s",
     "--stages 10s: invalid stages (up to 64; examples: 10s:100,30s:1000 or 10s:5c,10s:50c)"},
    {"--stages 1s:5,1s:5c", "--stages 1s:5,1s:5c: invalid stages (up to 64; examples: "
                            "10s:100,30s:1000 or 10s:5c,10s:50c)"},
    {"--stages 1s:5 -r 5", "--stages conflicts with --rate and --ramp"},
    {"--think 2s-1s", "--think 2s-1s: invalid think time (examples: 1s, 500ms-2s, recorded)"},
    {"--speed 2", "--speed requires --replay FILE or --think recorded"},
    {"--think recorded", "--think recorded requires --har FILE"},
    {"--think recorded --har x -r 5", "--think conflicts with --rate: it applies to closed loops"},
    {"--think recorded --har x --order seq", "--think recorded requires --order each"},
    {"--page-loads", "--page-loads requires --har FILE"},
    {"--page-loads --har x --order seq",
     "--page-loads conflicts with --order, --csv and --think recorded: responses decide when a "
     "request begins"},
    {"--page-loads --har x --cookies",
     "--page-loads conflicts with --cookies: the recording has them"},
    {"--page-loads --har x --engine curl",
     "--page-loads requires --engine raw, the default with it"},
    {"--page-loads --har x --no-keepalive",
     "--page-loads conflicts with --no-keepalive, --max-reqs-per-conn and --http1.0: browsers keep "
     "connections"},
    {"--page-loads --har x --http2 -c 20000",
     "--page-loads with 20000 browsers: more than 1000000 requests at a time"},
    {"--har x --replay y", "--har conflicts with --replay: " ONE_SOURCE},
    {"-f y --har x", "--har conflicts with -f: " ONE_SOURCE},
    {"--replay x -f y", "--replay conflicts with -f: " ONE_SOURCE},
    {"--scenarios x --har y", "--scenarios conflicts with --har: " ONE_SOURCE},
    {"--har x -m PUT",
     "--har conflicts with -m, -b and --body-file: the recording has methods and bodies"},
    {"--har x a b", "--har takes one URL: the server that gets the requests"},
    {"--think 1s -r 5", "--think conflicts with --rate: it applies to closed loops"},
    {"--order any", "--order any: unknown (seq, random, each, once)"},
    {"--order once -w 1s", "--order once conflicts with --warmup, which would use it up"},
    {"--replay x --order random", "--replay conflicts with --order: the log has times"},
    {"--speed 0", "--speed 0: invalid factor (examples: 2, 0.5)"},
    {"--replay x -r 5", "--replay conflicts with --rate; use -f FILE --rate N"},
    {"--replay x -w 1s", "--replay conflicts with --ramp, --stages and --warmup"},
    {"-b @x.json", "-b @x.json: use --body-file x.json for the contents of a file"},
    {"--body @", "--body @: use --body-file FILE for the contents of a file"},
    {"run x.js", "'run' is not a command: wsload [option ...] URL; a host of that name is "
                 "http://run/"},
    {"-b x --body-file y", "--body conflicts with --body-file"},
    {"--range all", "--range all: invalid byte range (examples: 0-99, 500-, -100)"},
    {"-u me", "-u: needs NAME:PASS"},
    {"--engine go", "--engine go: unknown (curl, raw)"},
    {"--fail-if p99>1.1x",
     "a condition on a multiple, such as p99>1.1x, requires --baseline A.json"},
    {"--streams 10", "--streams requires --http2"},
    {"--streams 1001 --http2", "--streams 1001: invalid number (1-1000)"},
    {"--streams 10 --http2 --no-keepalive",
     "--streams conflicts with --no-keepalive and --max-reqs-per-conn"},
    {"--streams 1000 --http2 -c 1001",
     "--streams 1000 with 1001 connections: more than 1000000 streams"},
    {"--tls-max 1.1", "--tls-max 1.1: unknown (1.2, 1.3)"},
    {"--max-reqs-per-conn 0", "--max-reqs-per-conn 0: invalid number of requests (example: 100)"},
    {"--connect-to a:1",
     "--connect-to a:1: invalid mapping (HOST1:PORT1:HOST2:PORT2; parts may be empty)"},
    {"--cert x", "--cert requires --key and vice versa"},
    {"--expect-status 2xx", "--expect-status 2xx: invalid statuses (up to 16; example: 200,304)"},
    {"--expect-size 1k", "--expect-size 1k: invalid number of bytes"},
    {"--expect-sha256 ab", "--expect-sha256 ab: invalid SHA-256 (64 hexadecimal digits)"},
    {"--fail-if p99",
     "--fail-if: invalid condition 'p99': no < or > (examples: p99>20ms, rate<1000, errors>0.1%)"},
    {"--abort-on p99>20", "--abort-on: invalid condition 'p99>20': no time with a unit after the "
                          "operator (examples: p99>20ms, rate<1000, errors>0.1%)"},
    {"--format xml", "--format xml: unknown format (text, csv, hdr, html, junit)"},
    {"--format json", "--format json: use --json (-j)"},
    {"-p 50,100", "-p 50,100: invalid percentiles (up to 16 between 0 and 100; example: "
                  "50,95,99.9); use --body-file for a body"},
    {"-p p99", "-p p99: invalid percentiles (up to 16 between 0 and 100; example: 50,95,99.9); use "
               "--body-file for a body"},
    {"--compare a.json b.json -j", "--compare supports text only"},
    {"--compare a.json", "--compare needs two reports: --compare A.json B.json"},
    {"--control-fd 1", "--control-fd 1: invalid descriptor (0 is standard input)"},
    {"-jy", "unknown option -y; see wsload -h"},
    {"--conections 5", "unknown option --conections; did you mean --connections?"},
    {"--keep-alive", "--keep-alive is not an option of wsload: keep-alive is the default; "
                     "--no-keepalive disables it"},
    {"-c 1,2", "-c 1,2: takes one number; a list needs a sweep: wsload sweep -c 1,2"},
    {"sweep -c 1,x", "-c 1,x: invalid list of numbers (up to 32, 1-1000000; example: 1,2,5)"},
    {"--keepalive both", "--keepalive applies to sweeps (wsload sweep --keepalive both): "
                         "keep-alive is the default; --no-keepalive disables it"},
    {"find",
     "find needs a condition, --connections or --threads (example: wsload find 'p99 < 20ms')"},
    {"find p99>20ms", "find p99>20ms: the condition must be one that a lower rate meets (examples: "
                      "'p99 < 20ms', 'errors < 0.1%')"},
    {"find p99<1.1x", "find p99<1.1x: needs a limit, not a multiple"},
    {"find p99<20", "find: invalid condition 'p99<20': no time with a unit after the operator "
                    "(examples: p99>20ms, rate<1000, errors>0.1%)"},
    {"find --connections p99<1s",
     "p99<1s: find takes one of a condition, --connections and --threads"},
    {"find --threads=5", "--threads takes no value: that of find is -c or -t"},
    {"find p99<1s -r 5",
     "find conflicts with --rate, --ramp, --stages and --replay: it varies the load"},
    {"find p99<1s -n 5", "find conflicts with -n and --repeat: each trial has the time of -d"},
    {"find p99<1s -o a.xml", "--format junit is not available for find (text, json, csv, html)"},
    {"--zipf 1 --order seq -f a", "--zipf conflicts with --order, --har, --replay and --scenarios: "
                                  "it is a random order of a list"},
    {"--zipf 1 http://a/", "--zipf needs a list of requests: -f FILE, or several URLs"},
    {"--zipf x", "--zipf x: invalid exponent (above 0, up to 10; examples: 0.8, 1)"},
    {"--idle 5 --http2", "hostile clients (--slow-head and others) speak HTTP/1.1 only"},
    {"--log a.csv --repeat 2", "--log conflicts with --repeat, sweep and find: it is of one run"},
    {"--metrics 9100",
     "--metrics 9100: invalid address (examples: 127.0.0.1:9100, [::1]:9100, :9100)"},
    {"--start-at noon", "--start-at noon: invalid time (examples: 14:30:00, 2026-11-28T14:30:00Z, "
                        "Unix seconds)"},
    {"--start-at 1000000000", "--start-at 1000000000: is in the past"},
    {"merge", "merge needs two reports or more: wsload merge A.json B.json"},
    {"merge a.json", "merge needs two reports or more: wsload merge A.json B.json"},
    {"merge a.json b.json -c 5", "-c conflicts with merge, which sends no requests"},
    {"merge a.json b.json -o b.json", "-o b.json would overwrite a report that is merged"},
    {"sweep --keepalive x", "--keepalive x: unknown (on, off, both)"},
    {"--server-threads 2", "--server-threads applies to sweeps: wsload sweep --server-threads 2"},
    {"--cookies -H cookie:a=b", "--cookies conflicts with -H 'cookie:a=b': the server sets them"},
    {"--rows once", "--rows requires --csv FILE; for a list use --order"},
    {"--rows any --csv x", "--rows any: unknown (seq, random, once)"},
    {"--csv x --replay y", "--csv conflicts with --replay: a log has no variables"},
    {"--csv x --rows once -w 1s", "--rows once conflicts with --warmup, which would use it up"},
    {"--csv x --rows random --order once", "--order once conflicts with --rows seq and random"},
    {"--csv x --rows once --order each -r 5",
     "--rows once with --order each conflicts with --rate: a connection without a row would leave "
     "requests unsent"},
    {"sweep --csv x --rows once", "a sweep conflicts with --rows once: each point needs requests"},
    {"sweep --order once", "a sweep conflicts with --order once: each point needs requests"},
    {"sweep -r 5",
     "a sweep conflicts with --rate, --ramp, --stages and --replay: it is a closed loop"},
    {"sweep -o a.hgrm", "--format hdr is not available for sweeps (text, json, csv, html)"},
    {"--repeat 0", "--repeat 0: invalid number (1-1000)"},
    {"--repeat 2 --control-fd 0", "--control-fd conflicts with --repeat"},
    {"--zzz=1", "unknown option --zzz; see wsload -h"},
};

TEST(invalid_option_is_rejected_with_reason)
{
    for (size_t i = 0; i < ARRAY_LENGTH(rejected); i++) {
        struct plan plan;
        char why[512];
        enum options_result result = parse(rejected[i].line, &plan, why, sizeof(why));

        if (result != OPTIONS_WRONG || strcmp(why, rejected[i].why) != 0)
            fail_msg("'%s' gave %d: %s", rejected[i].line, (int)result, why);
    }
}

TEST(header_beyond_limit_is_rejected)
{
    char *words[2 * PLAN_HEADERS_MAX + 4] = {(char *)"wsload"}, why[512];
    struct plan plan;
    int count = 1;

    for (int i = 0; i < PLAN_HEADERS_MAX; i++) {
        words[count++] = (char *)"-H";
        words[count++] = (char *)"A: b";
    }
    assert_int_equal(options_parse(count, words, 1, &plan, why, sizeof(why)), OPTIONS_RUN);
    words[count++] = (char *)"-HOne: more";
    assert_int_equal(options_parse(count, words, 1, &plan, why, sizeof(why)), OPTIONS_WRONG);
    assert_string_equal(why, "-H 'One: more': more than 64 header fields");
}

TEST(help_fits_80_columns_and_hides_aliases)
{
    struct plan plan;
    char why[512], *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_int_equal(parse("-h", &plan, why, sizeof(why)), OPTIONS_HELP);
    assert_int_equal(parse("help", &plan, why, sizeof(why)), OPTIONS_HELP);
    assert_int_equal(parse("help all", &plan, why, sizeof(why)), OPTIONS_HELP_ALL);
    assert_int_equal(parse("-c 5 --help all", &plan, why, sizeof(why)), OPTIONS_HELP_ALL);
    assert_int_equal(parse("-c 5 --help -c wrong", &plan, why, sizeof(why)), OPTIONS_HELP);
    assert_int_equal(parse("-jV", &plan, why, sizeof(why)), OPTIONS_VERSION);
    options_help(out, false);
    fflush(out);
    assert_non_null(strstr(text, "  -c, --connections N"));
    assert_null(strstr(text, "--max-errors"));
    options_help(out, true);
    fclose(out);
    assert_non_null(strstr(text, "  -c, --connections N"));
    assert_non_null(strstr(text, "      --max-errors PERCENT"));
    assert_null(strstr(text, "--clients"));
    for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strlen(line) > 80)
            fail_msg("wider than a terminal: %s", line);
    free(text);
}
