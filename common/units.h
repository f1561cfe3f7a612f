/*
 * Parsing and formatting of numbers with units. Pure; any thread.
 *
 * Parsers accept the whole text only: they store the value and return 0, or return -1. Formatters
 * write at most SIZE bytes, NUL included, and return BUFFER.
 */
#ifndef COMMON_UNITS_H
#define COMMON_UNITS_H

#include <stddef.h>
#include <stdint.h>

enum { UNITS_TEXT = 32 }; /* sufficient buffer size for all formatters */

/* "4096" "64K" "16M" "1G" "1T", or "64KB" ...: bytes, powers of 1024. */
int units_parse_size(const char *text, uint64_t *out_bytes);

/* "500ms" "30s" "5m" "1h" "1.5s"; without unit: seconds. */
int units_parse_time_ms(const char *text, uint64_t *out_ms);

/* "50000" "50k" "2m": powers of 1000. */
int units_parse_count(const char *text, uint64_t *out);

/* Decimal digits only; no sign, no space. */
int units_parse_number(const char *text, uint64_t *out);

/* Three significant digits with a unit: "0", "987 B", "1.50 KiB", "64.0 MiB". */
char *units_format_bytes(char *buffer, size_t size, double bytes);

/* "0", "987", "12.3k", "4.56M". */
char *units_format_count(char *buffer, size_t size, double count);

/* "0", "850 ns", "12.3 us", "4.56 ms", "1.20 s", from a minute on as units_format_age(): "3m 12s". */
char *units_format_ns(char *buffer, size_t size, double ns);

/* "0.0%", "98.2%", "100%" for the ratios 0, 0.982 and 1. */
char *units_format_percent(char *buffer, size_t size, double ratio);

/* The word that agrees with COUNT: ONE or MORE. */
static inline const char *units_plural(uint64_t count, const char *one, const char *more)
{
    return count == 1 ? one : more;
}

/* A duration in at most two units: "4 s", "3m 12s", "2h 05m", "6d 03h". */
char *units_format_age(char *buffer, size_t size, uint64_t ns);

/* Seconds since 1970 as "2026-11-23 18:00:00 UTC"; "?" if the year is too large. */
char *units_format_utc(char *buffer, size_t size, int64_t time_s);

/* A size in the syntax of the configuration, exact: "64M", "1500". */
char *units_format_size(char *buffer, size_t size, uint64_t bytes);

/* A time in the syntax of the configuration, exact: "500ms", "30s", "5m", "1h", "0". */
char *units_format_time_ms(char *buffer, size_t size, uint64_t ms);

enum { DECIMAL_MAX = 20 }; /* digits of UINT64_MAX */

/* Writes NUMBER in decimal without a NUL and returns the end. */
static inline char *decimal_put(char *to, uint64_t number)
{
    char digits[DECIMAL_MAX];
    size_t at = DECIMAL_MAX;

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (at < DECIMAL_MAX)
        *to++ = digits[at++];
    return to;
}

#endif
