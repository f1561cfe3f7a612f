#include "loadgen/stats/tally.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const error_kind_names[ERROR_KIND_COUNT] = {
#define ERROR_KIND(id, name, label) name,
#include "loadgen/stats/error_kinds.def"
#undef ERROR_KIND
};

const char *const error_kind_labels[ERROR_KIND_COUNT] = {
#define ERROR_KIND(id, name, label) label,
#include "loadgen/stats/error_kinds.def"
#undef ERROR_KIND
};

void error_texts_record(struct error_texts *texts, enum error_kind kind, const char *text)
{
    bool varies = kind == ERROR_KIND_TLS || kind == ERROR_KIND_LOCAL ||
                  kind == ERROR_KIND_RESOLVE || kind == ERROR_KIND_MALFORMED ||
                  kind == ERROR_KIND_CLOSED || kind == ERROR_KIND_OTHER;

    if (varies && texts->first[kind][0] == '\0')
        snprintf(texts->first[kind], ERROR_TEXT, "%s", text);
}

void error_texts_add(struct error_texts *into, const struct error_texts *from)
{
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        error_texts_record(into, (enum error_kind)kind, from->first[kind]);
}

void negotiations_record(struct negotiations *negotiations, const struct negotiation *what,
                         uint64_t n)
{
    size_t i = 0;

    while (i < negotiations->count && memcmp(&negotiations->of[i].what, what, sizeof(*what)) != 0)
        i++;
    if (i == NEGOTIATIONS_MAX)
        return;
    if (i == negotiations->count) {
        negotiations->of[i].what = *what;
        negotiations->count++;
    }
    negotiations->of[i].connections += n;
}

void negotiations_add(struct negotiations *into, const struct negotiations *from)
{
    for (size_t i = 0; i < from->count; i++)
        negotiations_record(into, &from->of[i].what, from->of[i].connections);
    if (from->least_streams > 0 &&
        (into->least_streams == 0 || from->least_streams < into->least_streams))
        into->least_streams = from->least_streams;
}

static uint64_t load_counter(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void add_counter(_Atomic uint64_t *word, uint64_t n)
{
    atomic_store_explicit(word, load_counter(word) + n, memory_order_relaxed);
}

void tally_record_connection(struct tally *tally, const struct transaction *transaction)
{
    if (!transaction->connected)
        return;
    tally_count(tally, TALLY_connections_opened, 1);
    histogram_record(&tally->connect, transaction->connect_ns);
    if (transaction->handshake_ns > 0)
        histogram_record(transaction->resumed ? &tally->resumed_handshake : &tally->full_handshake,
                         transaction->handshake_ns);
}

void tally_record(struct tally *tally, const struct transaction *transaction)
{
    tally_count(tally, TALLY_head_bytes, transaction->head_bytes);
    tally_count(tally, TALLY_body_bytes, transaction->body_bytes);
    if (transaction->retries > 0)
        tally_count(tally, TALLY_retried, transaction->retries);
    if (transaction->error != ERROR_KIND_NONE) {
        add_counter(&tally->error[transaction->error], 1);
        return;
    }
    tally_count(tally, TALLY_answered, 1);
    tally_count(tally, TALLY_downgraded, transaction->downgraded ? 1 : 0);
    if (transaction->bad_status)
        tally_count(tally, TALLY_bad_statuses, 1);
    else if (transaction->bad_content)
        tally_count(tally, TALLY_bad_contents, 1);
    else if (transaction->bad_extraction)
        tally_count(tally, TALLY_bad_extractions, 1);
    add_counter(&tally->status[transaction->status < TALLY_STATUSES ? transaction->status : 0], 1);
    histogram_record(&tally->latency, transaction->latency_ns);
    histogram_record(&tally->service, transaction->service_ns);
    histogram_record(&tally->first_byte, transaction->first_byte_ns);
}

static void add_all(_Atomic uint64_t *into, const _Atomic uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_counter(&into[i], load_counter(&from[i]));
}

void tally_add(struct tally *into, const struct tally *from)
{
    add_all(into->counter, from->counter, TALLY_COUNTER_COUNT);
    add_all(into->error, from->error, ERROR_KIND_COUNT);
    add_all(into->status, from->status, TALLY_STATUSES);
    histogram_add(&into->latency, &from->latency);
    histogram_add(&into->service, &from->service);
    histogram_add(&into->first_byte, &from->first_byte);
    histogram_add(&into->connect, &from->connect);
    histogram_add(&into->full_handshake, &from->full_handshake);
    histogram_add(&into->resumed_handshake, &from->resumed_handshake);
}

static void clear_all(_Atomic uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&words[i], 0, memory_order_relaxed);
}

