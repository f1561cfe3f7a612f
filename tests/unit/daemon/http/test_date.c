/* HTTP dates: known ones, malformed ones, and a comparison with the C library. */
#include "common/macros.h"
#include "daemon/http/date.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t now = INT64_C(1767225600); /* 2026-01-01 00:00:00 */

static int read_text(const char *text, int64_t *seconds)
{
    size_t length = strlen(text);
    char *copy = malloc(length > 0 ? length : 1);
    int result;

    assert_non_null(copy);
    memcpy(copy, text, length);
    result = http_date_read((struct span){copy, length}, now, seconds);
    free(copy);
    return result;
}

TEST(known_dates_are_parsed)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } cases[] = {
        /* RFC 9110 section 5.6.7: three formats of one date. */
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
        {"Sun Nov  6 08:49:37 1994", 784111777},
        {"Wed Nov 16 08:49:37 1994", 784975777},
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {"Wed, 31 Dec 1969 23:59:59 GMT", -1},
        {"Thu, 29 Feb 2024 12:00:00 GMT", 1709208000},
        {"Tue, 29 Feb 2000 00:00:00 GMT", 951782400},
        {"Tue, 19 Jan 2038 03:14:08 GMT", INT64_C(2147483648)},
        {"Fri, 31 Dec 9999 23:59:59 GMT", INT64_C(253402300799)},
        {"Sat, 01 Jan 0000 00:00:00 GMT", INT64_C(-62167219200)},
        {"Sat, 31 Dec 2016 23:59:60 GMT", 1483228800}, /* a leap second */
        {"Mon, 06 Nov 1994 08:49:37 GMT", 784111777},  /* the weekday is not checked */
        /* Two-digit years, read in 2026: up to 50 years ahead. */
        {"Thursday, 01-Jan-26 00:00:00 GMT", INT64_C(1767225600)},
        {"Tuesday, 31-Dec-75 00:00:00 GMT", INT64_C(3344976000)},
        {"Friday, 31-Dec-76 00:00:00 GMT", 220838400},
        {"Friday, 01-Jan-99 00:00:00 GMT", 915148800},
        {"Saturday, 01-Jan-00 00:00:00 GMT", 946684800},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int64_t seconds = INT64_MIN;

        if (read_text(cases[i].text, &seconds) != 0 || seconds != cases[i].seconds)
            fail_msg("%s: %lld", cases[i].text, (long long)seconds);
    }
}

TEST(malformed_date_is_an_error)
{
    static const char *const cases[] = {
        "",
        "0",
        "Sun",
        "now",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 GM",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "sun, 06 nov 1994 08:49:37 gmt",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun 06 Nov 1994 08:49:37 GMT",
        "Xyz, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Xyz 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 29 Feb 2023 08:49:37 GMT",
        "Sun, 32 Jan 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun, 06 Nov 1994 -8:49:37 GMT",
        "Sun, 06 Nov -994 08:49:37 GMT",
        "Sun, 06 Nov 19941 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06 Nov 94 08:49:37 GMT",
        "Sunday, 31-Feb-94 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun Nov  16 08:49:37 1994",
        "Sun Nov 06  08:49:37 1994",
        "Sun Nov  6 08:49:37 94",
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int64_t seconds = 42;

        if (read_text(cases[i], &seconds) != -1)
            fail_msg("taken: '%s'", cases[i]);
        assert_int_equal(seconds, 42);
    }
}

/* Every day from 1890 to 2110, then in steps to the year 9999, at varying times of day. */
TEST(dates_are_formatted_like_strftime)
{
    int64_t at = INT64_C(-2524521600);

    for (; at < INT64_C(253402300799);
         at += at < INT64_C(4417977600) ? 86461 : 86400 * 97 + 12347) {
        char expected[HTTP_DATE_BYTES + 1], written[HTTP_DATE_BYTES + 1];
        time_t when = (time_t)at;
        struct tm parts;
        int64_t seconds;

        assert_non_null(gmtime_r(&when, &parts));
        strftime(expected, sizeof(expected), "%a, %d %b %Y %H:%M:%S GMT", &parts);
        written[HTTP_DATE_BYTES] = '\0';
        http_date_write(at, written);
        assert_string_equal(written, expected);
        assert_int_equal(http_date_read((struct span){written, HTTP_DATE_BYTES}, now, &seconds), 0);
        assert_true(seconds == at);
    }
}

TEST(times_beyond_year_9999_are_clamped)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } cases[] = {
        {INT64_C(253402300799), "Fri, 31 Dec 9999 23:59:59 GMT"},
        {INT64_C(253402300800), "Fri, 31 Dec 9999 23:59:59 GMT"},
        {INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"},
        {INT64_C(-62167219200), "Sat, 01 Jan 0000 00:00:00 GMT"},
        {INT64_C(-62167219201), "Sat, 01 Jan 0000 00:00:00 GMT"},
        {INT64_MIN, "Sat, 01 Jan 0000 00:00:00 GMT"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char written[HTTP_DATE_BYTES + 1] = {0};

        http_date_write(cases[i].seconds, written);
        assert_string_equal(written, cases[i].text);
    }
}
