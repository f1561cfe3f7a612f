/*
 * Sums by key, kept for a while so that a frequent key is formatted and looked up once for many
 * requests. A table with one place for each hash: a key that needs the place of another passes that
 * one on. Nothing is lost, and memory is bounded. Pure.
 */
#ifndef CONSOLE_TALLY_H
#define CONSOLE_TALLY_H

#include "common/span.h"

#include <stddef.h>
#include <stdint.h>

enum { TALLY_PLACES = 1024, TALLY_KEY_BYTES = 204 };

struct tally_sum {
    uint64_t count, bytes, duration_ns, longest_ns;
};

struct tally_place {
    struct tally_sum sum; /* count 0: free */
    uint64_t hash;
    uint32_t length;
    char key[TALLY_KEY_BYTES];
};

/* A zeroed one is empty. */
struct tally {
    uint32_t used;
    uint16_t filled[TALLY_PLACES]; /* the used places, in any order */
    struct tally_place place[TALLY_PLACES];
};

/* Receives a key and its sum. */
typedef void tally_pass(void *context, struct span key, const struct tally_sum *sum);

/* Adds SUM to that of KEY. Passes on what has no place: another key, or KEY if it is too long. */
void tally_add(struct tally *tally, struct span key, const struct tally_sum *sum, tally_pass *pass,
               void *context);

/* Passes all keys on; the tally is then empty. */
void tally_flush(struct tally *tally, tally_pass *pass, void *context);

#endif
