/*
 * Exact integer arithmetic for the demonstration handler: what a query asks for, and the result, in
 * 64 bits. Pure.
 */
#ifndef DAEMON_ARITHMETIC_H
#define DAEMON_ARITHMETIC_H

#include "common/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARITHMETIC_WORK_MAX_MS = 100, ARITHMETIC_WHY_MAX = 256 };

enum arithmetic_function {
    ARITHMETIC_FIBONACCI, /* n from 0 to 93 */
    ARITHMETIC_SQUARE,    /* a result of at most 64 bits */
    ARITHMETIC_CUBE,      /* the same; of 64 bits with a sign when it is negative */
    ARITHMETIC_FUNCTION_COUNT
};

struct arithmetic_question {
    enum arithmetic_function function;
    int64_t n;
    uint64_t work_ns; /* processor time to burn */
};

struct arithmetic_result {
    bool negative;
    uint64_t magnitude;
};

/* The function of that name, or ARITHMETIC_FUNCTION_COUNT. */
enum arithmetic_function arithmetic_find(const char *name);
const char *arithmetic_name(enum arithmetic_function function);

/*
 * Reads "n=10&work=2ms" for the question's function. Returns 0; or -1 with a sentence in WHY
 * (ARITHMETIC_WHY_MAX bytes) that says what is wrong: n is missing, no number, or out of range; work
 * is no time or too long; a parameter is unknown or comes twice.
 */
int arithmetic_read(struct arithmetic_question *question, struct span query, char *why);

/* Of a question that arithmetic_read() has taken. */
struct arithmetic_result arithmetic_compute(const struct arithmetic_question *question);

#endif
