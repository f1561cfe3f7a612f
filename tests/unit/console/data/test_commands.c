/* Checks of commands before they are sent, and the text of answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "common/tables.h"
#include "console/data/answers.h"
#include "console/data/commands.h"

#include <string.h>

static void invalid_commands_are_rejected(void **state)
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

    (void)state;
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

static void line_that_does_not_fit_is_rejected(void **state)
{
    const char *words[] = {"threads", "12345678901234567890"};
    char line[16], why[256];

    (void)state;
    assert_int_equal(command_check(2, words, line, sizeof(line), why, sizeof(why)), -1);
    assert_non_null(strstr(why, "longer than 15 bytes"));
}

static void answers_are_formatted_as_text(void **state)
{
    static const struct {
        const char *command, *line;
        enum answer answer;
        const char *sentence;
    } cases[] = {
        {"threads", "{\"ok\":true,\"wanted\":4,\"actual\":8}", ANSWER_DONE,
         "threads: wanted 4, actual 8"},
        {"offload-threads", "{\"ok\":true,\"wanted\":\"2-8\",\"actual\":2}", ANSWER_DONE,
         "offload-threads: wanted 2-8 per worker, actual 2 in total"},
        {"cache-size", "{\"ok\":true,\"wanted\":67108864,\"actual\":33554432,\"used\":23891}",
         ANSWER_DONE, "cache-size: wanted 64M, actual 32M per worker, at most 23.3 KiB used"},
        {"log-level", "{\"ok\":true,\"level\":\"info\"}", ANSWER_DONE, "log-level: level info"},
        {"ping", "{\"ok\":true,\"name\":\"web\",\"pid\":7,\"version\":\"0.1.0\"}", ANSWER_DONE,
         "webserverd 'web' answers: pid 7, version 0.1.0"},
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char sentence[256];

        assert_int_equal(
            answer_sentence(cases[i].command, cases[i].line, sentence, sizeof(sentence)),
            cases[i].answer);
        assert_string_equal(sentence, cases[i].sentence);
    }
}

static void status_is_formatted_as_table(void **state)
{
    static const char line[] =
        "{\"ok\":true,\"name\":\"web\",\"version\":\"0.1.0\",\"pid\":7,\"uptime_s\":3725,"
        "\"listening\":[\"127.0.0.1:8080\",\"[::1]:8080\"],\"dispatch\":\"kernel\",\"logger\":{"
        "\"pid\":9},"
        "\"workers\":{\"wanted\":2,\"actual\":1,\"list\":[{\"slot\":0,\"pid\":8,\"state\":"
        "\"serving\","
        "\"threads\":{\"wanted\":4,\"actual\":3},\"offload_threads\":2,\"uptime_s\":60,\"starts\":"
        "1}]},"
        "\"threads\":{\"wanted\":8,\"actual\":3},\"metrics\":{\"requests\":123456,\"log_lines\":"
        "123455}}";
    static const char *const lines[] = {
        "webserverd   web, pid 7, version 0.1.0, up 1h 02m\n",
        "listening    127.0.0.1:8080, [::1]:8080\n",
        "logger       pid 9\n",
        "              wanted  actual\n",
        "workers            2       1\n",
        "threads each       8       3\n",
        "0               8  serving         3 of 4        2   1m 00s       1\n",
        "requests     123456, keep-alive -, cut short -\n",
        "log          lines 123455, ",
    };
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    (void)state;
    assert_int_equal(answer_print("status", line, out), ANSWER_DONE);
    fclose(out);
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++)
        if (strstr(text, lines[i]) == NULL)
            fail_msg("no '%s' in:\n%s", lines[i], text);
}

static void malformed_answers_are_read_safely(void **state)
{
    static const char *const lines[] = {
        "{\"ok\":true}",
        "{\"ok\":true,\"workers\":7,\"listening\":\"x\",\"metrics\":[],\"commands\":{}}",
        "{\"ok\":true,\"workers\":{\"list\":[1,null,{}]},\"commands\":[1,{\"name\":{}}]}"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++)
        for (int command = 0; command < COMMAND_COUNT; command++) {
            char sentence[128];

            assert_int_equal(
                answer_sentence(command_table[command].name, lines[i], sentence, sizeof(sentence)),
                ANSWER_DONE);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_commands_are_rejected),
        cmocka_unit_test(line_that_does_not_fit_is_rejected),
        cmocka_unit_test(answers_are_formatted_as_text),
        cmocka_unit_test(status_is_formatted_as_table),
        cmocka_unit_test(malformed_answers_are_read_safely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
