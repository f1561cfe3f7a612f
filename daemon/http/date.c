#include "daemon/http/date.h"

#include "common/macros.h"

#include <stdbool.h>
#include <string.h>

enum { DAY_S = 86400 };

/* The range of four-digit years: 0000-01-01 00:00:00 to 9999-12-31 23:59:59. */
#define FIRST_SECOND INT64_C(-62167219200)
#define LAST_SECOND  INT64_C(253402300799)

struct date {
    int year, month, day; /* month and day from 1 */
    int hour, minute, second;
};

static const char month_names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
static const char day_names[] = "ThuFriSatSunMonTueWed"; /* 1970-01-01 was a Thursday */
static const char *const long_day_names[] = {"Thursday, ", "Friday, ",  "Saturday, ", "Sunday, ",
                                             "Monday, ",   "Tuesday, ", "Wednesday, "};

/*
 * Conversion of days and Gregorian dates: years begin in March, so that the leap day is the last of
 * its year, and are grouped in eras of 400 years (146097 days), after which the calendar repeats.
 * From 0000-03-01 to 1970-01-01 there are 719468 days.
 */
static int64_t days_from_date(const struct date *date)
{
    int64_t year = date->month > 2 ? date->year : date->year - 1;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t months = (date->month + 9) % 12;
    int64_t day_of_year = (153 * months + 2) / 5 + date->day - 1;

    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

static void date_from_days(int64_t days, struct date *date)
{
    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t months = (5 * day_of_year + 2) / 153;

    date->day = (int)(day_of_year - (153 * months + 2) / 5 + 1);
    date->month = (int)(months < 10 ? months + 3 : months - 9);
    date->year = (int)(year_of_era + era * 400 + (date->month <= 2));
}

static char *write_digits(char *at, int number, int count)
{
    for (int i = count - 1; i >= 0; i--, number /= 10)
        at[i] = (char)('0' + number % 10);
    return at + count;
}

static char *write_text(char *at, const char *text, size_t length)
{
    memcpy(at, text, length);
    return at + length;
}

void http_date_write(int64_t seconds, char *buffer)
{
    struct date date;
    int64_t within, days;
    char *at = buffer;

    /* File systems may have times that no HTTP date can express; use the nearest. */
    seconds = seconds < FIRST_SECOND ? FIRST_SECOND : seconds > LAST_SECOND ? LAST_SECOND : seconds;
    within = ((seconds % DAY_S) + DAY_S) % DAY_S;
    days = (seconds - within) / DAY_S;
    date_from_days(days, &date);
    at = write_text(at, day_names + ((days % 7 + 7) % 7) * 3, 3);
    at = write_text(at, ", ", 2);
    at = write_digits(at, date.day, 2);
    at = write_text(at, " ", 1);
    at = write_text(at, month_names + (date.month - 1) * 3, 3);
    at = write_text(at, " ", 1);
    at = write_digits(at, date.year, 4);
    at = write_text(at, " ", 1);
    at = write_digits(at, (int)(within / 3600), 2);
    at = write_text(at, ":", 1);
    at = write_digits(at, (int)(within / 60 % 60), 2);
    at = write_text(at, ":", 1);
    at = write_digits(at, (int)(within % 60), 2);
    write_text(at, " GMT", 4);
}

/* The functions below move REST past what they parse, or return false. */
static bool read_literal(struct span *rest, const char *literal)
{
    size_t length = strlen(literal);

    if (rest->length < length || memcmp(rest->start, literal, length) != 0)
        return false;
    rest->start += length;
    rest->length -= length;
    return true;
}

static bool read_digits(struct span *rest, size_t count, int *number)
{
    *number = 0;
    if (rest->length < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (rest->start[i] < '0' || rest->start[i] > '9')
            return false;
        *number = *number * 10 + (rest->start[i] - '0');
    }
    rest->start += count;
    rest->length -= count;
    return true;
}

/* Parses one of the three-letter NAMES; *number counts from 1. */
static bool read_name(struct span *rest, const char *names, int *number)
{
    for (int i = 0; names[i * 3] != '\0'; i++) {
        if (rest->length < 3 || memcmp(rest->start, names + i * 3, 3) != 0)
            continue;
        rest->start += 3;
        rest->length -= 3;
        *number = i + 1;
        return true;
    }
    return false;
}

static bool read_date_time(struct span *rest, struct date *date)
{
    return read_digits(rest, 2, &date->hour) && read_literal(rest, ":") &&
           read_digits(rest, 2, &date->minute) && read_literal(rest, ":") &&
           read_digits(rest, 2, &date->second);
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool read_imf(struct span rest, struct date *date)
{
    int weekday;

    return read_name(&rest, day_names, &weekday) && read_literal(&rest, ", ") &&
           read_digits(&rest, 2, &date->day) && read_literal(&rest, " ") &&
           read_name(&rest, month_names, &date->month) && read_literal(&rest, " ") &&
           read_digits(&rest, 4, &date->year) && read_literal(&rest, " ") &&
           read_date_time(&rest, date) && read_literal(&rest, " GMT") && rest.length == 0;
}

static bool read_long_day(struct span *rest)
{
    for (size_t i = 0; i < ARRAY_LENGTH(long_day_names); i++)
        if (read_literal(rest, long_day_names[i]))
            return true;
    return false;
}

/* "Sunday, 06-Nov-94 08:49:37 GMT"; the year has two digits. */
static bool read_rfc850(struct span rest, struct date *date)
{
    return read_long_day(&rest) && read_digits(&rest, 2, &date->day) && read_literal(&rest, "-") &&
           read_name(&rest, month_names, &date->month) && read_literal(&rest, "-") &&
           read_digits(&rest, 2, &date->year) && read_literal(&rest, " ") &&
           read_date_time(&rest, date) && read_literal(&rest, " GMT") && rest.length == 0;
}

/* "Sun Nov  6 08:49:37 1994" */
static bool read_asctime(struct span rest, struct date *date)
{
    int weekday;

    return read_name(&rest, day_names, &weekday) && read_literal(&rest, " ") &&
           read_name(&rest, month_names, &date->month) && read_literal(&rest, " ") &&
           read_digits(&rest, read_literal(&rest, " ") ? 1 : 2, &date->day) &&
           read_literal(&rest, " ") && read_date_time(&rest, date) && read_literal(&rest, " ") &&
           read_digits(&rest, 4, &date->year) && rest.length == 0;
}

/* A leap second (60) is accepted; it becomes the first second of the next minute. */
static bool in_calendar(const struct date *date)
{
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = date->year % 4 == 0 && (date->year % 100 != 0 || date->year % 400 == 0);
    int last = month_days[date->month - 1] + (date->month == 2 && leap);

    return date->day >= 1 && date->day <= last && date->hour < 24 && date->minute < 60 &&
           date->second <= 60;
}

static int64_t seconds_from_date(const struct date *date)
{
    return days_from_date(date) * DAY_S + date->hour * 3600 + date->minute * 60 + date->second;
}

/* RFC 9110 section 5.6.7: the latest year with these digits that is at most 50 years after NOW. */
static void place_in_century(struct date *date, int64_t now)
{
    const int64_t fifty_years_s = INT64_C(50) * 31556952; /* the mean Gregorian year */
    struct date today;

    date_from_days(now / DAY_S, &today);
    date->year += today.year - today.year % 100 + 100;
    while (seconds_from_date(date) - now > fifty_years_s)
        date->year -= 100;
}

int http_date_read(struct span text, int64_t now, int64_t *seconds)
{
    struct date date = {0};

    if (read_rfc850(text, &date))
        place_in_century(&date, now);
    else if (!read_imf(text, &date) && !read_asctime(text, &date))
        return -1;
    if (!in_calendar(&date))
        return -1;
    *seconds = seconds_from_date(&date);
    return 0;
}