void tally_reset(struct tally *tally)
{
    clear_all(tally->counter, TALLY_COUNTER_COUNT);
    clear_all(tally->error, ERROR_KIND_COUNT);
    clear_all(tally->status, TALLY_STATUSES);
    histogram_reset(&tally->latency);
    histogram_reset(&tally->service);
    histogram_reset(&tally->first_byte);
    histogram_reset(&tally->connect);
    histogram_reset(&tally->full_handshake);
    histogram_reset(&tally->resumed_handshake);
}

uint64_t tally_get(const struct tally *tally, enum tally_counter counter)
{
    return load_counter(&tally->counter[counter]);
}

uint64_t tally_status(const struct tally *tally, uint32_t status)
{
    return status < TALLY_STATUSES ? load_counter(&tally->status[status]) : 0;
}

uint64_t tally_error(const struct tally *tally, enum error_kind kind)
{
    return load_counter(&tally->error[kind]);
}

uint64_t tally_unsent(const struct tally *tally)
{
    return tally_get(tally, TALLY_unsent_busy) + tally_get(tally, TALLY_unsent_late);
}

uint64_t tally_errors(const struct tally *tally)
{
    uint64_t sum = 0;

    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        sum += load_counter(&tally->error[kind]);
    return sum;
}

uint64_t tally_bad(const struct tally *tally)
{
    return tally_errors(tally) + tally_get(tally, TALLY_unanswered) +
           tally_get(tally, TALLY_bad_statuses) + tally_get(tally, TALLY_bad_contents) +
           tally_get(tally, TALLY_bad_extractions);
}

/* ---- Conditions ---- */

static const struct histogram *series_of(const struct condition *condition,
                                         const struct tally *tally)
{
    switch (condition->series) {
    case CONDITION_LATENCY:
        return &tally->latency;
    case CONDITION_SERVICE:
        return &tally->service;
    case CONDITION_FIRST_BYTE:
        return &tally->first_byte;
    case CONDITION_CONNECT:
        return &tally->connect;
    case CONDITION_FULL_HANDSHAKE:
        return &tally->full_handshake;
    case CONDITION_RESUMED_HANDSHAKE:
        return &tally->resumed_handshake;
    }
    return &tally->latency;
}

bool tally_condition_value(const struct tally *tally, const struct condition *condition,
                           uint64_t elapsed_ns, double *value)
{
    const struct histogram *times = series_of(condition, tally);
    uint64_t begun = tally_get(tally, TALLY_begun);

    switch (condition->metric) {
    case CONDITION_PERCENTILE:
        *value = (double)histogram_percentile(times, condition->percent);
        return histogram_count(times) > 0;
    case CONDITION_MEAN:
        *value = histogram_mean(times);
        return histogram_count(times) > 0;
    case CONDITION_MAX:
        *value = (double)histogram_max(times);
        return histogram_count(times) > 0;
    case CONDITION_RATE:
        *value = elapsed_ns > 0
                     ? (double)tally_get(tally, TALLY_answered) * 1e9 / (double)elapsed_ns
                     : 0;
        return elapsed_ns > 0;
    case CONDITION_ERRORS:
        *value = (double)tally_bad(tally);
        return true;
    case CONDITION_ERROR_PERCENT:
        *value = begun > 0 ? 100.0 * (double)tally_bad(tally) / (double)begun : 0;
        return begun > 0;
    case CONDITION_STATUS:
        *value = (double)tally_status(tally, condition->status);
        return true;
    }
    return false;
}

