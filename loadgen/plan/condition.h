/*
 * Conditions on the results of a run: "p99>20ms", "rate<1000", "errors>0.1%". --fail-if checks them at the
 * end of the run, --abort-on during it (k6: thresholds).
 *
 *     condition = metric ( ">" | "<" | ">=" | "<=" ) ( value | FACTOR "x" )    (x: times a baseline)
 *     metric    = [ series "." ] ( "p" PERCENT | "mean" | "max" ) | "rate" | "errors" | STATUS
 *     series    = "latency" | "service" | "first_byte" | "connect" | "full_handshake" |
 *                 "resumed_handshake"                                  (latency unless named)
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
    CONDITION_RATE,          /* responses per second */
    CONDITION_ERRORS,        /* number of errors */
    CONDITION_ERROR_PERCENT, /* errors in percent of all requests */
    CONDITION_STATUS,        /* number of responses with one status */
};

enum condition_series {
    CONDITION_LATENCY,
    CONDITION_SERVICE,
    CONDITION_FIRST_BYTE,
    CONDITION_CONNECT,
    CONDITION_FULL_HANDSHAKE,
    CONDITION_RESUMED_HANDSHAKE,
};

struct condition {
    const char *text; /* as written; not owned */
    enum condition_metric metric;
    enum condition_series series;
    double percent;  /* of CONDITION_PERCENTILE */
    uint32_t status; /* of CONDITION_STATUS */
    bool above;      /* true: holds above the limit; false: below it */
    bool or_equal;
    bool relative; /* to a baseline: limit is a factor until condition_set_baseline() */
    double limit;  /* times: ns */
};

/* Makes the limit of a relative CONDITION absolute: its factor times VALUE, of the baseline. */
void condition_set_baseline(struct condition *condition, double value);

/* Parses TEXT, which must outlive *condition. Returns 0, or -1 with WHY. */
int condition_parse(struct condition *condition, const char *text, char *why, size_t size);

#endif
