/* Prepared response prefixes equal those formatted directly; error pages name the status. */
#include "daemon/http/response.h"

#include "common/macros.h"
#include "daemon/http/hpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

static void prefixes_are_current_in_every_second(void **state)
{
    static const int64_t seconds[] = {1, 1795241910, 1795241911, 1795241911, 5};
    static const struct {
        const char *set, *field;
    } servers[] = {{NULL, "Server: webserverd\r\n"}, {"", ""}, {"house", "Server: house\r\n"}};

    (void)state;
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

static void error_pages_name_the_status(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_are_current_in_every_second),
        cmocka_unit_test(error_pages_name_the_status),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
