#include "console/data/alerts.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names */

static const struct name {
    const char *name;
    enum alert_kind kind;
    int of;
} names[] = {
#define ALERT_NAME(name, kind, of) {name, ALERT_##kind, of},
#include "console/data/alerts.def"
#undef ALERT_NAME
};

enum { NAMES_MAX = ARRAY_LENGTH(names) + METRIC_COUNT + FIGURE_COUNT };

static int explain_name(const char *name, char *why, size_t size)
{
    const char *all[NAMES_MAX];
    char text[DID_YOU_MEAN_SIZE];
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        all[count++] = names[i].name;
    for (int i = 0; i < METRIC_COUNT; i++)
        all[count++] = metric_table[i].name;
    for (int i = 0; i < FIGURE_COUNT; i++)
        all[count++] = figure_table[i].name;
    snprintf(why, size, "unknown metric '%.40s'%s", name,
             did_you_mean(text, name, WORD_LIST(all, count),
                          " (examples: p99 > 20ms for 5s, 5xx > 1%)"));
    return -1;
}

static int parse_name(struct alert_rule *rule, const char *name, char *why, size_t size)
{
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(names[i].name, name) == 0) {
            rule->kind = names[i].kind;
            rule->of = names[i].of;
            return 0;
        }
    for (int i = 0; i < METRIC_COUNT; i++)
        if (strcmp(metric_table[i].name, name) == 0) {
            rule->kind = ALERT_METRIC;
            rule->of = i;
            return 0;
        }
    for (int i = 0; i < FIGURE_COUNT; i++)
        if (strcmp(figure_table[i].name, name) == 0) {
            rule->kind = ALERT_FIGURE;
            rule->of = i;
            return 0;
        }
    return explain_name(name, why, size);
}

/* Values */

static enum metric_unit unit_of(const struct alert_rule *rule)
{
    return rule->kind == ALERT_METRIC   ? metric_table[rule->of].unit
           : rule->kind == ALERT_FIGURE ? figure_table[rule->of].unit
                                        : UNIT_NANOSECONDS;
}

static bool is_gauge(const struct alert_rule *rule)
{
    return rule->kind == ALERT_METRIC && metric_table[rule->of].kind == KIND_GAUGE;
}

/* "500us", "20ms", "1.5s" in ns; -1: invalid. */
static double parse_time(const char *text)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}};
    char *end;
    double number = strtod(text, &end);

    for (size_t i = 0; end != text && i < ARRAY_LENGTH(units); i++)
        if (strcmp(end, units[i].unit) == 0)
            return number * units[i].ns;
    return -1;
}

static int parse_percent(struct alert_rule *rule, const char *text, char *why, size_t size)
{
    char *end;

    rule->limit = strtod(text, &end);
    rule->percent = true;
    if (end == text || strcmp(end, "%") != 0 || !(rule->limit >= 0)) {
        snprintf(why, size, "invalid percentage '%.40s' (example: 1%%)", text);
        return -1;
    }
    if (unit_of(rule) == UNIT_RATIO || (unit_of(rule) == UNIT_COUNT && !is_gauge(rule)))
        return 0;
    snprintf(why, size, "'%.40s' is not a percentage: give a number without %%", rule->text);
    return -1;
}

/* A decimal number, with k or M for powers of 1000. */
static double parse_count(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    double factor = strcmp(end, "k") == 0 ? 1e3 : strcmp(end, "M") == 0 ? 1e6 : 1;

    return end == text || (*end != '\0' && factor <= 1) ? -1 : number * factor;
}

static int parse_limit(struct alert_rule *rule, const char *text, char *why, size_t size)
{
    static const char *const examples[] = {[UNIT_COUNT] = "100, 5k",
                                           [UNIT_BYTES] = "64K, 10M",
                                           [UNIT_NANOSECONDS] = "500us, 20ms, 1s",
                                           [UNIT_RATIO] = "80%"};
    uint64_t bytes;

    if (strchr(text, '%') != NULL)
        return parse_percent(rule, text, why, size);
    rule->limit = -1;
    if (unit_of(rule) == UNIT_NANOSECONDS)
        rule->limit = parse_time(text);
    else if (unit_of(rule) == UNIT_BYTES && units_parse_size(text, &bytes) == 0)
        rule->limit = (double)bytes;
    else if (unit_of(rule) == UNIT_COUNT)
        rule->limit = parse_count(text);
    if (rule->limit >= 0 && isfinite(rule->limit))
        return 0;
    snprintf(why, size, "invalid value '%.40s' (examples: %s)", text, examples[unit_of(rule)]);
    return -1;
}

