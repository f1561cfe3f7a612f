/* Negotiation of media types by Accept, RFC 9110 section 12.5.1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/http/accept.h"
#include "daemon/http1/request_parser.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *fields;
    int json, html;
} cases[] = {
    {"", 1000, 1000},
    {"Accept: */*\r\n", 1000, 1000},
    {"Accept: application/json\r\n", 1000, 0},
    {"Accept: text/html\r\n", 0, 1000},
    {"Accept: image/png\r\n", 0, 0},
    {"Accept:\r\n", 0, 0},
    {"Accept: APPLICATION/Json\r\n", 1000, 0},
    {"Accept: application/json;q=0.5, text/html;q=0.4\r\n", 500, 400},
    {"Accept: application/json;q=0.5,text/html\r\n", 500, 1000},
    {"Accept: text/html, application/json;q=0\r\n", 0, 1000},
    {"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n", 800, 1000},
    {"Accept: application/*;q=0.3, */*;q=0.1\r\n", 300, 100},
    {"Accept: */*, application/json;q=0.2\r\n", 200, 1000},
    {"Accept: application/json;q=0.2, application/*;q=0.9\r\n", 200, 0},
    {"Accept: text/html;level=1;q=0.7\r\n", 0, 700},
    {"Accept: text/html ; q=0.7\r\n", 0, 700},
    {"Accept: text/html;q=0.7;ext=1\r\n", 0, 700},
    {"Accept: application/json;Q=0.7\r\n", 700, 0},
    {"Accept: application/json;q=2\r\n", 0, 0},
    {"Accept: application/json;q=x, */*;q=0.4\r\n", 400, 400},
    {"Accept: */json\r\n", 0, 0},
    {"Accept: json\r\n", 0, 0},
    {"Accept: ,, application/json ,\r\n", 1000, 0},
    {"Accept: text/html\r\nAccept: application/json;q=0.5\r\n", 500, 1000},
};

static void weight_is_of_most_specific_range(void **state)
{
    const struct request_limits limits = {1000, 4000, 100};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct request request;
        size_t scanned = 0;
        char head[512];

        snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", cases[i].fields);
        assert_true(request_parse(head, strlen(head), &limits, &scanned, &request) > 0);
        if (accept_weight(&request, SPAN("application"), SPAN("json")) != cases[i].json ||
            accept_weight(&request, SPAN("text"), SPAN("html")) != cases[i].html)
            fail_msg("%s", cases[i].fields);
        assert_int_equal(accept_prefers_json(&request, SPAN("html")),
                         cases[i].json > cases[i].html);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weight_is_of_most_specific_range)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
