/*
 * Negotiation of media types by Accept, RFC 9110 section 12.5.1, and of content codings by
 * Accept-Encoding.
 */
#include "common/macros.h"
#include "daemon/http/negotiation.h"
#include "daemon/http1/request_parser.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *fields;
    int json, html;
} accept_cases[] = {
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

TEST(weight_is_of_most_specific_range)
{
    const struct request_limits limits = {1000, 4000, 100};

    for (size_t i = 0; i < ARRAY_LENGTH(accept_cases); i++) {
        struct request request;
        size_t scanned = 0;
        char head[512];

        snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", accept_cases[i].fields);
        assert_true(request_parse(head, strlen(head), &limits, &scanned, &request) > 0);
        if (accept_weight(&request, SPAN("application"), SPAN("json")) != accept_cases[i].json ||
            accept_weight(&request, SPAN("text"), SPAN("html")) != accept_cases[i].html)
            fail_msg("%s", accept_cases[i].fields);
        assert_int_equal(accept_prefers_json(&request, SPAN("html")),
                         accept_cases[i].json > accept_cases[i].html);
    }
}

/* Field lines (ended by NULL) and the resulting codings, best first. */
struct coding_case {
    const char *rule, *lines[3], *order;
};

/* RFC 9110 section 12.5.3; 12.4.2 for weights. */
static const struct coding_case coding_cases[] = {
    {"absent", {NULL}, "identity"},
    {"empty: identity only", {""}, "identity"},
    {"one coding", {"gzip"}, "gzip identity"},
    {"a current browser", {"gzip, deflate, br, zstd"}, "br zstd gzip identity"},
    {"an older browser", {"gzip, deflate, br"}, "br gzip identity"},
    {"weights decide", {"br;q=0.5, gzip;q=0.8"}, "gzip br identity"},
    {"a thousandth", {"br;q=0.999, gzip"}, "gzip br identity"},
    {"identity preferred", {"gzip;q=0.5, identity"}, "identity gzip"},
    {"identity with equal weight", {"gzip, identity"}, "gzip identity"},
    {"identity not acceptable", {"gzip, identity;q=0"}, "gzip"},
    {"identity not acceptable", {"identity;q=0"}, ""},
    {"none acceptable", {"identity;q=0, *;q=0"}, ""},
    {"* with weight 0: none acceptable", {"*;q=0"}, ""},
    {"one acceptable", {"br, *;q=0"}, "br"},
    {"identity only acceptable", {"identity, *;q=0"}, "identity"},
    {"any", {"*"}, "br zstd gzip identity"},
    {"any except one", {"*, br;q=0"}, "zstd gzip identity"},
    {"any, with lower weight than one", {"gzip, *;q=0.1"}, "gzip br zstd identity"},
    {"weight 0 is not acceptable", {"gzip;q=0"}, "identity"},
    {"weight 0.000 is not acceptable", {"gzip;q=0.000, br"}, "br identity"},
    {"weight 1.000", {"gzip;q=1.000"}, "gzip identity"},
    {"case-insensitive", {"GZip;Q=0.5, BR;q=0.4, Identity;q=0"}, "gzip br"},
    {"blanks", {" gzip ; q=0.5 ,\tbr;q=0.7 "}, "br gzip identity"},
    {"empty members", {",, gzip,, ,"}, "gzip identity"},
    {"x-gzip is gzip (8.4.1.3)", {"x-gzip"}, "gzip identity"},
    {"deflate and compress are not offered", {"deflate, compress"}, "identity"},
    {"an unknown coding", {"sdch, gzip"}, "gzip identity"},
    {"two lines", {"gzip;q=0.5", "br"}, "br gzip identity"},
    {"the last weight of a name is used", {"gzip, gzip;q=0"}, "identity"},
    {"a weight above 1 is malformed", {"gzip;q=1.1, br"}, "br identity"},
    {"a weight with four digits", {"gzip;q=0.1234, br"}, "br identity"},
    {"a weight that is not a number", {"gzip;q=x, br"}, "br identity"},
    {"a weight without digits", {"gzip;q=, br"}, "br identity"},
    {"a weight that begins with a dot", {"gzip;q=.5, br"}, "br identity"},
    {"a parameter other than q", {"gzip;level=9, br"}, "br identity"},
    {"nothing after the semicolon", {"gzip;, br"}, "br identity"},
    {"names with a common prefix", {"gzipx, brx, b"}, "identity"},
};

static void write_order(coding_preference preference, char *text, size_t size)
{
    enum coding coding;
    size_t used = 0;

    text[0] = '\0';
    while (coding_next(&preference, &coding))
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? " " : "",
                             coding == CODING_IDENTITY ? "identity" : coding_names[coding].start);
}

