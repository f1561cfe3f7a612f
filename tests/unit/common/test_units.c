/* Parsing and formatting of numbers. */
#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"
#include "tests/test.h"

#include <string.h>

#define REFUSED                                                                                    \
    UINT64_C(0xdeadbeef) /* value of *out before a failed call, which must not change it */

struct parse_case {
    const char *text;
    uint64_t expected;
};

typedef int parser(const char *text, uint64_t *out);

static void run_parser(parser *parse, const struct parse_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = REFUSED;
        int result = parse(cases[i].text, &value);

        if (value != cases[i].expected || (result == 0) != (cases[i].expected != REFUSED))
            fail_msg("'%s' gave %d and %llu", cases[i].text, result, (unsigned long long)value);
    }
}

TEST(parse_size)
{
    static const struct parse_case cases[] = {
        {"0", 0},
        {"4096", 4096},
        {"64K", 64 * 1024},
        {"64k", 64 * 1024},
        {"16M", 16 * 1024 * 1024},
        {"1G", UINT64_C(1) << 30},
        {"1T", UINT64_C(1) << 40},
        {"64KB", 64 * 1024},
        {"10mb", 10 * 1024 * 1024},
        {"1GB", UINT64_C(1) << 30},
        {"1TB", UINT64_C(1) << 40},
        {"1.5K", 1536},
        {"0.5M", 512 * 1024},
        {"8000000T", UINT64_C(8000000) << 40},
        {"", REFUSED},
        {"K", REFUSED},
        {"-1", REFUSED},
        {"+1", REFUSED},
        {" 1", REFUSED},
        {"1 K", REFUSED},
        {"1KiB", REFUSED},
        {"1BK", REFUSED},
        {"1.3", REFUSED},
        {"0x10", REFUSED},
        {"0X10", REFUSED},
        {"1e3", REFUSED},
        {"1E3K", REFUSED},
        {"nan", REFUSED},
        {"inf", REFUSED},
        {"99999999999999999999", REFUSED},
        {"99999999T", REFUSED},
        {"1e400", REFUSED},
    };

    run_parser(units_parse_size, cases, ARRAY_LENGTH(cases));
}

TEST(parse_time)
{
    static const struct parse_case cases[] = {
        {"500ms", 500},   {"30s", 30000},   {"5m", 300000},     {"1h", 3600000},    {"0", 0},
        {"10", 10000},    {"1.5s", 1500},   {"0.5", 500},       {"0.25h", 900000},  {"1S", 1000},
        {"", REFUSED},    {"s", REFUSED},   {"-5s", REFUSED},   {"0.5ms", REFUSED}, {"5x", REFUSED},
        {"5 s", REFUSED}, {"5ss", REFUSED}, {"5m30s", REFUSED},
    };

    run_parser(units_parse_time_ms, cases, ARRAY_LENGTH(cases));
}

TEST(parse_count)
{
    static const struct parse_case cases[] = {
        {"50000", 50000}, {"50k", 50000}, {"2m", 2000000},      {"2M", 2000000},
        {"1.5k", 1500},   {"0", 0},       {"1.0001k", REFUSED}, {"k", REFUSED},
        {"5g", REFUSED},  {"", REFUSED},  {"12,5k", REFUSED},
    };

    run_parser(units_parse_count, cases, ARRAY_LENGTH(cases));
}

TEST(parse_number)
{
    static const struct parse_case cases[] = {
        {"0", 0},
        {"007", 7},
        {"18446744073709551615", UINT64_MAX},
        {"18446744073709551616", REFUSED},
        {"", REFUSED},
        {"-1", REFUSED},
        {"+1", REFUSED},
        {" 1", REFUSED},
        {"1 ", REFUSED},
        {"1k", REFUSED},
        {"0x1", REFUSED},
    };

    run_parser(units_parse_number, cases, ARRAY_LENGTH(cases));
}

struct format_case {
    double value;
    const char *expected;
};

typedef char *formatter(char *buffer, size_t size, double value);

static void run_formatter(formatter *format, const struct format_case *cases, size_t count)
{
    char text[UNITS_TEXT];

    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(format(text, sizeof(text), cases[i].value), text);
        assert_string_equal(text, cases[i].expected);
    }
}

