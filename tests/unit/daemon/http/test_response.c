/*
 * Prepared response prefixes equal those formatted directly; error pages name the status. Header
 * blocks without the dynamic table, byte by byte: examples are from RFC 7541 appendix C.
 */
#include "common/macros.h"
#include "daemon/http/response.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int statuses[] = {
#define HTTP_STATUS(code, name, reason) code,
#include "common/http_status.def"
#undef HTTP_STATUS
    299, /* not in the list */
};

static const char *const fields[] = {
    [PREFIX_DEFAULT] = "",
    [PREFIX_KEEP_ALIVE] = "Connection: keep-alive\r\n",
    [PREFIX_CLOSE] = "Connection: close\r\n",
};

/* The same fields as a header block. */
static void assert_block(const char *block, size_t length, int status, const char *server,
                         const char *date)
{
    char lines[RESPONSE_PREFIX_MAX], expected[RESPONSE_PREFIX_MAX], *end;
    int lines_length =
        snprintf(lines, sizeof(lines), "%sDate: %.*s\r\n", server, HTTP_DATE_BYTES, date);

    end = hpack_put_status(expected, status);
    end = hpack_put_lines(end, (struct span){lines, (size_t)lines_length});
    assert_int_equal(length, end - expected);
    assert_memory_equal(block, expected, length);
}

static void assert_prefix(struct response_prefixes *prefixes, int status, enum prefix_form form,
                          const char *server)
{
    char text[RESPONSE_PREFIX_MAX + 1], expected[400], date[HTTP_DATE_BYTES];
    size_t length = response_prefix(prefixes, status, form, text);

    http_date_write(prefixes->second, date);
    if (form == PREFIX_HPACK) {
        assert_block(text, length, status, server, date);
        return;
    }
    snprintf(expected, sizeof(expected), "HTTP/1.1 %d %s\r\n%sDate: %.*s\r\n%s", status,
             response_reason(status), server, HTTP_DATE_BYTES, date, fields[form]);
    text[length] = '\0';
    assert_string_equal(text, expected);
}

TEST(prefixes_are_current_in_every_second)
{
    static const int64_t seconds[] = {1, 1795241910, 1795241911, 1795241911, 5};
    static const struct {
        const char *set, *field;
    } servers[] = {{NULL, "Server: webserverd\r\n"}, {"", ""}, {"house", "Server: house\r\n"}};

    for (size_t s = 0; s < ARRAY_LENGTH(servers); s++) {
        struct response_prefixes *prefixes = calloc(1, sizeof(*prefixes));

        assert_non_null(prefixes);
        prefixes->server = servers[s].set;
        for (size_t t = 0; t < ARRAY_LENGTH(seconds); t++) {
            response_prefixes_update(prefixes, seconds[t]);
            for (size_t i = 0; i < 2 * ARRAY_LENGTH(statuses); i++) /* each twice */
                for (int form = 0; form < PREFIX_FORMS; form++)
                    assert_prefix(prefixes, statuses[i % ARRAY_LENGTH(statuses)],
                                  (enum prefix_form)form, servers[s].field);
        }
        free(prefixes);
    }
}

TEST(error_pages_name_the_status)
{
    for (size_t i = 0; i + 1 < ARRAY_LENGTH(statuses); i++) {
        struct span page = response_error_page(statuses[i]);
        char expected[400];

        snprintf(expected, sizeof(expected),
                 "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
                 "<meta name=\"viewport\" content=\"width=device-width\">"
                 "<meta name=\"color-scheme\" content=\"light dark\">"
                 "<title>%d %s</title></head>\n<body><h1>%d %s</h1></body>\n</html>\n",
                 statuses[i], response_reason(statuses[i]), statuses[i],
                 response_reason(statuses[i]));
        assert_int_equal(page.length, strlen(expected));
        assert_memory_equal(page.start, expected, page.length);
    }
}

TEST(status_is_indexed_or_literal)
{
    static const struct {
        int status;
        const char *block;
    } cases[] = {
        {200, "\x88"},
        {204, "\x89"},
        {206, "\x8a"},
        {304, "\x8b"},
        {400, "\x8c"},
        {404, "\x8d"},
        {500, "\x8e"},
        {301, "\x08\x03"
              "301"},
        {431, "\x08\x03"
              "431"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char block[HPACK_STATUS_MAX];
        size_t length = (size_t)(hpack_put_status(block, cases[i].status) - block);

        assert_int_equal(length, strlen(cases[i].block));
        assert_memory_equal(block, cases[i].block, length);
    }
}

TEST(lines_become_literals_with_lower_case_names)
{
    static const struct {
        const char *lines;
        struct span block;
    } cases[] = {
        {"", {"", 0}},
        {"Allow: GET\r\n", SPAN("\x0f\x07\x03GET")},
        {"accept-charset: x\r\n", SPAN("\x0f\x00\x01x")},
        {"WWW-Authenticate: x\r\n", SPAN("\x0f\x2e\x01x")},
        {"X-Custom: \r\n", SPAN("\x00\x08x-custom\x00")},
        {"Vary: a:b\r\nAge: 1\r\n", SPAN("\x0f\x2c\x03"
                                         "a:b\x0f\x06\x01"
                                         "1")},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char block[64];
        struct span lines = span_of(cases[i].lines);
        size_t length = (size_t)(hpack_put_lines(block, lines) - block);

        assert_int_equal(length, cases[i].block.length);
        assert_memory_equal(block, cases[i].block.start, length);
    }
}

/* Lengths at the limits of one, two and three bytes; the block is within HPACK_LINES_MAX. */
TEST(long_values_have_long_lengths)
{
    static const struct {
        size_t value;
        struct span length;
    } cases[] = {
        {126, SPAN("\x7e")},
        {127, SPAN("\x7f\x00")},
        {254, SPAN("\x7f\x7f")},
        {255, SPAN("\x7f\x80\x01")},
        {127 + 16383, SPAN("\x7f\xff\x7f")},
        {127 + 16384, SPAN("\x7f\x80\x80\x01")},
    };
    static char lines[20000], block[HPACK_LINES_MAX(20000)];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int length = snprintf(lines, sizeof(lines), "ETag: %0*d\r\n", (int)cases[i].value, 7);
        size_t encoded =
            (size_t)(hpack_put_lines(block, (struct span){lines, (size_t)length}) - block);

        assert_int_equal(encoded, 2 + cases[i].length.length + cases[i].value);
        assert_true(encoded <= HPACK_LINES_MAX((size_t)length));
        assert_memory_equal(block, "\x0f\x13", 2);
        assert_memory_equal(block + 2, cases[i].length.start, cases[i].length.length);
        assert_memory_equal(block + encoded - cases[i].value, lines + 6, cases[i].value);
    }
}
