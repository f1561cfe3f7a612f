/*
 * A load generator that checks every response. Each thread has one blocking connection, requests
 * one file repeatedly and compares each response byte by byte. It never retries, so every lost
 * request is counted. It sends bursts with pauses between them, by default at most a thousand
 * requests a second in all: a test waits for a number of responses, and the rest of its load only
 * takes CPU time.
 */
#ifndef TESTS_LOAD_H
#define TESTS_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef TEST_SANITIZER
enum {
    LOAD_STEP = 150
}; /* number of responses between two steps of a test; fewer with a sanitizer */
#else
enum { LOAD_STEP = 250 };
#endif

struct load_plan {
    uint16_t port;
    unsigned clients;   /* threads, one connection each */
    bool each_connects; /* one connection per request instead of keep-alive */
    bool until_failure; /* a client stops at its first failure */
    unsigned rate;      /* maximum of requests a second; 0: the default */
    const char *target; /* path of the requests */
    const char *body;   /* expected body; borrowed */
    size_t body_length;
};

struct load_result {
    uint64_t responses;     /* complete and equal to the expected body */
    uint64_t wrong;         /* wrong status or body */
    uint64_t lost;          /* connection closed before the response was complete */
    uint64_t not_connected; /* connect() failed */
    uint64_t connections;   /* connections established */
};

struct load;

/* Starts the load and copies PLAN. Fails the test if a thread cannot be created. */
struct load *load_start(const struct load_plan *plan);

/* Waits for COUNT more responses, or until every client has stopped (until_failure). */
void load_pass(struct load *load, uint64_t responses);

/* Lets each client finish its request, joins the threads, and frees the load. */
struct load_result load_finish(struct load *load);

/* Fails the test unless every request succeeded. */
void load_check(const struct load_result *result);

#endif
