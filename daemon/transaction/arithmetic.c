#include "daemon/transaction/arithmetic.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { VALUE_MAX = 24, QUOTED_MAX = 40, TEXT_MAX = 128 };

/* The range of n in which results fit. */
static const struct {
    const char *name;
    int64_t min, max;
} functions[ARITHMETIC_FUNCTION_COUNT] = {
    [ARITHMETIC_FIBONACCI] = {"fibonacci", 0, 93},
    [ARITHMETIC_SQUARE] = {"square", -INT64_C(4294967295), INT64_C(4294967295)},
    [ARITHMETIC_CUBE] = {"cube", -2097152, 2642245},
};

enum arithmetic_function arithmetic_find(const char *name)
{
    int function = 0;

    while (function < ARITHMETIC_FUNCTION_COUNT && strcmp(functions[function].name, name) != 0)
        function++;
    return (enum arithmetic_function)function;
}

const char *arithmetic_name(enum arithmetic_function function)
{
    return functions[function].name;
}

/* Parsing */

#define QUOTED(span) (int)((span).length < QUOTED_MAX ? (span).length : QUOTED_MAX), (span).start

static struct span cut(struct span *text, char separator)
{
    const char *found = text->length > 0 ? memchr(text->start, separator, text->length) : NULL;
    size_t length = found != NULL ? (size_t)(found - text->start) : text->length;
    struct span piece = {text->start, length};

    length += found != NULL;
    *text = (struct span){text->start + length, text->length - length};
    return piece;
}

static int hex_value(char digit)
{
    const char *digits = "0123456789abcdef";
    const char *found = memchr(digits, digit >= 'A' && digit <= 'F' ? digit | 0x20 : digit, 16);

    return found != NULL ? (int)(found - digits) : -1;
}

/*
 * Decodes escaped unreserved characters (RFC 3986 section 6.2.2.2); numbers, durations and names
 * consist of these alone. Text that does not fit into BUFFER is returned unchanged.
 */
static struct span unescape(struct span text, char buffer[TEXT_MAX])
{
    size_t length = 0;

    if (text.length > TEXT_MAX)
        return text;
    for (size_t i = 0; i < text.length; i++) {
        bool escaped = text.start[i] == '%' && i + 2 < text.length;
        int high = escaped ? hex_value(text.start[i + 1]) : -1;
        int low = escaped ? hex_value(text.start[i + 2]) : -1;
        int byte = high * 16 + low;

        if (high < 0 || low < 0 ||
            (!isalnum(byte) && (byte == 0 || strchr("-._~", byte) == NULL))) {
            buffer[length++] = text.start[i];
            continue;
        }
        buffer[length++] = (char)byte;
        i += 2;
    }
    return (struct span){buffer, length};
}

/* Returns 0, -1 if TEXT is not digits with an optional '-', or 1 if the number exceeds 64 bits. */
static int parse_integer(struct span text, int64_t *number)
{
    bool negative = text.length > 0 && text.start[0] == '-';
    bool overflow = false;
    int64_t value = 0;

    if (text.length == negative)
        return -1;
    for (size_t i = negative; i < text.length; i++) {
        int digit = text.start[i] - '0';

        if (digit < 0 || digit > 9)
            return -1;
        overflow = overflow || __builtin_mul_overflow(value, 10, &value) ||
                   __builtin_sub_overflow(
                       value, digit, &value); /* negative: INT64_MIN has no positive counterpart */
    }
    if (overflow || (!negative && value == INT64_MIN))
        return 1;
    *number = negative ? value : -value;
    return 0;
}

static int parse_n(struct arithmetic_query *query, struct span value, char *why)
{
    const char *name = functions[query->function].name;
    int64_t min = functions[query->function].min, max = functions[query->function].max;
    int fault = parse_integer(value, &query->n);

    if (fault < 0)
        snprintf(why, ARITHMETIC_WHY_MAX, "invalid n '%.*s' (examples: 10, -3)", QUOTED(value));
    else if (fault > 0 || query->n < min || query->n > max)
        snprintf(why, ARITHMETIC_WHY_MAX,
                 "n: %.*s is out of range for %s (%" PRId64 " to %" PRId64 ")", QUOTED(value), name,
                 min, max);
    else
        return 0;
    return -1;
}

static int parse_work(struct arithmetic_query *query, struct span value, char *why)
{
    char text[VALUE_MAX];
    uint64_t time_ms = 0;

    snprintf(text, sizeof(text), "%.*s", (int)(value.length < VALUE_MAX ? value.length : VALUE_MAX),
             value.start);
    if (value.length >= VALUE_MAX || units_parse_time_ms(text, &time_ms) != 0) {
        snprintf(why, ARITHMETIC_WHY_MAX, "invalid work '%.*s' (example: 2ms)", QUOTED(value));
        return -1;
    }
    if (time_ms > ARITHMETIC_WORK_MAX_MS) {
        snprintf(why, ARITHMETIC_WHY_MAX, "work: %s is out of range (0 to %dms)", text,
                 ARITHMETIC_WORK_MAX_MS);
        return -1;
    }
    query->work_ns = time_ms * NS_PER_MS;
    return 0;
}

/* The parameters and their parsers. */
static const struct {
    struct span name;
    int (*parse)(struct arithmetic_query *query, struct span value, char *why);
} parameters[] = {{{"n", 1}, parse_n}, {{"work", 4}, parse_work}};

static int parse_parameter(struct arithmetic_query *query, struct span part, bool *given, char *why)
{
    char name_text[TEXT_MAX], value_text[TEXT_MAX];
    struct span value = part, name = unescape(cut(&value, '='), name_text);

    for (size_t i = 0; i < ARRAY_LENGTH(parameters); i++) {
        if (!span_is(name, parameters[i].name))
            continue;
        if (given[i]) {
            snprintf(why, ARITHMETIC_WHY_MAX, "%s is repeated", parameters[i].name.start);
            return -1;
        }
        given[i] = true;
        value = unescape(value, value_text);
        return parameters[i].parse(query, value, why);
    }
    snprintf(why, ARITHMETIC_WHY_MAX, "unknown parameter '%.*s' (valid: n, work)", QUOTED(name));
    return -1;
}

int arithmetic_parse(struct arithmetic_query *query, struct span text, char *why)
{
    bool given[ARRAY_LENGTH(parameters)] = {false};

    query->work_ns = 0;
    while (text.length > 0)
        if (parse_parameter(query, cut(&text, '&'), given, why) != 0)
            return -1;
    if (given[0])
        return 0;
    snprintf(why, ARITHMETIC_WHY_MAX, "n is missing (example: %s?n=10)",
             functions[query->function].name);
    return -1;
}

/* Computing */

static uint64_t fibonacci(int64_t n)
{
    uint64_t one = 0, next = 1;

    for (; n > 0; n--) {
        uint64_t sum = one + next; /* the last one (n = 94) wraps around and is not used */

        one = next;
        next = sum;
    }
    return one;
}

struct arithmetic_result arithmetic_compute(const struct arithmetic_query *query)
{
    bool negative = query->n < 0;
    uint64_t size = (uint64_t)(negative ? -query->n : query->n);

    switch (query->function) {
    case ARITHMETIC_FIBONACCI:
        return (struct arithmetic_result){false, fibonacci(query->n)};
    case ARITHMETIC_SQUARE:
        return (struct arithmetic_result){false, size * size};
    case ARITHMETIC_CUBE:
        return (struct arithmetic_result){negative, size * size * size};
    case ARITHMETIC_FUNCTION_COUNT:
        break;
    }
    return (struct arithmetic_result){false, 0};
}
