/*
 * Alerts: rules such as "p99 > 20ms for 5s" about the values of the last second: those of the user,
 * and the default rules (health.def), which decide whether a server is healthy. The console and
 * `wsctl watch` share the parser and the evaluation. Pure; a single thread.
 *
 *     NAME [> VALUE | < VALUE] [for TIME]
 *
 * NAME is a name of alerts.def, metrics.def or figures.def. Of a counter, the value is the increase
 * per second; with %, the share of the requests. Without a comparison the rule means "> 0".
 */
#ifndef CONSOLE_ALERTS_H
#define CONSOLE_ALERTS_H

#include "console/data/history.h"
#include "console/data/marks.h"
#include "console/data/model.h"
#include "console/data/processes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ALERT_RULE_BYTES = 96,
    ALERT_VALUE_BYTES = 32,
    ALERTS_MAX = 16,        /* besides the default rules */
    ALERT_LIST_BYTES = 400, /* all rules, separated by "; " */
    ALERT_RECORDS = 64,
    ALERT_WORDS_BYTES = 160,
};

enum alert_kind {
    ALERT_METRIC,
    ALERT_FIGURE,
    ALERT_PERCENTILE,
    ALERT_RISE,     /* a percentile divided by its median over the last hour */
    ALERT_CPU_WAIT, /* see cpu_shortage_wait() */
    ALERT_CPU_STOLEN,
    ALERT_MISSING, /* wanted workers that do not serve */
    ALERT_STOPPED, /* processes stopped by SIGSTOP or a debugger */
    ALERT_SILENT,  /* the longest time for which a thread has not answered the master */
    ALERT_LOG,     /* the longest time that a thread has waited for space in its log ring */
    ALERT_QUEUE, /* the longest time that a connection has waited in a full queue between threads */
};

/* What the rules read; all borrowed. */
struct alert_facts {
    const struct model *model;
    const struct history *history; /* not looking back */
    const struct process_table *processes;
};

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
double alert_rule_value(const struct alert_rule *rule, const struct alert_facts *facts);

/* Formats a value of the rule: "31.2 ms", "1.4 %". Returns BUFFER. */
char *alert_rule_format(const struct alert_rule *rule, double value, char *buffer, size_t size);

enum severity { SEVERITY_WARN, SEVERITY_BAD };

/* A line of health.def. */
struct health_rule {
    const char *rule;
    enum severity severity;
    uint64_t hold_ns;
    const char *view;
    const char *words;
};

enum {
    HEALTH_RULES = 0
#define HEALTH(rule, severity, hold_s, view, words) +1
#include "console/data/health.def"
#undef HEALTH
};

struct alert {
    struct alert_rule rule;
    const struct health_rule *health; /* NULL: a rule of the user */
    uint64_t since_ns; /* the comparison holds since then, monotonic clock; 0: it does not */
    uint64_t held_ns;  /* when it last held */
    bool active;       /* it has held for the time of the rule, and not ended since */
    bool acknowledged; /* the user has seen it; only meaningful if it is active or has been */
    double value;      /* the last one; while active the worst one */
};

enum alert_change { ALERT_SAME, ALERT_BEGAN, ALERT_ENDED };

extern const char *const alert_change_names[];

/* A change of an alert. */
struct alert_record {
    uint64_t wall_ns;
    enum alert_change change;
    enum severity severity;
    char rule[ALERT_RULE_BYTES];
    char value[ALERT_VALUE_BYTES];
};

struct alerts {
    size_t count;
    struct alert alert[ALERTS_MAX + HEALTH_RULES];
    uint64_t recorded; /* the newest ALERT_RECORDS of them are kept */
    struct alert_record record[ALERT_RECORDS];
};

/*
 * Adds a rule; one with the same text is not added again. Returns 0, or -1 with a message in WHY.
 */
int alerts_add(struct alerts *alerts, const char *text, char *why, size_t size);

/* Adds the rules in LIST, separated by ';'. Result as above. */
int alerts_add_list(struct alerts *alerts, const char *list, char *why, size_t size);

/* Adds the default rules. */
void alerts_add_defaults(struct alerts *alerts);

/*
 * Makes the rules in LIST, which is valid, those of the user. An alert whose rule stays keeps its
 * state.
 */
void alerts_set_list(struct alerts *alerts, const char *list);

/* Ends all alerts without a record, before a jump in time. */
void alerts_forget(struct alerts *alerts);

/* Removes the rule with TEXT; false if there is none. */
bool alerts_remove(struct alerts *alerts, const char *text);

/* Writes all rules in the form that alerts_add_list() reads. */
void alerts_write(const struct alerts *alerts, char *list, size_t size);

/*
 * Evaluates all rules at NOW_NS (monotonic clock) and records what changed. An alert ends when its
 * rule has not held for some time, so that it does not flicker.
 */
void alerts_update(struct alerts *alerts, const struct alert_facts *facts, uint64_t now_ns,
                   uint64_t wall_ns);

/* The newest record BACK = 0, the one before it, ... */
const struct alert_record *alerts_record(const struct alerts *alerts, uint64_t back);

/* Acknowledges all alerts that began; returns how many had not been acknowledged. */
size_t alerts_acknowledge(struct alerts *alerts);

/* Alerts that began and are not acknowledged, also those that are over. */
size_t alerts_unseen(const struct alerts *alerts);

/*
 * The worst of the active alerts: one that is not acknowledged before one that is, then by severity
 * and by the order of health.def. An acknowledged one that only waits for its end is not shown.
 * NULL: none; MORE receives the number of the others to show.
 */
const struct alert *alerts_worst(const struct alerts *alerts, size_t *more);

/*
 * Writes "worker 2 died 12 s ago, replaced": the words of the rule, its value, and how long ago it
 * held. FACTS are of the present; MARKS have the deaths of workers. Returns TEXT.
 */
char *alert_describe(const struct alert *alert, const struct alert_facts *facts,
                     const struct marks *marks, char *text, size_t size);

#endif