/* The bucket of the limit counts in proportion to its part above the limit. */
double tally_part_above(const struct tally *tally, const struct condition *condition)
{
    const struct histogram *times = series_of(condition, tally);
    double above = 0, all = 0;

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        double count = (double)atomic_load_explicit(&times->bucket[i], memory_order_relaxed);
        double low = (double)histogram_lowest(i), high = (double)histogram_highest(i) + 1;

        all += count;
        if (low >= condition->limit)
            above += count;
        else if (high > condition->limit)
            above += count * (high - condition->limit) / (high - low);
    }
    return all > 0 ? above / all : NAN;
}

bool tally_meets_condition(const struct tally *tally, const struct condition *condition,
                           uint64_t elapsed_ns)
{
    double value;

    if (!tally_condition_value(tally, condition, elapsed_ns, &value))
        return false;
    if (condition->or_equal && value == condition->limit)
        return true;
    return condition->above ? value > condition->limit : value < condition->limit;
}

/* ---- Scenarios ---- */

struct scenario_tally *scenario_tally_allocate(size_t count)
{
    struct scenario_tally *tally = calloc(1, sizeof(*tally) + count * sizeof(tally->row[0]));

    if (tally != NULL)
        tally->count = count;
    return tally;
}

struct scenario_tally *scenario_tally_create(const struct scenario_set *set)
{
    struct scenario_tally *tally = scenario_tally_allocate(set->row_count);
    bool good = tally != NULL;

    for (size_t i = 0; good && i < set->count; i++) {
        const struct scenario *scenario = &set->scenarios[i];
        struct scenario_row *row = &tally->row[scenario->report_row];

        row->weight = scenario->weight;
        row->name = strdup(scenario->name);
        good = row->name != NULL;
        for (size_t k = 0; good && k < scenario->step_count; k++) {
            row[k + 1].name = strdup(scenario->steps[k].name);
            good = row[k + 1].name != NULL;
        }
    }
    if (good)
        return tally;
    scenario_tally_free(tally);
    return NULL;
}

void scenario_tally_free(struct scenario_tally *tally)
{
    for (size_t i = 0; tally != NULL && i < tally->count; i++)
        free(tally->row[i].name);
    free(tally);
}

void scenario_tally_record_step(struct scenario_row *row, const struct transaction *transaction,
                                const char *why)
{
    bool answered = transaction->error == ERROR_KIND_NONE;
    bool failed = !answered || transaction->bad_status || transaction->bad_extraction;

    row->good += failed ? 0 : 1;
    row->failed += failed ? 1 : 0;
    row->errors += answered || transaction->bad_extraction ? 0 : 1;
    row->bad_statuses += answered && transaction->bad_status ? 1 : 0;
    row->bad_extractions += transaction->bad_extraction ? 1 : 0;
    if (transaction->bad_extraction && row->why[0] == '\0')
        snprintf(row->why, sizeof(row->why), "%s", why);
    if (answered)
        histogram_record(&row->times, transaction->latency_ns);
}

static bool copy_names(struct scenario_tally *into, const struct scenario_tally *from)
{
    for (size_t i = 0; i < from->count; i++) {
        into->row[i].weight = from->row[i].weight;
        into->row[i].name = strdup(from->row[i].name);
        if (into->row[i].name == NULL)
            return false;
    }
    return true;
}

static void add_row(struct scenario_row *into, const struct scenario_row *from)
{
    into->begun += from->begun;
    into->good += from->good;
    into->failed += from->failed;
    into->open += from->open;
    into->errors += from->errors;
    into->bad_statuses += from->bad_statuses;
    into->bad_extractions += from->bad_extractions;
    if (into->why[0] == '\0')
        snprintf(into->why, sizeof(into->why), "%s", from->why);
    histogram_add(&into->times, &from->times);
}

bool scenario_tally_add(struct scenario_tally **into, const struct scenario_tally *from)
{
    if (*into == NULL) {
        *into = scenario_tally_allocate(from->count);
        if (*into == NULL || !copy_names(*into, from))
            return false;
    }
    for (size_t i = 0; i < from->count; i++)
        add_row(&(*into)->row[i], &from->row[i]);
    return true;
}

bool scenario_tally_is_like(const struct scenario_tally *a, const struct scenario_tally *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->row[i].weight != b->row[i].weight || strcmp(a->row[i].name, b->row[i].name) != 0)
            return false;
    return true;
}
