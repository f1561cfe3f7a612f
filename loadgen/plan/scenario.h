/*
 * Scenarios: named, weighted sequences of requests that one virtual user sends, with values that it
 * takes from the responses. Filled by the main thread before the run (scenario.c); during the
 * run all threads read them.
 */
#ifndef LOADGEN_SCENARIO_H
#define LOADGEN_SCENARIO_H

#include "loadgen/plan/input.h"
#include "loadgen/plan/template.h"

#include <regex.h>

enum {
    SCENARIO_SCENARIOS_MAX = 50,
    SCENARIO_STEPS_MAX = 200,        /* in all scenarios together */
    SCENARIO_VARIABLES_MAX = 16,     /* in each scenario */
    SCENARIO_VALUE_MAX = 4096,       /* bytes of a value */
    SCENARIO_BODY_MAX = 1024 * 1024, /* bytes of a response body that values are taken from */
    /*
     * Bytes that a regular expression searches: glibc's matcher takes time proportional to their
     * square.
     */
    SCENARIO_MATCH_LINE_BYTES = 1024,
    SCENARIO_MATCH_TEXT_BYTES = 64 * 1024,
    SCENARIO_WEIGHT_MAX = 1000,
    SCENARIO_NAME_MAX = 64, /* characters */
};

enum scenario_source { SCENARIO_FIELD, SCENARIO_COOKIE, SCENARIO_JSON, SCENARIO_BODY };

/* A value to take from the response. */
struct scenario_take {
    uint32_t variable; /* its number in the scenario */
    enum scenario_source source;
    char *key; /* name of the field or cookie, path of the JSON member; SCENARIO_BODY: NULL */
    char *before, *after; /* the value is the text between these; NULL: all of it */
    char *expression;     /* and, in it, what its group matches; NULL: all of it */
    regex_t matcher;      /* EXPRESSION, which has one group */
};

struct scenario_step {
    char *name; /* "GET /path/{{id}}", without the query, for reports */
    uint32_t file_line;
    struct request_template request;
    int64_t request_number;    /* in the request plan; -1: the request has variables */
    struct plan_checks expect; /* only the statuses; none: those of the plan */
    struct scenario_take *takes;
    size_t take_count;
    bool thinks; /* has a think time of its own */
    uint64_t think_min_ms, think_max_ms;
};

struct scenario {
    char *name;
    uint32_t weight;
    struct scenario_step *steps;
    size_t step_count;
    char *variables[SCENARIO_VARIABLES_MAX];
    size_t variable_count;
    size_t report_row; /* its number among all scenarios and steps; its steps follow */
};

struct scenario_set {
    struct scenario *scenarios;
    size_t count;
    size_t row_count; /* scenarios and steps */
    uint16_t *order;  /* the scenarios as they start, repeatedly */
    size_t order_length;
    struct csv_file table; /* --csv; without one, it has 0 rows */
};

/* What a virtual user starts. */
struct scenario_start {
    uint32_t scenario;
    size_t table_row;
};

/* The number of the variable with this name, of those before COUNT; or -1. */
int scenario_find_variable(const struct scenario *scenario, size_t count, const char *name,
                           size_t length);

/* Whether a value of STEP comes from the body of its response. */
bool scenario_step_takes_body(const struct scenario_step *step);

void scenario_set_free(struct scenario_set *set);

#endif