/* Rules */

/* Copies TEXT with single blanks, one around each comparison. */
static void normalise(const char *text, char *copy, size_t size)
{
    size_t used = 0;

    for (; *text != '\0' && used + 4 < size; text++) {
        bool compares = *text == '<' || *text == '>';

        if (isspace((unsigned char)*text)) {
            if (used > 0 && copy[used - 1] != ' ')
                copy[used++] = ' ';
            continue;
        }
        if (compares && used > 0 && copy[used - 1] != ' ')
            copy[used++] = ' ';
        copy[used++] = *text;
        if (compares)
            copy[used++] = ' ';
    }
    while (used > 0 && copy[used - 1] == ' ')
        used--;
    copy[used] = '\0';
}

/* Removes " for TIME" from the end of TEXT. Returns 0, or -1 with a message in WHY. */
static int take_duration(struct alert_rule *rule, char *text, char *why, size_t size)
{
    char *found = strstr(text, " for ");
    uint64_t ms;

    if (found == NULL)
        return 0;
    if (units_parse_time_ms(found + strlen(" for "), &ms) != 0) {
        snprintf(why, size, "invalid duration '%.40s' (examples: 500ms, 5s, 2m)",
                 found + strlen(" for "));
        return -1;
    }
    rule->for_ns = ms * NS_PER_MS;
    *found = '\0';
    return 0;
}

int alert_rule_parse(struct alert_rule *rule, const char *text, char *why, size_t size)
{
    char copy[ALERT_RULE_BYTES];
    size_t length;

    *rule = (struct alert_rule){.limit = 0};
    if (strlen(text) + 4 >= ALERT_RULE_BYTES) {
        snprintf(why, size, "the rule is longer than %d bytes", ALERT_RULE_BYTES - 5);
        return -1;
    }
    normalise(text, rule->text, sizeof(rule->text));
    memcpy(copy, rule->text, sizeof(copy));
    if (take_duration(rule, copy, why, size) != 0)
        return -1;
    length = strcspn(copy, "<>");
    rule->below = copy[length] == '<';
    if (copy[length] == '\0')
        return parse_name(rule, copy, why, size);
    copy[length > 0 ? length - 1 : 0] = '\0';
    if (parse_name(rule, copy, why, size) != 0)
        return -1;
    return parse_limit(rule, copy + length + strspn(copy + length, "<> "), why, size);
}

double alert_rule_value(const struct alert_rule *rule, const struct model *model)
{
    double value, requests = model_rate(model, METRIC_requests);

    if (model_now(model) == NULL)
        return NAN;
    if (rule->kind == ALERT_PERCENTILE)
        return model_percentile(model, rule->of);
    if (is_gauge(rule))
        return (double)model_now(model)->sums[rule->of];
    value = rule->kind == ALERT_METRIC ? model_rate(model, (enum metric)rule->of)
                                       : model_figure(model, (enum figure)rule->of);
    if (unit_of(rule) == UNIT_RATIO)
        return 100 * value;
    return rule->percent ? figure_quotient(100 * value, requests) : value;
}

char *alert_rule_format(const struct alert_rule *rule, double value, char *buffer, size_t size)
{
    if (isnan(value))
        snprintf(buffer, size, "-");
    else if (rule->percent || unit_of(rule) == UNIT_RATIO)
        snprintf(buffer, size, "%.3g %%", value);
    else if (unit_of(rule) == UNIT_NANOSECONDS)
        units_format_ns(buffer, size, value);
    else if (unit_of(rule) == UNIT_BYTES)
        units_format_bytes(buffer, size, value);
    else
        units_format_count(buffer, size, value);
    return buffer;
}

/* Alerts */

