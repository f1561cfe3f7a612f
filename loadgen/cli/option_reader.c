#include "loadgen/cli/option_reader.h"

#include "common/macros.h"
#include "common/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool option_fail(struct option_reader *reader, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->why, reader->size, format, arguments);
    va_end(arguments);
    reader->result = OPTIONS_WRONG;
    return false;
}

bool option_read_time(struct option_reader *reader, struct option_value value, uint64_t min_ms,
                      uint64_t *out)
{
    uint64_t ms;

    if (units_parse_time_ms(value.text, &ms) != 0)
        return option_fail(reader, "%s %s: invalid time (examples: 500ms, 30s, 5m, 1h)",
                           value.spelling, value.text);
    if (ms < min_ms || ms > OPTION_TIME_MAX_MS)
        return option_fail(reader, "%s %s: out of range (%llums to 360h)", value.spelling,
                           value.text, (unsigned long long)min_ms);
    *out = ms;
    return true;
}

bool option_read_number(struct option_reader *reader, struct option_value value, uint64_t max,
                        uint32_t *out)
{
    uint64_t number;

    if (strchr(value.text, ',') != NULL)
        return option_fail(reader,
                           "%s %s: takes one number; a list needs a sweep: wsload sweep %s %s",
                           value.spelling, value.text, value.spelling, value.text);
    if (units_parse_count(value.text, &number) != 0 || number < 1 || number > max)
        return option_fail(reader, "%s %s: invalid number (1-%llu)", value.spelling, value.text,
                           (unsigned long long)max);
    *out = (uint32_t)number;
    return true;
}

static int by_number(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

    return (a > b) - (a < b);
}

static bool add_number(struct plan_numbers *numbers, const char *word, uint64_t max)
{
    uint64_t number;

    if (units_parse_count(word, &number) != 0 || number < 1 || number > max)
        return false;
    for (size_t i = 0; i < numbers->count; i++)
        if (numbers->value[i] == number)
            return true;
    if (numbers->count == PLAN_NUMBERS_MAX)
        return false;
    numbers->value[numbers->count++] = (uint32_t)number;
    return true;
}

bool option_read_numbers(struct option_reader *reader, struct option_value value, uint64_t max,
                         struct plan_numbers *out)
{
    char text[512], *rest = NULL;
    bool good = strlen(value.text) < sizeof(text);

    out->count = 0;
    snprintf(text, sizeof(text), "%s", value.text);
    for (char *word = strtok_r(text, ",", &rest); word && good; word = strtok_r(NULL, ",", &rest))
        good = add_number(out, word, max);
    if (!good || out->count == 0)
        return option_fail(reader,
                           "%s %s: invalid list of numbers (up to %d, 1-%llu; example: 1,2,5)",
                           value.spelling, value.text, PLAN_NUMBERS_MAX, (unsigned long long)max);
    qsort(out->value, out->count, sizeof(out->value[0]), by_number);
    return true;
}
