/*
 * Exact 64-bit integer arithmetic for the demonstration handler: parses the query and computes the
 * result. Pure.
 */
#ifndef DAEMON_TRANSACTION_ARITHMETIC_H
#define DAEMON_TRANSACTION_ARITHMETIC_H

#include "common/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARITHMETIC_WORK_MAX_MS = 100, ARITHMETIC_WHY_MAX = 256 };

enum arithmetic_function {
    ARITHMETIC_FIBONACCI, /* n from 0 to 93 */
    ARITHMETIC_SQUARE,    /* n for which the result has at most 64 bits */
    ARITHMETIC_CUBE,      /* the same; a negative result fits in int64_t */
    ARITHMETIC_FUNCTION_COUNT
};

struct arithmetic_query {
    enum arithmetic_function function;
    int64_t n;
    uint64_t work_ns; /* processor time to use */
};

struct arithmetic_result {
    bool negative;
    uint64_t magnitude;
};

/* The function called NAME, or ARITHMETIC_FUNCTION_COUNT. */
enum arithmetic_function arithmetic_find(const char *name);
const char *arithmetic_name(enum arithmetic_function function);

/*
 * Parses "n=10&work=2ms" for the query's function. Returns 0; or -1 with the reason in WHY
 * (ARITHMETIC_WHY_MAX bytes): n is missing, not a number or out of range; work is not a duration or
 * too long; a parameter is unknown or repeated.
 */
int arithmetic_parse(struct arithmetic_query *query, struct span text, char *why);

/* QUERY must come from arithmetic_parse(). */
struct arithmetic_result arithmetic_compute(const struct arithmetic_query *query);

#endif
