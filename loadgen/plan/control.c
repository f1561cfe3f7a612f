#include "loadgen/plan/control.h"

#include "common/macros.h"
#include "common/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 32 };

static const struct {
    const char *word;
    enum change_kind kind;
} words[] = {
    {"rate", CHANGE_RATE},
    {"connections", CHANGE_CONNECTIONS},
    {"threads", CHANGE_THREADS},
    {"stop", CHANGE_STOP},
};

/* "2000", "2.5k", "+50", "-10%". */
static bool read_value(const char *text, struct change *change)
{
    bool relative = *text == '+' || *text == '-';
    const char *number = text + (relative ? 1 : 0);
    size_t digits = strspn(number, "0123456789.");
    uint64_t count;
    char *end;

    change->way = relative ? CHANGE_BY : CHANGE_TO;
    change->value = strtod(number, &end);
    if (digits == 0 || end != number + digits)
        return false;
    if (strcmp(end, "%") == 0 && relative)
        change->way = CHANGE_BY_PERCENT;
    else if (units_parse_count(number, &count) == 0)
        change->value = (double)count;
    else if (*end != '\0')
        return false;
    if (*text == '-')
        change->value = -change->value;
    return true;
}

int control_read_line(const char *line, struct change *change, char *why, size_t size)
{
    char word[WORD_MAX], value[WORD_MAX], rest[2];
    int count = sscanf(line, "%31s %31s %1s", word, value, rest);

    *change = (struct change){0};
    for (size_t i = 0; count >= 1 && i < ARRAY_LENGTH(words); i++) {
        if (strcmp(words[i].word, word) != 0)
            continue;
        change->kind = words[i].kind;
        if (count == 1 && change->kind == CHANGE_STOP)
            return 0;
        if (count == 2 && change->kind != CHANGE_STOP && read_value(value, change))
            return 0;
        snprintf(why, size, "'%s': %s", line,
                 change->kind == CHANGE_STOP ? "stop stands alone"
                                             : "needs one number, such as 50, +10 or -10%");
        return -1;
    }
    snprintf(why, size, "'%s' is not understood; say rate N, connections N, threads N or stop",
             line);
    return -1;
}

bool control_read_key(char key, struct change *change)
{
    static const struct {
        char key;
        struct change change;
    } keys[] = {
        {'+', {CHANGE_MAIN, CHANGE_BY_PERCENT, 10}},
        {'=', {CHANGE_MAIN, CHANGE_BY_PERCENT, 10}},
        {'-', {CHANGE_MAIN, CHANGE_BY_PERCENT, -10}},
        {'C', {CHANGE_CONNECTIONS, CHANGE_BY_PERCENT, 10}},
        {'c', {CHANGE_CONNECTIONS, CHANGE_BY_PERCENT, -10}},
        {'T', {CHANGE_THREADS, CHANGE_BY, 1}},
        {'t', {CHANGE_THREADS, CHANGE_BY, -1}},
        {'q', {CHANGE_STOP, CHANGE_TO, 0}},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
        if (keys[i].key == key) {
            *change = keys[i].change;
            return true;
        }
    return false;
}

static double apply(const struct change *change, double value)
{
    switch (change->way) {
    case CHANGE_TO:
        return change->value;
    case CHANGE_BY:
        return value + change->value;
    case CHANGE_BY_PERCENT:
        return value + value * change->value / 100;
    }
    return value;
}

double control_apply(const struct change *change, double value)
{
    double changed = apply(change, value);

    if (change->kind == CHANGE_RATE)
        return changed > 0 ? changed : value;
    if (change->way == CHANGE_BY_PERCENT) /* a step that rounding would swallow is one */
        changed =
            changed > value ? fmax(floor(changed), value + 1) : fmin(ceil(changed), value - 1);
    changed = floor(changed);
    return changed >= 1 ? changed : 1;
}
