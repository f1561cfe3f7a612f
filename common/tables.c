#include "common/tables.h"

#include "common/clock.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct metric_info metric_table[METRIC_COUNT] = {
#define METRIC(scope, name, kind, unit, label, help)                                               \
    {#name, label, help, SCOPE_##scope, KIND_##kind, UNIT_##unit},
#include "common/metrics.def"
#undef METRIC
};

const struct host_metric_info host_metric_table[HOST_METRIC_COUNT] = {
#define HOST_METRIC(name, unit, label, help) {#name, label, help, UNIT_##unit},
#include "common/host_metrics.def"
#undef HOST_METRIC
};

const struct thread_state_info thread_state_table[THREAD_STATE_COUNT] = {
#define THREAD_STATE(id, letter, name, help) {letter, name, help},
#include "common/enums.def"
};

const char *const worker_state_names[WORKER_STATE_COUNT] = {
#define WORKER_STATE(id, name, help) name,
#include "common/enums.def"
};

const char *const outcome_names[OUTCOME_COUNT] = {
#define OUTCOME(id, name, help) name,
#include "common/enums.def"
};

const char *const level_names[LEVEL_COUNT] = {
#define LEVEL(id, name) name,
#include "common/enums.def"
};

const char *const role_names[ROLE_COUNT] = {
#define ROLE(id, name) name,
#include "common/enums.def"
};

const char *const worker_model_names[MODEL_COUNT] = {
#define MODEL(id, name) name,
#include "common/enums.def"
};

const char *const queue_order_names[QUEUE_ORDER_COUNT] = {
#define QUEUE_ORDER(id, name) name,
#include "common/enums.def"
};

const char *const queue_full_names[QUEUE_FULL_COUNT] = {
#define QUEUE_FULL(id, name) name,
#include "common/enums.def"
};

const struct command_info command_table[COMMAND_COUNT] = {
#define COMMAND(name, function, arguments, min, max, changes, help)                                \
    {name, arguments, min, max, changes, help},
#include "common/commands.def"
#undef COMMAND
};

const struct figure_info figure_table[FIGURE_COUNT] = {
#define FIGURE(name, unit, label, help, value) {#name, label, help, UNIT_##unit},
#include "common/figures.def"
#undef FIGURE
};

const struct status_metric status_metrics[STATUS_METRICS] = {
#define HTTP_STATUS(code, name, reason) {code, METRIC_responses_##code},
#include "common/http_status.def"
#undef HTTP_STATUS
};

double figure_quotient(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

double figure_rate(uint64_t then, uint64_t now, uint64_t interval_ns)
{
    return figure_quotient(now > then ? (double)(now - then) : 0,
                           (double)interval_ns / (double)NS_PER_S);
}

/* Responses with a status of CLASS: 2 for 200-299. */
static double responses_of_class(int class, figure_source *source, const void *context)
{
    double sum = 0;

    for (int i = 0; i < STATUS_METRICS; i++)
        if (status_metrics[i].status / 100 == class)
            sum += source(context, status_metrics[i].metric);
    return sum;
}

double figure_value(enum figure figure, figure_source *source, const void *context)
{
    switch (figure) {
#define V(name)               source(context, METRIC_##name)
#define STATUSES(class)       responses_of_class(class, source, context)
#define QUOTIENT(part, whole) figure_quotient(part, whole)
#define FIGURE(name, unit, label, help, value)                                                     \
    case FIGURE_##name:                                                                            \
        return value;
#include "common/figures.def"
#undef FIGURE
    case FIGURE_COUNT:
        break;
    }
    return NAN;
}

int table_find(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return (int)i;
    return -1;
}

enum { LONGEST_WORD = 64 };

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Optimal string alignment distance; keeps three rows of the table. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST_WORD + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    size_t a_length = strlen(a), b_length = strlen(b);

    if (a_length > LONGEST_WORD || b_length > LONGEST_WORD)
        return LONGEST_WORD;
    for (size_t j = 0; j <= b_length; j++)
        above[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = above[j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);

            row[j] = least_of(replaced, least_of(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]))
                row[j] = least_of(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_length];
}

static const char *nearest_in(struct word_list words, const char *typed)
{
    const char *best = NULL;
    size_t best_distance = LONGEST_WORD;

    for (size_t i = 0; i < words.count; i++) {
        const char *word = *(const char *const *)((const char *)words.first + i * words.stride);
        size_t d;

        if (word == NULL)
            continue;
        d = edit_distance(typed, word);
        if (d < best_distance && (d <= 1 || d <= strlen(word) / 3)) {
            best = word;
            best_distance = d;
        }
    }
    return best;
}

const char *nearest_word(const char *typed, const char *const *words, size_t count)
{
    return nearest_in(WORD_LIST(words, count), typed);
}

const char *did_you_mean(char text[DID_YOU_MEAN_SIZE], const char *typed, struct word_list words,
                         const char *otherwise)
{
    bool option = strncmp(typed, "--", 2) == 0;
    const char *near = nearest_in(words, option ? typed + 2 : typed);

    if (near == NULL)
        return otherwise;
    snprintf(text, DID_YOU_MEAN_SIZE, option ? "; did you mean --%s?" : "; did you mean '%s'?",
             near);
    return text;
}
