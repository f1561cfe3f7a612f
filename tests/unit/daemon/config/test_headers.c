/* The configured header fields of a response, by path. */
#include "common/macros.h"
#include "daemon/config/rules.h"
#include "tests/test.h"

#include <string.h>

static const struct config_header lines[] = {
    {"", "", false, "X-All", "1", {NULL, 0}},
    {"", "", false, "Cache-Control", "max-age=1", {NULL, 0}},
    {"", "", false, "Content-Language", "en", {NULL, 0}},
    {"", "", false, "Content-Security-Policy", "default-src 'self'", {NULL, 0}},
    {"", "", false, "Server", "ours", {NULL, 0}},
    {"", "/", false, "X-Root", "1", {NULL, 0}},
    {"", "/a", false, "Cache-Control", "max-age=2", {NULL, 0}},
    {"", "/a/b", false, "cache-control", "max-age=3", {NULL, 0}},
    {"", "/a b", false, "X-Blank", "1", {NULL, 0}},
    {"", "*.css", false, "Cache-Control", "max-age=4", {NULL, 0}},
    {"", "*.min.css", false, "Cache-Control", "max-age=5", {NULL, 0}},
    {"", "*.html", false, "X-All", "", {NULL, 0}},
};

static const struct header_rules rules = {lines, ARRAY_LENGTH(lines)};

#define POLICY "Content-Security-Policy: default-src 'self'\r\n"
#define ALL    "X-All: 1\r\n"
#define ROOT   "X-Root: 1\r\n"

static const struct {
    const char *path, *fields;
} cases[] = {
    {NULL, ALL "Cache-Control: max-age=1\r\n" POLICY},
    {"/", ALL "Cache-Control: max-age=1\r\n" POLICY ROOT},
    {"/x", ALL "Cache-Control: max-age=1\r\n" POLICY ROOT},
    {"/a", ALL POLICY ROOT "Cache-Control: max-age=2\r\n"},
    {"/a/", ALL POLICY ROOT "Cache-Control: max-age=2\r\n"},
    {"/a/x", ALL POLICY ROOT "Cache-Control: max-age=2\r\n"},
    {"/ab", ALL "Cache-Control: max-age=1\r\n" POLICY ROOT},
    {"/a/b", ALL POLICY ROOT "cache-control: max-age=3\r\n"},
    {"/a/b/c/d", ALL POLICY ROOT "cache-control: max-age=3\r\n"},
    {"/a b/c", ALL "Cache-Control: max-age=1\r\n" POLICY ROOT "X-Blank: 1\r\n"},
    {"/x.css", ALL POLICY ROOT "Cache-Control: max-age=4\r\n"},
    {"/a/b/x.CSS", ALL POLICY ROOT "Cache-Control: max-age=4\r\n"},
    {"/a/x.min.css", ALL POLICY ROOT "Cache-Control: max-age=5\r\n"},
    {"/x.css/y", ALL "Cache-Control: max-age=1\r\n" POLICY ROOT},
    {"/.css", ALL "Cache-Control: max-age=1\r\n" POLICY ROOT},
    {"/css", ALL "Cache-Control: max-age=1\r\n" POLICY ROOT},
    {"/x.html", "Cache-Control: max-age=1\r\n" POLICY ROOT},
};

TEST(most_specific_rule_applies)
{
    char buffer[HEADER_RULES_MAX + 1];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        buffer[header_rules_write(&rules, cases[i].path, HEADER_OF_RESPONSE, buffer)] = '\0';
        if (strcmp(buffer, cases[i].fields) != 0)
            fail_msg("%s: %s", cases[i].path, buffer);
    }
}

/* Freshness of files and of errors. */
static const struct config_header lives[] = {
    {"", "", false, "X-All", "1", {NULL, 0}},
    {"", "", false, "Cache-Control", "max-age=1", {NULL, 0}},
    {"", "", false, "cdn-cache-control", "max-age=2", {NULL, 0}},
    {"", "", false, "Expires", "0", {NULL, 0}},
    {"", "/a", false, "Cache-Control", "max-age=3", {NULL, 0}},
    {"", "/a", true, "Cache-Control", "max-age=4", {NULL, 0}},
    {"", "", true, "Surrogate-Control", "max-age=5", {NULL, 0}},
    {"", "*.js", true, "Surrogate-Control", "", {NULL, 0}},
    {"", "", false, "Cache-Status", "hit", {NULL, 0}},
};

TEST(freshness_is_for_errors_only_with_always)
{
    static const struct {
        const char *path;
        enum header_part part;
        const char *fields;
    } freshness[] = {
        {"/x", HEADER_OF_RESPONSE,
         ALL "Cache-Control: max-age=1\r\ncdn-cache-control: max-age=2\r\nExpires: 0\r\n"
             "Surrogate-Control: max-age=5\r\nCache-Status: hit\r\n"},
        {"/x", HEADER_OF_ERROR, ALL "Surrogate-Control: max-age=5\r\nCache-Status: hit\r\n"},
        {"/x", HEADER_OF_REQUEST_ERROR, ALL "Cache-Status: hit\r\n"},
        {NULL, HEADER_OF_REQUEST_ERROR, ALL "Cache-Status: hit\r\n"},
        {"/a/x", HEADER_OF_RESPONSE,
         ALL "cdn-cache-control: max-age=2\r\nExpires: 0\r\nCache-Control: max-age=3\r\n"
             "Surrogate-Control: max-age=5\r\nCache-Status: hit\r\n"},
        {"/a/x", HEADER_OF_ERROR,
         ALL "Cache-Control: max-age=4\r\nSurrogate-Control: max-age=5\r\nCache-Status: hit\r\n"},
        {"/x.js", HEADER_OF_ERROR, ALL "Cache-Status: hit\r\n"},
    };
    const struct header_rules of_lives = {lives, ARRAY_LENGTH(lives)};
    char buffer[HEADER_RULES_MAX + 1];

    for (size_t i = 0; i < ARRAY_LENGTH(freshness); i++) {
        buffer[header_rules_write(&of_lives, freshness[i].path, freshness[i].part, buffer)] = '\0';
        if (strcmp(buffer, freshness[i].fields) != 0)
            fail_msg("%s, part %d: %s", freshness[i].path, (int)freshness[i].part, buffer);
    }
}

TEST(content_fields_are_separate)
{
    char buffer[HEADER_RULES_MAX + 1];

    buffer[header_rules_write(&rules, "/x", HEADER_OF_CONTENT, buffer)] = '\0';
    assert_string_equal(buffer, "Content-Language: en\r\n");
}

TEST(server_is_not_in_field_lines)
{
    const struct header_rules none = {NULL, 0};
    char buffer[HEADER_RULES_MAX];

    assert_string_equal(header_rules_value(&rules, NULL, "Server"), "ours");
    assert_null(header_rules_value(&none, NULL, "Server"));
    assert_int_equal(header_rules_write(&none, "/", HEADER_OF_RESPONSE, buffer), 0);
}

TEST(rule_bytes_equal_line_length)
{
    assert_int_equal(header_rule_bytes(&lines[0]), strlen(ALL));
}