TEST(format_bytes)
{
    static const struct format_case cases[] = {
        {0, "0"},
        {1, "1 B"},
        {987, "987 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {10 * 1024, "10.0 KiB"},
        {100 * 1024, "100 KiB"},
        {64.0 * 1024 * 1024, "64.0 MiB"},
        {1024.0 * 1024 - 1, "1.00 MiB"},
        {5.0 * 1024 * 1024 * 1024, "5.00 GiB"},
        {3.0 * 1024 * 1024 * 1024 * 1024, "3.00 TiB"},
    };

    run_formatter(units_format_bytes, cases, ARRAY_LENGTH(cases));
}

TEST(format_count)
{
    static const struct format_case cases[] = {
        {0, "0"},        {1, "1"},         {987, "987"},      {999.4, "999"},     {999.5, "1.00k"},
        {1000, "1.00k"}, {9994, "9.99k"},  {9996, "10.0k"},   {12345, "12.3k"},   {99940, "99.9k"},
        {99960, "100k"}, {999499, "999k"}, {999600, "1.00M"}, {4560000, "4.56M"}, {7e9, "7.00G"},
        {7e12, "7.00T"}, {7e15, "7.00P"},  {7e18, "7.00E"},
    };

    run_formatter(units_format_count, cases, ARRAY_LENGTH(cases));
}

TEST(format_ns)
{
    static const struct format_case cases[] = {
        {0, "0"},
        {850, "850 ns"},
        {1000, "1.00 us"},
        {12345, "12.3 us"},
        {999600, "1.00 ms"},
        {4.56e6, "4.56 ms"},
        {1.2e9, "1.20 s"},
        {59.94e9, "59.9 s"},
        {59.96e9, "1m 00s"},
        {275.4e9, "4m 35s"},
        {7500e9, "2h 05m"},
    };

    run_formatter(units_format_ns, cases, ARRAY_LENGTH(cases));
}

struct exact_case {
    uint64_t value;
    const char *expected;
};

typedef char *exact_formatter(char *buffer, size_t size, uint64_t value);

static void run_exact(exact_formatter *format, const struct exact_case *cases, size_t count)
{
    char text[UNITS_TEXT];

    for (size_t i = 0; i < count; i++)
        assert_string_equal(format(text, sizeof(text), cases[i].value), cases[i].expected);
}

TEST(format_utc)
{
    static const struct {
        int64_t time_s;
        const char *text;
    } cases[] = {{0, "1970-01-01 00:00:00 UTC"},
                 {1700000000, "2023-11-14 22:13:20 UTC"},
                 {INT64_MAX, "?"},
                 {INT64_MIN, "?"}};
    char text[UNITS_TEXT];

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_string_equal(units_format_utc(text, sizeof(text), cases[i].time_s), cases[i].text);
}

TEST(format_age)
{
    static const struct exact_case cases[] = {
        {0, "0 s"},
        {4 * NS_PER_S, "4 s"},
        {60 * NS_PER_S - 1, "59 s"},
        {60 * NS_PER_S, "1m 00s"},
        {192 * NS_PER_S, "3m 12s"},
        {3600 * NS_PER_S, "1h 00m"},
        {7500 * NS_PER_S, "2h 05m"},
        {86400 * NS_PER_S, "1d 00h"},
        {(6 * 86400 + 3 * 3600) * NS_PER_S, "6d 03h"},
    };

    run_exact(units_format_age, cases, ARRAY_LENGTH(cases));
}

/* Exact formats are parsed back. */
static void run_round_trip(exact_formatter *format, parser *parse, const struct exact_case *cases,
                           size_t count)
{
    char text[UNITS_TEXT];

    run_exact(format, cases, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = REFUSED;

        assert_int_equal(parse(format(text, sizeof(text), cases[i].value), &value), 0);
        assert_int_equal(value, cases[i].value);
    }
}

TEST(format_size)
{
    static const struct exact_case cases[] = {
        {0, "0"},
        {1, "1"},
        {1500, "1500"},
        {1024, "1K"},
        {1536, "1536"},
        {64 << 20, "64M"},
        {UINT64_C(3) << 30, "3G"},
        {UINT64_C(2) << 40, "2T"},
        {UINT64_C(2048) << 40, "2048T"},
    };

    run_round_trip(units_format_size, units_parse_size, cases, ARRAY_LENGTH(cases));
}

TEST(format_time)
{
    static const struct exact_case cases[] = {
        {0, "0"},       {500, "500ms"}, {1000, "1s"},    {1500, "1500ms"}, {30000, "30s"},
        {90000, "90s"}, {300000, "5m"}, {3600000, "1h"}, {5400000, "90m"},
    };

    run_round_trip(units_format_time_ms, units_parse_time_ms, cases, ARRAY_LENGTH(cases));
}

TEST(small_buffers_are_terminated)
{
    char text[8];

    memset(text, 'x', sizeof(text));
    units_format_bytes(text, 4, 1536);
    assert_string_equal(text, "1.5");
    memset(text, 'x', sizeof(text));
    units_format_age(text, 3, 192 * NS_PER_S);
    assert_string_equal(text, "3m");
    memset(text, 'x', sizeof(text));
    units_format_size(text, 2, 1500);
    assert_string_equal(text, "1");
    assert_int_equal(text[2], 'x');
}
