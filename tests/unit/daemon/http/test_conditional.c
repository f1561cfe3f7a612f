#include "daemon/http/conditional.h"
#include "daemon/http1/request_parser.h"

#include "common/macros.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define EQUAL  "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEHIND "Sun, 06 Nov 1994 08:49:38 GMT"

enum { MODIFIED = 784111777 };

static const struct validators ours = {{"\"abc\"", 5}, true, MODIFIED, {EQUAL, 29}};

enum { GO = VERDICT_PROCEED, SAME = VERDICT_NOT_MODIFIED, FAILED = VERDICT_PRECONDITION_FAILED };

/* Field lines of a GET and the verdict, for a representation with tag "abc" and date EQUAL. */
static const struct {
    const char *rule, *fields;
    int verdict;
} cases[] = {
    {"nothing asked", "", GO},
    /* RFC 9110 section 13.1.1 */
    {"If-Match: ours", "If-Match: \"abc\"\r\n", GO},
    {"If-Match: another", "If-Match: \"abd\"\r\n", FAILED},
    {"If-Match: equal in a list", "If-Match: \"x\", \"abc\" ,\"y\"\r\n", GO},
    {"If-Match: not in a list", "If-Match: \"x\",\"y\"\r\n", FAILED},
    {"If-Match: any", "If-Match: *\r\n", GO},
    {"If-Match: weak is never equal", "If-Match: W/\"abc\"\r\n", FAILED},
    {"If-Match: weak and equal", "If-Match: W/\"abc\", \"abc\"\r\n", GO},
    {"If-Match: without quotes", "If-Match: abc\r\n", FAILED},
    {"If-Match: empty", "If-Match:\r\n", FAILED},
    {"If-Match: malformed end of list", "If-Match: \"abc\", x\r\n", FAILED},
    {"If-Match: two lines", "If-Match: \"x\"\r\nIf-Match: \"abc\"\r\n", GO},
    {"If-Match: two lines, none equal", "If-Match: \"x\"\r\nIf-Match: \"y\"\r\n", FAILED},
    {"If-Match: * with others", "If-Match: *, \"x\"\r\n", FAILED},
    {"If-Match: * twice", "If-Match: *\r\nIf-Match: *\r\n", FAILED},
    {"If-Match: tags are case-sensitive", "If-Match: \"ABC\"\r\n", FAILED},
    {"If-Match: part of a tag", "If-Match: \"ab\"\r\n", FAILED},
    /* 13.1.4 */
    {"If-Unmodified-Since: equal", "If-Unmodified-Since: " EQUAL "\r\n", GO},
    {"If-Unmodified-Since: later", "If-Unmodified-Since: " BEHIND "\r\n", GO},
    {"If-Unmodified-Since: earlier", "If-Unmodified-Since: " BEFORE "\r\n", FAILED},
    {"If-Unmodified-Since: RFC 850", "If-Unmodified-Since: Sunday, 06-Nov-94 08:49:36 GMT\r\n",
     FAILED},
    {"If-Unmodified-Since: asctime", "If-Unmodified-Since: Sun Nov  6 08:49:36 1994\r\n", FAILED},
    {"If-Unmodified-Since: malformed", "If-Unmodified-Since: yesterday\r\n", GO},
    {"If-Unmodified-Since: twice",
     "If-Unmodified-Since: " BEFORE "\r\nIf-Unmodified-Since: " BEFORE "\r\n", GO},
    {"If-Unmodified-Since: with If-Match that is met",
     "If-Match: \"abc\"\r\nIf-Unmodified-Since: " BEFORE "\r\n", GO},
    {"If-Unmodified-Since: with If-Match that is not met",
     "If-Unmodified-Since: " BEHIND "\r\nIf-Match: \"x\"\r\n", FAILED},
    /* 13.1.2 */
    {"If-None-Match: ours", "If-None-Match: \"abc\"\r\n", SAME},
    {"If-None-Match: another", "If-None-Match: \"abd\"\r\n", GO},
    {"If-None-Match: weak is equal", "If-None-Match: W/\"abc\"\r\n", SAME},
    {"If-None-Match: equal in a list", "If-None-Match: \"x\",\"y\" , W/\"abc\"\r\n", SAME},
    {"If-None-Match: empty members", "If-None-Match: ,, \"abc\",,\r\n", SAME},
    {"If-None-Match: a comma within a tag", "If-None-Match: \"x,y\", \"abc\"\r\n", SAME},
    {"If-None-Match: any", "If-None-Match: *\r\n", SAME},
    {"If-None-Match: without quotes", "If-None-Match: abc\r\n", GO},
    {"If-None-Match: no closing quote", "If-None-Match: \"abc\r\n", GO},
    {"If-None-Match: lower-case w", "If-None-Match: w/\"abc\"\r\n", GO},
    {"If-None-Match: a blank in a tag", "If-None-Match: \"a c\", \"abc\"\r\n", GO},
    {"If-None-Match: no comma", "If-None-Match: \"abc\" \"x\"\r\n", GO},
    {"If-None-Match: two lines", "If-None-Match: \"x\"\r\nIf-None-Match: \"abc\"\r\n", SAME},
    {"If-None-Match: one bad line of two", "If-None-Match: x\r\nIf-None-Match: \"abc\"\r\n", GO},
    {"If-None-Match: empty", "If-None-Match:\r\n", GO},
    /* 13.1.3 */
    {"If-Modified-Since: equal", "If-Modified-Since: " EQUAL "\r\n", SAME},
    {"If-Modified-Since: later", "If-Modified-Since: " BEHIND "\r\n", SAME},
    {"If-Modified-Since: earlier", "If-Modified-Since: " BEFORE "\r\n", GO},
    {"If-Modified-Since: RFC 850", "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n", SAME},
    {"If-Modified-Since: asctime", "If-Modified-Since: Sun Nov  6 08:49:37 1994\r\n", SAME},
    {"If-Modified-Since: malformed", "If-Modified-Since: 784111777\r\n", GO},
    {"If-Modified-Since: twice", "If-Modified-Since: " EQUAL "\r\nIf-Modified-Since: " EQUAL "\r\n",
     GO},
    {"If-Modified-Since: with If-None-Match that does not match",
     "If-None-Match: \"x\"\r\nIf-Modified-Since: " EQUAL "\r\n", GO},
    {"If-Modified-Since: with If-None-Match that matches",
     "If-Modified-Since: " BEFORE "\r\nIf-None-Match: \"abc\"\r\n", SAME},
    /* 13.2.2: the order */
    {"If-Match before If-None-Match", "If-None-Match: \"abc\"\r\nIf-Match: \"x\"\r\n", FAILED},
    {"both match", "If-None-Match: \"abc\"\r\nIf-Match: \"abc\"\r\n", SAME},
    {"If-Unmodified-Since before If-None-Match",
     "If-None-Match: \"abc\"\r\nIf-Unmodified-Since: " BEFORE "\r\n", FAILED},
    {"If-Unmodified-Since and If-Modified-Since are met",
     "If-Unmodified-Since: " EQUAL "\r\nIf-Modified-Since: " EQUAL "\r\n", SAME},
};

