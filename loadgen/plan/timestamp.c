#include "loadgen/plan/timestamp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* NAN for an invalid date, such as February 30. */
static double seconds_of(const struct tm *parts)
{
    struct tm filled = *parts;
    time_t seconds = timegm(&filled);

    return filled.tm_mday == parts->tm_mday ? (double)seconds : NAN;
}

double timestamp_read_log(const char *text)
{
    const char *open = strchr(text, '[');
    struct tm parts = {0};
    long offset;

    if (open == NULL || strptime(open + 1, "%d/%b/%Y:%H:%M:%S %z", &parts) == NULL)
        return NAN;
    offset = parts.tm_gmtoff;
    return seconds_of(&parts) - (double)offset;
}

double timestamp_read_iso(const char *text)
{
    struct tm parts = {0}, zone = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    double fraction = 0;
    long offset = 0;

    if (rest == NULL)
        return NAN;
    if (*rest == '.') {
        char *end;

        fraction = strtod(rest, &end);
        rest = end;
    }
    if ((*rest == '+' || *rest == '-') && strptime(rest, "%z", &zone) != NULL)
        offset = zone.tm_gmtoff;
    return seconds_of(&parts) - (double)offset + fraction;
}
