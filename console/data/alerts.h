/*
 * Alerts: rules such as "p99 > 20ms for 5s" about the values of the last second. The console and
 * `wsctl watch` share the parser and the evaluation. Pure; a single thread.
 *
 *     NAME [> VALUE | < VALUE] [for TIME]
 *
 * NAME is a name of alerts.def, metrics.def or figures.def. Of a counter, the value is the increase
 * per second; with %, the share of the requests. Without a comparison the rule means "> 0".
 */
#ifndef CONSOLE_ALERTS_H
#define CONSOLE_ALERTS_H

#include "console/data/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ALERT_RULE_BYTES = 96,
    ALERT_VALUE_BYTES = 32,
    ALERTS_MAX = 16,
    ALERT_LIST_BYTES = 400, /* all rules, separated by "; " */
    ALERT_RECORDS = 64,
};

enum alert_kind { ALERT_METRIC, ALERT_FIGURE, ALERT_PERCENTILE };

struct alert_rule {
    char text[ALERT_RULE_BYTES]; /* as given, blanks normalised */
    enum alert_kind kind;
    int of; /* metric, figure or percent */
    bool below;
    bool percent; /* LIMIT and value are percent: of the requests, or of 1 for a ratio */
    double limit; /* has the unit of the value */
    uint64_t for_ns;
};

/* Returns 0, or -1 with a message in WHY. */
int alert_rule_parse(struct alert_rule *rule, const char *text, char *why, size_t size);

/* The value that the rule compares; NAN: none. */
double alert_rule_value(const struct alert_rule *rule, const struct model *model);

/* Formats a value of the rule: "31.2 ms", "1.4 %". Returns BUFFER. */
char *alert_rule_format(const struct alert_rule *rule, double value, char *buffer, size_t size);

struct alert {
    struct alert_rule rule;
    uint64_t since_ns; /* the comparison holds since then, monotonic clock; 0: it does not */
    bool active;       /* it has held for the time of the rule */
    bool acknowledged; /* the user has seen it; only meaningful if it is active or has been */
    double value;      /* the last one; while active the worst one */
};

enum alert_change { ALERT_SAME, ALERT_BEGAN, ALERT_ENDED };

/* A change of an alert. */
struct alert_record {
    uint64_t wall_ns;
    enum alert_change change;
    char rule[ALERT_RULE_BYTES];
    char value[ALERT_VALUE_BYTES];
};

struct alerts {
    size_t count;
    struct alert alert[ALERTS_MAX];
    uint64_t recorded; /* the newest ALERT_RECORDS of them are kept */
    struct alert_record record[ALERT_RECORDS];
};

/*
 * Adds a rule; one with the same text is not added again. Returns 0, or -1 with a message in WHY.
 */
int alerts_add(struct alerts *alerts, const char *text, char *why, size_t size);

/* Adds the rules in LIST, separated by ';'. Result as above. */
int alerts_add_list(struct alerts *alerts, const char *list, char *why, size_t size);

/* Removes the rule with TEXT; false if there is none. */
bool alerts_remove(struct alerts *alerts, const char *text);

/* Writes all rules in the form that alerts_add_list() reads. */
void alerts_write(const struct alerts *alerts, char *list, size_t size);

/* Evaluates the alert INDEX at NOW_NS (monotonic clock) and records a change. */
enum alert_change alerts_update(struct alerts *alerts, size_t index, const struct model *model,
                                uint64_t now_ns, uint64_t wall_ns);

/* Acknowledges all alerts that began; returns how many had not been acknowledged. */
size_t alerts_acknowledge(struct alerts *alerts);

/*
 * The alert to show: active and not acknowledged, else over and not acknowledged, else active;
 * NULL: none.
 */
const struct alert *alerts_worst(const struct alerts *alerts);

#endif
