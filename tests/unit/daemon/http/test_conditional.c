/* Files with a very recent date; integration/rfc/conditionals.def has all others. */
#include "daemon/http/conditional.h"
#include "daemon/http1/request_parser.h"

#include "tests/test.h"

#include <stdio.h>
#include <string.h>

#define EQUAL "Sun, 06 Nov 1994 08:49:37 GMT"

enum { MODIFIED = 784111777 };

static const struct validators ours = {{"\"abc\"", 5}, true, MODIFIED, {EQUAL, 29}};

static void parse(const char *fields, char *text, size_t size, struct request *request)
{
    static const struct request_limits limits = {1000, 4000, 20};
    size_t scanned = 0;
    int length = snprintf(text, size, "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", fields);

    assert_int_equal(request_parse(text, (size_t)length, &limits, &scanned, request), length);
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
