/*
 * A sentence about a run's numbers that is true or false: "p99>20ms", "rate<1000", "errors>0.1%".
 * Gates (--fail-if) ask it at the end, --abort-on while the run goes on.
 *
 *     condition = metric ( ">" | "<" | ">=" | "<=" ) value
 *     metric    = [ series "." ] ( "p" PERCENT | "mean" | "max" ) | "rate" | "errors" | STATUS
 *     series    = "latency" | "service" | "first_byte" | "connect"      (latency unless named)
 *
 * Pure; any thread.
 */
#ifndef LOADGEN_CONDITION_H
#define LOADGEN_CONDITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum condition_metric {
    CONDITION_PERCENTILE,
    CONDITION_MEAN,
    CONDITION_MAX,
    CONDITION_RATE,          /* answers a second */
    CONDITION_ERRORS,        /* requests that count as errors */
    CONDITION_ERROR_PERCENT, /* the same in percent of all */
    CONDITION_STATUS,        /* answers with one status */
};

enum condition_series {
    CONDITION_LATENCY,
    CONDITION_SERVICE,
    CONDITION_FIRST_BYTE,
    CONDITION_CONNECT,
};

struct condition {
    const char *text; /* as it was written; not owned */
    enum condition_metric metric;
    enum condition_series series;
    double percent;  /* of PERCENTILE */
    uint32_t status; /* of STATUS */
    bool above;      /* true when the number is above the limit, else below it */
    bool or_equal;
    double limit; /* ns for times */
};

/* Reads TEXT, which outlives *condition. Returns 0, or -1 with WHY. */
int condition_parse(struct condition *condition, const char *text, char *why, size_t size);

#endif
