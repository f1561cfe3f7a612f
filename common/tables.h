/* The .def lists as enums and tables of names, and searching for a name. Read-only; any thread. */
#ifndef COMMON_TABLES_H
#define COMMON_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* METRIC_requests is the index of that metric in metric_table[] and in the metrics of a block. */
enum metric_scope { SCOPE_THREAD, SCOPE_WORKER, SCOPE_MASTER, SCOPE_LOGGER, SCOPE_COUNT };
enum metric_kind { KIND_COUNTER, KIND_GAUGE };
enum metric_unit { UNIT_COUNT, UNIT_BYTES, UNIT_NANOSECONDS, UNIT_RATIO };

enum metric {
#define METRIC(scope, name, kind, unit, label, help) METRIC_##name,
#include "common/metrics.def"
#undef METRIC
    METRIC_COUNT
};

struct metric_info {
    const char *name;
    const char *label;
    const char *help;
    enum metric_scope scope;
    enum metric_kind kind;
    enum metric_unit unit;
};
extern const struct metric_info metric_table[METRIC_COUNT];

/* The value of METRIC over blocks with ONE and OTHER: their sum; of a longest time, the longer. */
static inline uint64_t metric_join(enum metric metric, uint64_t one, uint64_t other)
{
    if (metric == METRIC_queue_oldest)
        return one > other ? one : other;
    return one + other;
}

/* HOST_METRIC_responses_2xx is the index of that counter in host_metric_table[]. */
enum host_metric {
#define HOST_METRIC(name, unit, label, help) HOST_METRIC_##name,
#include "common/host_metrics.def"
#undef HOST_METRIC
    HOST_METRIC_COUNT
};

struct host_metric_info {
    const char *name;
    const char *label;
    const char *help;
    enum metric_unit unit;
};
extern const struct host_metric_info host_metric_table[HOST_METRIC_COUNT];

enum thread_state {
#define THREAD_STATE(id, letter, name, help) THREAD_STATE_##id,
#include "common/enums.def"
    THREAD_STATE_COUNT
};

struct thread_state_info {
    char letter;
    const char *name;
    const char *help;
};
extern const struct thread_state_info thread_state_table[THREAD_STATE_COUNT];

enum worker_state {
#define WORKER_STATE(id, name, help) WORKER_##id,
#include "common/enums.def"
    WORKER_STATE_COUNT
};
extern const char *const worker_state_names[WORKER_STATE_COUNT];

enum outcome {
#define OUTCOME(id, name, help) OUTCOME_##id,
#include "common/enums.def"
    OUTCOME_COUNT
};
extern const char *const outcome_names[OUTCOME_COUNT];

enum level {
#define LEVEL(id, name) LEVEL_##id,
#include "common/enums.def"
    LEVEL_COUNT
};
extern const char *const level_names[LEVEL_COUNT];

enum role {
#define ROLE(id, name) ROLE_##id,
#include "common/enums.def"
    ROLE_COUNT
};
extern const char *const role_names[ROLE_COUNT];

/* Concurrency model of a worker, and what the connection queue of a model does. */
enum worker_model {
#define MODEL(id, name) MODEL_##id,
#include "common/enums.def"
    MODEL_COUNT
};
extern const char *const worker_model_names[MODEL_COUNT];

enum queue_order {
#define QUEUE_ORDER(id, name) QUEUE_ORDER_##id,
#include "common/enums.def"
    QUEUE_ORDER_COUNT
};
extern const char *const queue_order_names[QUEUE_ORDER_COUNT];

enum queue_full {
#define QUEUE_FULL(id, name) QUEUE_FULL_##id,
#include "common/enums.def"
    QUEUE_FULL_COUNT
};
extern const char *const queue_full_names[QUEUE_FULL_COUNT];

enum { NEVER = 99 };

struct command_info {
    const char *name;
    const char *arguments;
    int min, max; /* number of arguments */
    int changes;  /* with at least this many arguments it changes something; or NEVER */
    const char *help;
};
enum {
#define COMMAND(name, function, arguments, min, max, changes, help) COMMAND_##function,
#include "common/commands.def"
#undef COMMAND
    COMMAND_COUNT
};
extern const struct command_info command_table[COMMAND_COUNT];

/*
 * Figures are derived from metrics: ratios, means, responses by class. The server, the console and
 * wsload compute them here only.
 */
enum figure {
#define FIGURE(name, unit, label, help, value) FIGURE_##name,
#include "common/figures.def"
#undef FIGURE
    FIGURE_COUNT
};

struct figure_info {
    const char *name;
    const char *label;
    const char *help;
    enum metric_unit unit;
};
extern const struct figure_info figure_table[FIGURE_COUNT];

/* The statuses that the server sends, and the metric that counts each. */
struct status_metric {
    int status;
    enum metric metric;
};
enum {
#define HTTP_STATUS(code, name, reason) +1
    STATUS_METRICS = 0
#include "common/http_status.def"
#undef HTTP_STATUS
};
extern const struct status_metric status_metrics[STATUS_METRICS];

/* A source of values: the value of a gauge; of a counter, its increase in an interval, or NAN. */
typedef double figure_source(const void *context, enum metric metric);

/* The value of FIGURE, in its unit; NAN if it is undefined. */
double figure_value(enum figure figure, figure_source *source, const void *context);

/* Increase of a counter per second; NAN if INTERVAL_NS is 0, 0 if the counter has been reset. */
double figure_rate(uint64_t then, uint64_t now, uint64_t interval_ns);

/* PART / WHOLE; NAN if WHOLE is not positive. */
double figure_quotient(double part, double whole);

/* Index of NAME in NAMES, or -1. */
int table_find(const char *name, const char *const *names, size_t count);

/*
 * The word with the smallest edit distance to TYPED (insertion, deletion, substitution,
 * transposition; case ignored). NULL if the distance is more than a third of the word's length and
 * more than 1.
 */
const char *nearest_word(const char *typed, const char *const *words, size_t count);

/*
 * Words that stand in an array, each STRIDE bytes after the one before; NULL among them is skipped.
 */
struct word_list {
    const char *const *first;
    size_t count, stride;
};
#define WORD_LIST(words, count) ((struct word_list){words, count, sizeof(*(words))})
/* The words in MEMBER of the structs of TABLE. */
#define WORD_LIST_OF(table, member)                                                                \
    ((struct word_list){&(table)[0].member, sizeof(table) / sizeof((table)[0]), sizeof((table)[0])})

/*
 * The rest of a message about TYPED, which is none of WORDS: "; did you mean 'near'?" if one is
 * near, else OTHERWISE. With two dashes in front TYPED is an option: "; did you mean --near?".
 */
enum { DID_YOU_MEAN_SIZE = 128 };
const char *did_you_mean(char text[DID_YOU_MEAN_SIZE], const char *typed, struct word_list words,
                         const char *otherwise);

#endif
