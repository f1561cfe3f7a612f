#include "console/data/alerts.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include <ctype.h>
#include <inttypes.h>
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
    switch (rule->kind) {
    case ALERT_METRIC:
        return metric_table[rule->of].unit;
    case ALERT_FIGURE:
        return figure_table[rule->of].unit;
    case ALERT_PERCENTILE:
    case ALERT_SILENT:
    case ALERT_QUEUE:
    case ALERT_LOG:
        return UNIT_NANOSECONDS;
    case ALERT_CPU_WAIT:
    case ALERT_CPU_STOLEN:
        return UNIT_RATIO;
    case ALERT_RISE:
    case ALERT_MISSING:
    case ALERT_STOPPED:
        break;
    }
    return UNIT_COUNT;
}

/* False of a number per second, which may also be a share of the requests. */
static bool is_level(const struct alert_rule *rule)
{
    return rule->kind == ALERT_METRIC ? metric_table[rule->of].kind == KIND_GAUGE
                                      : rule->kind != ALERT_FIGURE;
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
    if (unit_of(rule) == UNIT_RATIO || (unit_of(rule) == UNIT_COUNT && !is_level(rule)))
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

static int compare_numbers(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

enum { RISE_SPAN_S = 3600, RISE_VALUES = 12 };

#define RISE_FLOOR_NS (20.0 * NS_PER_MS) /* a rise below it is not reported */

/* NAN below the floor, and while less than two minutes with requests are known. */
static double rise(const struct alert_rule *rule, const struct alert_facts *facts)
{
    static double values[HISTORY_VALUES];
    double now = model_percentile(facts->model, rule->of);
    size_t count, known = 0;

    if (facts->history == NULL || !(now >= RISE_FLOOR_NS))
        return NAN;
    count = history_span(facts->history, SERIES_LATENCY_P99, RISE_SPAN_S, values);
    for (size_t i = 0; i < count; i++)
        if (values[i] > 0)
            values[known++] = values[i];
    if (known < RISE_VALUES)
        return NAN;
    qsort(values, known, sizeof(values[0]), compare_numbers);
    return now / values[known / 2];
}

#define WAIT_FLOOR_NS (10.0 * NS_PER_MS) /* at full load threads wait, but responses need not */

/* A wait for CPU, or stolen CPU time; 0 while no response is late. */
static double missing_cpu(const struct alert_facts *facts, bool stolen)
{
    const struct cpu_shortage *shortage;

    if (facts->processes == NULL)
        return NAN;
    shortage = &facts->processes->shortage;
    if (!(model_percentile(facts->model, 99) >= WAIT_FLOOR_NS))
        return 0;
    return stolen ? (double)shortage->stolen : cpu_shortage_wait(shortage);
}

static double missing_workers(const struct snapshot *now)
{
    uint32_t serving = 0;

    for (uint32_t i = 0; i < now->worker_count; i++)
        serving += now->workers[i].state == WORKER_SERVING;
    return serving < now->workers_wanted ? now->workers_wanted - serving : 0;
}

/* True if the worker serves and its process is not stopped. */
static bool can_answer(const struct alert_facts *facts, const struct worker_sample *worker)
{
    const struct process_table *table = facts->processes;
    uint32_t i = 0;

    while (table != NULL && i < table->count && table->process[i].pid != worker->pid)
        i++;
    return worker->state == WORKER_SERVING &&
           (table == NULL || i == table->count || !table->stopped[i]);
}

/* The same of a thread. With a thread for each connection, only the acceptor answers. */
static bool can_thread_answer(const struct alert_facts *facts, const struct thread_sample *thread)
{
    const struct snapshot *now = model_now(facts->model);

    if (thread->activity.state == THREAD_STATE_NONE)
        return false;
    for (uint32_t i = 0; i < now->worker_count; i++)
        if (now->workers[i].slot == thread->worker)
            return can_answer(facts, &now->workers[i]) &&
                   (now->workers[i].model != MODEL_THREAD ||
                    thread->thread < now->workers[i].acceptors);
    return false;
}

/* The thread that has not answered the master for the longest time. */
struct silent {
    uint64_t silent_ns;
    uint32_t worker, thread;
    bool main; /* the main thread of the worker */
};

static struct silent find_silent(const struct alert_facts *facts)
{
    const struct snapshot *now = model_now(facts->model);
    struct silent found = {0};

    for (uint32_t i = 0; i < now->worker_count; i++)
        if (now->workers[i].silent_ns > found.silent_ns && can_answer(facts, &now->workers[i]))
            found = (struct silent){now->workers[i].silent_ns, now->workers[i].slot, 0, true};
    for (uint32_t i = 0; i < now->thread_count; i++) {
        const struct thread_sample *thread = &now->threads[i];

        if (thread->silent_ns > found.silent_ns && can_thread_answer(facts, thread))
            found = (struct silent){thread->silent_ns, thread->worker, thread->thread, false};
    }
    return found;
}

#define STARVED        0.2  /* share of its time that the server waits for a CPU */
#define CROWDED        0.95 /* share of the time in which some task of the machine does */
#define STARVED_FOR_NS (10 * NS_PER_S)

/*
 * While the server waits for CPU, its threads answer late: only a long silence counts. An idle
 * server waits for a small share of its time, but as long as all others.
 */
static double silent_ns(const struct alert_facts *facts)
{
    uint64_t ns = find_silent(facts).silent_ns;
    const struct process_table *table = facts->processes;
    bool starved = table != NULL && (cpu_shortage_wait(&table->shortage) > STARVED ||
                                     (double)table->shortage.machine > CROWDED);

    return starved && ns < STARVED_FOR_NS ? 0 : (double)ns;
}

static double stopped_processes(const struct alert_facts *facts)
{
    double count = 0;

    for (uint32_t i = 0; facts->processes != NULL && i < facts->processes->count; i++)
        count += facts->processes->stopped[i];
    return count;
}

/* 0 if no thread waits for the log. */
static double log_wait_ns(const struct snapshot *now)
{
    uint64_t longest_ns = 0;

    for (uint32_t i = 0; i < now->thread_count; i++) {
        const struct activity_copy *activity = &now->threads[i].activity;

        if (activity->state == THREAD_STATE_LOG && activity->since_ns < now->states_ns &&
            now->states_ns - activity->since_ns > longest_ns)
            longest_ns = now->states_ns - activity->since_ns;
    }
    return (double)longest_ns;
}

/* 0 if no queue is full. */
static double wait_in_full_queue_ns(const struct snapshot *now)
{
    uint64_t longest_ns = 0;

    for (uint32_t i = 0; i < now->worker_count; i++) {
        const uint64_t *values = now->workers[i].values;

        if (values[METRIC_queue_capacity] > 0 &&
            values[METRIC_queue_length] >= values[METRIC_queue_capacity] &&
            values[METRIC_queue_oldest] > longest_ns)
            longest_ns = values[METRIC_queue_oldest];
    }
    return (double)longest_ns;
}

static double metric_value(const struct alert_rule *rule, const struct model *model)
{
    return is_level(rule) ? (double)model_now(model)->sums[rule->of]
                          : model_rate(model, (enum metric)rule->of);
}

static double kind_value(const struct alert_rule *rule, const struct alert_facts *facts)
{
    switch (rule->kind) {
    case ALERT_METRIC:
        return metric_value(rule, facts->model);
    case ALERT_FIGURE:
        return model_figure(facts->model, (enum figure)rule->of);
    case ALERT_PERCENTILE:
        return model_percentile(facts->model, rule->of);
    case ALERT_RISE:
        return rise(rule, facts);
    case ALERT_CPU_WAIT:
        return missing_cpu(facts, false);
    case ALERT_CPU_STOLEN:
        return missing_cpu(facts, true);
    case ALERT_MISSING:
        return missing_workers(model_now(facts->model));
    case ALERT_STOPPED:
        return stopped_processes(facts);
    case ALERT_SILENT:
        return silent_ns(facts);
    case ALERT_LOG:
        return log_wait_ns(model_now(facts->model));
    case ALERT_QUEUE:
        return wait_in_full_queue_ns(model_now(facts->model));
    }
    return NAN;
}

double alert_rule_value(const struct alert_rule *rule, const struct alert_facts *facts)
{
    double value;

    if (model_now(facts->model) == NULL)
        return NAN;
    value = kind_value(rule, facts);
    if (unit_of(rule) == UNIT_RATIO)
        return 100 * value;
    return rule->percent ? figure_quotient(100 * value, model_rate(facts->model, METRIC_requests))
                         : value;
}

char *alert_rule_format(const struct alert_rule *rule, double value, char *buffer, size_t size)
{
    if (isnan(value))
        snprintf(buffer, size, "-");
    else if (rule->percent || unit_of(rule) == UNIT_RATIO)
        snprintf(buffer, size, "%.3g%%", value);
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
    if (alerts->count == ARRAY_LENGTH(alerts->alert)) {
        snprintf(why, size, "there are already %zu alerts", alerts->count);
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

/* Severity and hold time of rules of the user */
#define USER_HOLD_NS (5 * NS_PER_S)

static enum severity severity_of(const struct alert *alert)
{
    return alert->health != NULL ? alert->health->severity : SEVERITY_BAD;
}

void alerts_add_defaults(struct alerts *alerts)
{
    static const struct health_rule rules[] = {
#define HEALTH(rule, severity, hold_s, view, words)                                                \
    {rule, SEVERITY_##severity, (hold_s)*NS_PER_S, view, words},
#include "console/data/health.def"
#undef HEALTH
    };
    char why[256];

    for (size_t i = 0; i < ARRAY_LENGTH(rules); i++)
        if (alerts_add(alerts, rules[i].rule, why, sizeof(why)) == 0)
            alerts->alert[alerts->count - 1].health = &rules[i];
}

void alerts_set_list(struct alerts *alerts, const char *list)
{
    static struct alerts before; /* too large for the stack */
    size_t kept = 0;
    char why[256];

    before = *alerts;
    while (kept < alerts->count && alerts->alert[kept].health != NULL)
        kept++;
    alerts->count = kept;
    alerts_add_list(alerts, list, why, sizeof(why));
    for (size_t i = kept; i < alerts->count; i++)
        for (size_t j = kept; j < before.count; j++)
            if (strcmp(alerts->alert[i].rule.text, before.alert[j].rule.text) == 0)
                alerts->alert[i] = before.alert[j];
}

void alerts_forget(struct alerts *alerts)
{
    for (size_t i = 0; i < alerts->count; i++) {
        alerts->alert[i].active = false;
        alerts->alert[i].acknowledged = true;
        alerts->alert[i].since_ns = alerts->alert[i].held_ns = 0;
    }
    alerts->recorded = 0;
}

static void record(struct alerts *alerts, const struct alert *alert, enum alert_change change,
                   uint64_t wall_ns)
{
    struct alert_record *into = &alerts->record[alerts->recorded++ % ALERT_RECORDS];

    *into =
        (struct alert_record){.wall_ns = wall_ns, .change = change, .severity = severity_of(alert)};
    memcpy(into->rule, alert->rule.text, sizeof(into->rule));
    alert_rule_format(&alert->rule, alert->value, into->value, sizeof(into->value));
}

const struct alert_record *alerts_record(const struct alerts *alerts, uint64_t back)
{
    return &alerts->record[(alerts->recorded - 1 - back) % ALERT_RECORDS];
}

static bool exceeds(const struct alert_rule *rule, double value, double limit)
{
    return rule->below ? value < limit : value > limit;
}

const char *const alert_change_names[] = {
    [ALERT_SAME] = "", [ALERT_BEGAN] = "began", [ALERT_ENDED] = "ended"};

static enum alert_change update_alert(struct alert *alert, double value, uint64_t now_ns)
{
    uint64_t hold_ns = alert->health != NULL ? alert->health->hold_ns : USER_HOLD_NS;

    if (isnan(value) || !exceeds(&alert->rule, value, alert->rule.limit)) {
        alert->since_ns = 0;
        if (!alert->active || now_ns < alert->held_ns + hold_ns)
            return ALERT_SAME;
        alert->active = false;
        return ALERT_ENDED;
    }
    alert->held_ns = now_ns;
    if (alert->since_ns == 0)
        alert->since_ns = now_ns;
    if (alert->active) {
        if (exceeds(&alert->rule, value, alert->value))
            alert->value = value;
        return ALERT_SAME;
    }
    if (now_ns - alert->since_ns < alert->rule.for_ns)
        return ALERT_SAME;
    alert->active = true;
    alert->acknowledged = false;
    alert->value = value;
    return ALERT_BEGAN;
}

void alerts_update(struct alerts *alerts, const struct alert_facts *facts, uint64_t now_ns,
                   uint64_t wall_ns)
{
    for (size_t i = 0; i < alerts->count; i++) {
        struct alert *alert = &alerts->alert[i];
        enum alert_change change =
            update_alert(alert, alert_rule_value(&alert->rule, facts), now_ns);

        if (change != ALERT_SAME)
            record(alerts, alert, change, wall_ns);
    }
}

size_t alerts_unseen(const struct alerts *alerts)
{
    size_t count = 0;

    for (size_t i = 0; i < alerts->count; i++)
        count += !alerts->alert[i].acknowledged;
    return count;
}

size_t alerts_acknowledge(struct alerts *alerts)
{
    size_t count = alerts_unseen(alerts);

    for (size_t i = 0; i < alerts->count; i++)
        alerts->alert[i].acknowledged = true;
    return count;
}

static bool is_worse(const struct alert *alert, const struct alert *other)
{
    return alert->acknowledged != other->acknowledged ? !alert->acknowledged
                                                      : severity_of(alert) > severity_of(other);
}

const struct alert *alerts_worst(const struct alerts *alerts, size_t *more)
{
    const struct alert *worst = NULL;

    *more = 0;
    for (size_t i = 0; i < alerts->count; i++) {
        const struct alert *alert = &alerts->alert[i];

        if (!alert->active || (alert->acknowledged && alert->since_ns == 0))
            continue;
        *more += worst != NULL;
        if (worst == NULL || is_worse(alert, worst))
            worst = alert;
    }
    return worst;
}

/* Words */

/* The number of marks until NOW: those of a recording may be later. */
static size_t marks_until(const struct marks *marks, const struct snapshot *now)
{
    size_t count = marks->count;

    while (count > 0 && marks->mark[count - 1].time_ns > now->wall_ns)
        count--;
    return count;
}

/* "worker 2 died"; returns false if no event names it. */
static bool describe_death(const struct snapshot *now, const struct marks *marks, char *text,
                           size_t size, const char **state)
{
    unsigned slot;
    int pid;
    size_t at = marks_until(marks, now);

    while (at > 0 && (marks->mark[at - 1].kind != MARK_crash ||
                      sscanf(marks->mark[at - 1].text, "worker %u (pid %d)", &slot, &pid) != 2))
        at--;
    if (at == 0)
        return false;
    snprintf(text, size, "worker %u died", slot);
    *state = ", not replaced yet";
    for (uint32_t i = 0; i < now->worker_count; i++)
        if (now->workers[i].slot == slot && now->workers[i].state == WORKER_SERVING &&
            now->workers[i].pid != pid)
            *state = ", replaced";
    return true;
}

/* "the logger died"; returns false if no event names it. */
static bool describe_other_death(const struct snapshot *now, const struct marks *marks, char *text,
                                 size_t size)
{
    for (size_t i = marks_until(marks, now); i > 0; i--) {
        const struct mark *mark = &marks->mark[i - 1];
        const char *end = strstr(mark->text, " (pid ");

        if (mark->kind == MARK_crash && strncmp(mark->text, "the ", 4) == 0 && end != NULL) {
            snprintf(text, size, "%.*s died", (int)(end - mark->text), mark->text);
            return true;
        }
    }
    return false;
}

/* "worker 2 does not run (stopped)"; false if none is stopped now. */
static bool describe_stopped(const struct alert_facts *facts, char *text, size_t size)
{
    const struct process_usage *process =
        facts->processes != NULL ? processes_stopped(facts->processes) : NULL;

    if (process == NULL)
        return false;
    if (process->role == ROLE_WORKER)
        snprintf(text, size, "worker %" PRIu32 " does not run (stopped)", process->slot);
    else
        snprintf(text, size, "the %s does not run (stopped)", role_names[process->role]);
    return true;
}

/* "thread 2.1 has not answered for 4 s"; false if all answer now. */
static bool describe_silent(const struct alert *alert, const struct alert_facts *facts, char *text,
                            size_t size)
{
    struct silent silent = find_silent(facts);
    char age[UNITS_TEXT];

    if (!((double)silent.silent_ns > alert->rule.limit))
        return false;
    units_format_age(age, sizeof(age), silent.silent_ns);
    if (silent.main)
        snprintf(text, size, "the main thread of worker %" PRIu32 " has not answered for %s",
                 silent.worker, age);
    else
        snprintf(text, size, "thread %" PRIu32 ".%" PRIu32 " has not answered for %s",
                 silent.worker, silent.thread, age);
    return true;
}

/* Words that name the process or the thread; false: those of the rule are all. */
static bool describe_subject(const struct alert *alert, const struct alert_facts *facts,
                             const struct marks *marks, char *text, size_t size, const char **state)
{
    switch (alert->rule.kind) {
    case ALERT_METRIC:
        return alert->rule.of == METRIC_workers_died
                   ? describe_death(model_now(facts->model), marks, text, size, state)
                   : alert->rule.of == METRIC_processes_died &&
                         describe_other_death(model_now(facts->model), marks, text, size);
    case ALERT_STOPPED:
        return describe_stopped(facts, text, size);
    case ALERT_SILENT:
        return describe_silent(alert, facts, text, size);
    default:
        return false;
    }
}

/* Copies WORDS with VALUE instead of "%s". */
static void write_words(const char *words, const char *value, char *text, size_t size)
{
    const char *place = strstr(words, "%s");

    if (place == NULL)
        snprintf(text, size, "%s", words);
    else
        snprintf(text, size, "%.*s%s%s", (int)(place - words), words, value, place + strlen("%s"));
}

char *alert_describe(const struct alert *alert, const struct alert_facts *facts,
                     const struct marks *marks, char *text, size_t size)
{
    uint64_t now_ns = model_now(facts->model)->time_ns;
    char value[ALERT_VALUE_BYTES], age[UNITS_TEXT];
    const char *state = "";
    bool has_value = alert->health == NULL || strstr(alert->health->words, "%s") != NULL;
    size_t used;

    alert_rule_format(&alert->rule, alert->value, value, sizeof(value));
    if (alert->health == NULL)
        snprintf(text, size, "%s: %s", alert->rule.text, value);
    else if (!describe_subject(alert, facts, marks, text, size, &state))
        write_words(alert->health->words, value, text, size);
    used = strlen(text);
    if (alert->since_ns == 0 && now_ns > alert->held_ns && used < size)
        snprintf(text + used, size - used, "%s %s ago%s", has_value ? "," : "",
                 units_format_age(age, sizeof(age), now_ns - alert->held_ns), state);
    return text;
}
