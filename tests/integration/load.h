/*
 * A small load of GETs that counts: some threads, each with one blocking connection, ask for one
 * file over and over and compare every answer byte by byte. Nothing is ever asked twice, so what a
 * server loses is seen.
 */
#ifndef TESTS_LOAD_H
#define TESTS_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef TEST_SANITIZER
enum { LOAD_STEP = 150 }; /* answers between two steps of a test: a sanitizer makes them slow */
#else
enum { LOAD_STEP = 1000 };
#endif

struct load_plan {
    uint16_t port;
    unsigned clients;   /* threads, a connection each */
    bool each_connects; /* a connection for each request; else they are kept alive */
    bool until_failure; /* a client ends at its first failure; else it goes on */
    const char *target; /* the path asked for */
    const char *body;   /* what is expected; borrowed */
    size_t body_length;
};

struct load_result {
    uint64_t answers;       /* whole and right, byte for byte */
    uint64_t wrong;         /* another status, another body */
    uint64_t lost;          /* the connection ended before the whole answer */
    uint64_t not_connected; /* connect() failed */
    uint64_t connections;   /* that came up */
};

struct load;

/* Starts; PLAN is copied. Fails the test when threads are refused. */
struct load *load_start(const struct load_plan *plan);

/* Waits until this many more answers have come, or every client has ended by itself (until_failure). */
void load_pass(struct load *load, uint64_t answers);

/* Lets each client finish its request, joins them, and frees. */
struct load_result load_finish(struct load *load);

/* Fails the test unless all went well. */
void load_check(const struct load_result *result);

#endif
