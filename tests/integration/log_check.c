#include "log_check.h"

#include "patience.h"
#include "scratch.h"
#include "tests/test.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t log_count_lines(const struct server *server)
{
    size_t length;
    char *text = scratch_read(server_log(server), &length);
    uint64_t lines = 0;

    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    free(text);
    return lines;
}

char *log_with_lines(const struct server *server, uint64_t lines)
{
    size_t length;

    WAIT_UNTIL(log_count_lines(server) >= lines);
    return scratch_read(server_log(server), &length);
}

void log_check_lines(const char *text, uint64_t count, const char *pattern)
{
    regex_t compiled;
    uint64_t lines = 0;
    const char *end;

    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    for (; *text != '\0'; text = end + 1, lines++) {
        char line[16 * 1024];

        end = strchr(text, '\n');
        assert_non_null(end);
        snprintf(line, sizeof(line), "%.*s", (int)(end - text), text);
        if (regexec(&compiled, line, 0, NULL, 0) != 0)
            fail_msg("malformed line: '%s'", line);
    }
    regfree(&compiled);
    assert_int_equal(lines, count);
}

void log_check_load(const struct server *server, const char *target, size_t body_length,
                    uint64_t responses)
{
    char pattern[512], *text;

    server_expect_metric(server, "requests", responses);
    snprintf(pattern, sizeof(pattern), "%s%s\"GET %s HTTP/1.1\" 200 %zu \"-\" \"-\"$",
             LOG_LINE_START, LOG_LINE_TIME, target, body_length);
    text = log_with_lines(server, responses);
    log_check_lines(text, responses, pattern);
    free(text);
}