static void parse(const char *fields, char *text, size_t size, struct request *request)
{
    static const struct request_limits limits = {1000, 4000, 20};
    size_t scanned = 0;
    int length = snprintf(text, size, "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", fields);

    assert_int_equal(request_parse(text, (size_t)length, &limits, &scanned, request), length);
}

TEST(verdict_follows_section_13)
{
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct request request;
        char text[1024];

        parse(cases[i].fields, text, sizeof(text), &request);
        if ((int)conditional_verdict(&request, &ours, MODIFIED + 9) != cases[i].verdict)
            fail_msg("%s", cases[i].rule);
    }
}

TEST(dates_without_last_modified_are_ignored)
{
    const struct validators undated = {ours.etag, false, 0, {NULL, 0}};
    struct request request;
    char text[1024];

    parse("If-Modified-Since: " EQUAL "\r\n", text, sizeof(text), &request);
    assert_int_equal(conditional_verdict(&request, &undated, MODIFIED + 9), GO);
    parse("If-Unmodified-Since: " BEFORE "\r\n", text, sizeof(text), &request);
    assert_int_equal(conditional_verdict(&request, &undated, MODIFIED + 9), GO);
}

/* RFC 9110 section 13.1.5. */
TEST(if_range_matches_same_representation_only)
{
    static const struct {
        const char *rule, *fields;
        bool holds;
    } ranges[] = {
        {"no condition", "", true},
        {"our tag", "If-Range: \"abc\"\r\n", true},
        {"another tag", "If-Range: \"abd\"\r\n", false},
        {"a weak tag", "If-Range: W/\"abc\"\r\n", false},
        {"a list", "If-Range: \"abc\", \"abd\"\r\n", false},
        {"a star", "If-Range: *\r\n", false},
        {"the same date", "If-Range: " EQUAL "\r\n", true},
        {"the same date in another format", "If-Range: Sun Nov  6 08:49:37 1994\r\n", true},
        {"an earlier date", "If-Range: " BEFORE "\r\n", false},
        {"a later date", "If-Range: " BEHIND "\r\n", false},
        {"neither", "If-Range: abc\r\n", false},
        {"empty", "If-Range:\r\n", false},
        {"twice", "If-Range: \"abc\"\r\nIf-Range: \"abc\"\r\n", false},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(ranges); i++) {
        struct request request;
        char text[1024];

        parse(ranges[i].fields, text, sizeof(text), &request);
        if (conditional_range_holds(&request, &ours, MODIFIED + 9) != ranges[i].holds)
            fail_msg("%s", ranges[i].rule);
    }
}

/* Section 8.8.2.2: a file may change again within the same second. */
TEST(date_less_than_a_second_old_is_not_strong)
{
    struct request request;
    char text[1024];

    parse("If-Range: " EQUAL "\r\n", text, sizeof(text), &request);
    assert_false(conditional_range_holds(&request, &ours, MODIFIED));
    assert_true(conditional_range_holds(&request, &ours, MODIFIED + 1));
}
