/* Checks of commands before they are sent, and the text of answers. */
#include "common/macros.h"
#include "common/tables.h"
#include "console/data/answers.h"
#include "console/data/commands.h"
#include "tests/test.h"

#include <string.h>

TEST(invalid_commands_are_rejected)
{
    static const struct {
        const char *words[4];
        int count;
        const char *line; /* NULL: rejected, and `why` contains this */
        const char *why;
    } cases[] = {
        {{"ping"}, 1, "ping", NULL},
        {{"threads"}, 1, "threads", NULL},
        {{"threads", "8"}, 2, "threads 8", NULL},
        {{"offload-threads", "2-8"}, 2, "offload-threads 2-8", NULL},
        {{NULL}, 0, NULL, "missing command"},
        {{"thread"}, 1, NULL, "did you mean 'threads'?"},
        {{"STATSU"}, 1, NULL, "did you mean 'status'?"},
        {{"abracadabra"}, 1, NULL, "'help' lists"},
        {{"ping", "x"}, 2, NULL, "'ping' takes no argument, but 1 was given"},
        {{"threads", "1", "2"},
         3,
         NULL,
         "'threads' takes at most 1 argument, but 2 were given; usage: threads [N]"},
        {{"threads", ""}, 2, NULL, "argument 1 of 'threads' is empty or contains a blank"},
        {{"threads", "1\nstop"}, 2, NULL, "argument 1 of 'threads' is empty or contains a blank"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char line[64] = "", why[256] = "";
        int command =
            command_check(cases[i].count, cases[i].words, line, sizeof(line), why, sizeof(why));

        if (cases[i].line != NULL) {
            assert_true(command >= 0);
            assert_string_equal(command_table[command].name, cases[i].words[0]);
            assert_string_equal(line, cases[i].line);
        } else {
            assert_int_equal(command, -1);
            assert_non_null(strstr(why, cases[i].why));
        }
    }
}

TEST(line_that_does_not_fit_is_rejected)
{
    const char *words[] = {"threads", "12345678901234567890"};
    char line[16], why[256];

    assert_int_equal(command_check(2, words, line, sizeof(line), why, sizeof(why)), -1);
    assert_non_null(strstr(why, "longer than 15 bytes"));
}

TEST(answers_are_formatted_as_text)
{
    static const struct {
        const char *command, *line;
        enum answer answer;
        const char *sentence;
    } cases[] = {
        {"threads", "{\"ok\":true,\"wanted\":4,\"actual\":8}", ANSWER_DONE,
         "threads: 4 requested, 8 in force"},
        {"offload-threads", "{\"ok\":true,\"wanted\":\"2-8\",\"actual\":2}", ANSWER_DONE,
         "offload-threads: 2-8 per worker requested, 2 running in total"},
        {"cache-size", "{\"ok\":true,\"wanted\":67108864,\"actual\":33554432,\"used\":23891}",
         ANSWER_DONE,
         "cache-size: 64M per worker requested, 32M in force; the fullest cache uses 23.3 KiB"},
        {"log-level", "{\"ok\":true,\"level\":\"info\"}", ANSWER_DONE, "log-level: level info"},
        {"ping", "{\"ok\":true,\"name\":\"web\",\"pid\":7,\"version\":\"0.2.0\"}", ANSWER_DONE,
         "webserverd 'web' answers: pid 7, version 0.2.0"},
        {"stop", "{\"ok\":true,\"stopping\":true}", ANSWER_DONE,
         "stopping: requests in progress are finished first"},
        {"future", "{\"ok\":true}", ANSWER_DONE, "future: done"},
        {"threads", "{\"ok\":false,\"error\":\"no, too many\"}", ANSWER_REJECTED, "no, too many"},
        {"threads", "{\"ok\":false}", ANSWER_REJECTED,
         "the daemon rejected the command without a reason"},
        {"threads", "{\"ok\":1}", ANSWER_BROKEN, "invalid answer to 'threads': {\"ok\":1}"},
        {"threads", "rubbish", ANSWER_BROKEN, "invalid answer to 'threads': rubbish"},
        {"status", "[]", ANSWER_BROKEN, "invalid answer to 'status': []"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char sentence[256];

        assert_int_equal(
            answer_sentence(cases[i].command, cases[i].line, sentence, sizeof(sentence)),
            cases[i].answer);
        assert_string_equal(sentence, cases[i].sentence);
    }
}

TEST(status_is_formatted_as_table)
{
    static const char line[] =
        "{\"ok\":true,\"name\":\"web\",\"version\":\"0.2.0\",\"pid\":7,\"uptime_s\":3725,"
        "\"listening\":[\"127.0.0.1:8080\",\"[::1]:8080\"],\"model\":\"pool\",\"dispatch\":"
        "\"kernel\","
        "\"logger\":{"
        "\"pid\":9},\"keys\":{\"pid\":0},\"acme\":{\"pid\":10},"
        "\"workers\":{\"wanted\":2,\"actual\":1,\"list\":[{\"slot\":0,\"pid\":8,\"state\":"
        "\"serving\","
        "\"threads\":{\"wanted\":4,\"actual\":3},\"acceptors\":1,\"offload_threads\":2,\"uptime_"
        "s\":60,\"starts\":"
        "1}]},"
        "\"threads\":{\"wanted\":8,\"actual\":3},\"requests_per_s\":571.25,\"latency_ns\":{\"p50\":"
        "20500,\"p90\":158000,\"p99\":1310000,\"max\":4520000},\"queue_wait_ns\":{\"p50\":1000,"
        "\"p90\":2000,\"p99\":3000,\"max\":4000},\"figures\":{\"queue_wait_mean\":1500,\"response_"
        "time_mean\":"
        "23000.5,\"cache_hit_ratio\":0.981,\"responses_2xx\":123000,\"offload_wait_mean\":null,"
        "\"requests_per_core\":52850.6},\"metrics\":{\"requests\":123456,\"responses_200\":123000,"
        "\"responses_404\":436,\"responses_429\":20,\"requests_limited\":20,\"dispatch_pending\":3,"
        "\"connections_queued\":5,\"accept_queue\":7,\"generations_old\":2,\"tls_open\":2,\"tls_"
        "handshakes\":9,\"tls_"
        "failed_version\":1,"
        "\"requests_http2\":6,\"http2_streams\":3,\"cpu_time\":1520000000,\"log_lines\":123455}"
        "}";
    static const char *const lines[] = {
        "webserverd   web, pid 7, version 0.2.0, up 1h 02m\n",
        "listening    127.0.0.1:8080, [::1]:8080\n",
        "model        pool\n",
        "pids         logger 9, acme 10\n\n",
        "              wanted  actual\n",
        "workers            2       1\n",
        "threads each       8       3\n",
        "0               8  serving         3 of 4         1        2   1m 00s       1\n",
        "requests/s   571\n",
        "latency      mean 23.0 us, p50 20.5 us, p90 158 us, p99 1.31 ms, max 4.52 ms\n",
        "queue wait   mean 1.50 us, p50 1.00 us, p90 2.00 us, p99 3.00 us, max 4.00 us\n",
        "statuses     200 123000, 404 436, 429 20\n",
        "requests     123456, keep-alive -, rate-limited 20, aborted -\n",
        "responses    2xx 123000, 3xx -, 4xx -, 5xx -\n",
        "TLS          2, handshakes 9, resumed -, failed: timeout -, failed: version 1, ",
        "HTTP/2       6, accepted -, open -, streams 3, ",
        "waiting      accept queue 7, in the master 3, in threads 5, old gen. 2\n",
        "cache        hit ratio 98.1%, hits -, ",
        "queue full -, mean wait -\n",
        "cores        requests/core 52.9k, switches/request -, CPU time 1.52 s, waits -, ",
        "log          lines 123455, ",
    };
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    assert_int_equal(answer_print("status", line, out), ANSWER_DONE);
    fclose(out);
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++)
        if (strstr(text, lines[i]) == NULL)
            fail_msg("no '%s' in:\n%s", lines[i], text);
}

TEST(malformed_answers_are_read_safely)
{
    static const char *const lines[] = {
        "{\"ok\":true}",
        "{\"ok\":true,\"workers\":7,\"listening\":\"x\",\"metrics\":[],\"commands\":{}}",
        "{\"ok\":true,\"workers\":{\"list\":[1,null,{}]},\"commands\":[1,{\"name\":{}}]}"};

    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++)
        for (int command = 0; command < COMMAND_COUNT; command++) {
            char sentence[128];

            assert_int_equal(
                answer_sentence(command_table[command].name, lines[i], sentence, sizeof(sentence)),
                ANSWER_DONE);
        }
}

TEST(answers_about_threads_show_connections_of_each)
{
    static const struct {
        const char *line, *text;
    } cases[] = {
        {"{\"ok\":true,\"wanted\":2,\"actual\":2,\"connections\":[{\"worker\":0,\"threads\":[50,49]"
         "}]}",
         "threads: 2 in force\nconnections of each thread: 50 49\n"},
        {"{\"ok\":true,\"wanted\":1,\"actual\":1,\"connections\":[{\"worker\":0,\"threads\":[5]},"
         "{\"worker\":2,\"threads\":[4]}]}",
         "threads: 1 in force\nconnections of each thread: worker 0: 5, worker 2: 4\n"},
        {"{\"ok\":true,\"wanted\":1,\"actual\":1}", "threads: 1 in force\n"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char text[256] = "";
        FILE *out = fmemopen(text, sizeof(text), "w");

        answer_print("threads", cases[i].line, out);
        fclose(out);
        assert_string_equal(text, cases[i].text);
    }
}