int alerts_add(struct alerts *alerts, const char *text, char *why, size_t size)
{
    struct alert_rule rule;

    if (alert_rule_parse(&rule, text, why, size) != 0)
        return -1;
    for (size_t i = 0; i < alerts->count; i++)
        if (strcmp(alerts->alert[i].rule.text, rule.text) == 0)
            return 0;
    if (alerts->count == ALERTS_MAX) {
        snprintf(why, size, "there are already %d alerts", ALERTS_MAX);
        return -1;
    }
    alerts->alert[alerts->count++] = (struct alert){.rule = rule, .acknowledged = true};
    return 0;
}

int alerts_add_list(struct alerts *alerts, const char *list, char *why, size_t size)
{
    char text[ALERT_RULE_BYTES];

    while (*list != '\0') {
        size_t length = strcspn(list, ";");

        snprintf(text, sizeof(text), "%.*s", (int)length, list);
        if (text[strspn(text, " ")] != '\0' && alerts_add(alerts, text, why, size) != 0)
            return -1;
        list += length + (list[length] == ';');
    }
    return 0;
}

bool alerts_remove(struct alerts *alerts, const char *text)
{
    char wanted[ALERT_RULE_BYTES];

    normalise(text, wanted, sizeof(wanted));
    for (size_t i = 0; i < alerts->count; i++)
        if (strcmp(alerts->alert[i].rule.text, wanted) == 0) {
            memmove(&alerts->alert[i], &alerts->alert[i + 1],
                    (--alerts->count - i) * sizeof(alerts->alert[0]));
            return true;
        }
    return false;
}

void alerts_write(const struct alerts *alerts, char *list, size_t size)
{
    size_t used = 0;

    list[0] = '\0';
    for (size_t i = 0; i < alerts->count && used < size; i++)
        used += (size_t)snprintf(list + used, size - used, "%s%s", i > 0 ? "; " : "",
                                 alerts->alert[i].rule.text);
}

static void record(struct alerts *alerts, const struct alert *alert, enum alert_change change,
                   uint64_t wall_ns)
{
    struct alert_record *into = &alerts->record[alerts->recorded++ % ALERT_RECORDS];

    *into = (struct alert_record){.wall_ns = wall_ns, .change = change};
    memcpy(into->rule, alert->rule.text, sizeof(into->rule));
    alert_rule_format(&alert->rule, alert->value, into->value, sizeof(into->value));
}

static bool exceeds(const struct alert_rule *rule, double value, double limit)
{
    return rule->below ? value < limit : value > limit;
}

enum alert_change alerts_update(struct alerts *alerts, size_t index, const struct model *model,
                                uint64_t now_ns, uint64_t wall_ns)
{
    struct alert *alert = &alerts->alert[index];
    double value = alert_rule_value(&alert->rule, model);
    bool holds = !isnan(value) && exceeds(&alert->rule, value, alert->rule.limit);
    enum alert_change change = ALERT_SAME;

    if (!holds)
        alert->since_ns = 0;
    else if (alert->since_ns == 0)
        alert->since_ns = now_ns;
    if (alert->active && !holds) {
        alert->active = false;
        change = ALERT_ENDED;
    } else if (!alert->active && holds && now_ns - alert->since_ns >= alert->rule.for_ns) {
        alert->active = true;
        alert->acknowledged = false;
        alert->value = value;
        change = ALERT_BEGAN;
    } else if (alert->active && exceeds(&alert->rule, value, alert->value)) {
        alert->value = value;
    }
    if (change != ALERT_SAME)
        record(alerts, alert, change, wall_ns);
    return change;
}

size_t alerts_acknowledge(struct alerts *alerts)
{
    size_t count = 0;

    for (size_t i = 0; i < alerts->count; i++) {
        count += !alerts->alert[i].acknowledged;
        alerts->alert[i].acknowledged = true;
    }
    return count;
}

const struct alert *alerts_worst(const struct alerts *alerts)
{
    const struct alert *worst = NULL;
    int rank = 0;

    for (size_t i = 0; i < alerts->count; i++) {
        const struct alert *alert = &alerts->alert[i];
        int own = (alert->acknowledged ? 0 : 2) + (alert->active ? 1 : 0);

        if (own > rank) {
            rank = own;
            worst = alert;
        }
    }
    return worst;
}