TEST(codings_are_ordered_by_weight)
{
    for (size_t i = 0; i < ARRAY_LENGTH(coding_cases); i++) {
        struct coding_weights weights = CODING_WEIGHTS_NONE;
        char order[128];

        for (size_t line = 0; line < 3 && coding_cases[i].lines[line] != NULL; line++)
            coding_read(&weights, span_of(coding_cases[i].lines[line]));
        write_order(coding_prefer(&weights), order, sizeof(order));
        if (strcmp(order, coding_cases[i].order) != 0)
            fail_msg("%s: \"%s\" gave \"%s\"", coding_cases[i].rule, coding_cases[i].lines[0],
                     order);
    }
}

TEST(no_field_means_identity)
{
    struct coding_weights weights = CODING_WEIGHTS_NONE;

    assert_int_equal(coding_prefer(&weights), PREFER_IDENTITY);
}

TEST(range_is_of_identity_or_of_the_named_coding)
{
    static const struct {
        const char *accepted, *tag, *order;
    } cases[] = {
        {"gzip, br", "", "identity"},
        {"gzip, br", "\"a-b\"", "identity"},
        {"gzip, br", "\"a-gzip\"", "gzip identity"},
        {"gzip, br", "\"a-br\"", "br identity"},
        {"gzip, br", "W/\"a-br\"", "br identity"},
        {"gzip, br", "\"a-zstd\"", "identity"},
        {"gzip, br", "\"a-br", "identity"},
        {"gzip, br", "-", "identity"},
        {"gzip, br", "\"br\"", "identity"},
        {"gzip, br, identity;q=0", "", "br gzip"},
        {"gzip, br, identity;q=0", "\"a-gzip\"", "br gzip"},
        {"identity", "\"a-gzip\"", "identity"},
        {"*;q=0", "", ""},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct coding_weights weights = CODING_WEIGHTS_NONE;
        struct span tag = span_of(cases[i].tag);
        char order[128];

        coding_read(&weights, span_of(cases[i].accepted));
        write_order(coding_prefer_for_range(coding_prefer(&weights), coding_of_tag(tag)), order,
                    sizeof(order));
        if (strcmp(order, cases[i].order) != 0)
            fail_msg("%s %s gave \"%s\"", cases[i].accepted, cases[i].tag, order);
    }
}

/* Groups are written "br zstd gzip | identity". */
TEST(codings_of_one_weight_are_a_group)
{
    static const struct {
        const char *accepted, *groups;
    } cases[] = {
        {"gzip, deflate, br, zstd", "br zstd gzip|identity|"},
        {"gzip;q=0.5, br;q=0.5, zstd", "zstd|br gzip|identity|"},
        {"gzip;q=0.5, identity;q=0.5", "gzip identity|"},
        {"*", "br zstd gzip|identity|"},
        {"*, identity", "br zstd gzip identity|"},
        {"*;q=0", ""},
        {"", "identity|"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct coding_weights weights = CODING_WEIGHTS_NONE;
        coding_preference preference;
        struct coding_group group;
        char groups[128] = "";

        coding_read(&weights, span_of(cases[i].accepted));
        preference = coding_prefer(&weights);
        while (coding_next_group(&preference, &group))
            for (size_t j = 0; j < group.count; j++) {
                const char *name = coding_names[group.coding[j]].start;

                assert_true(coding_group_has(&group, group.coding[j]));
                snprintf(groups + strlen(groups), sizeof(groups) - strlen(groups), "%s%s",
                         *name != '\0' ? name : "identity", j + 1 < group.count ? " " : "|");
            }
        assert_string_equal(groups, cases[i].groups);
    }
}
