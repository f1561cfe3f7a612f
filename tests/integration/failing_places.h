/*
 * State shared by failing_memory.c or failing_calls.c and the test that preloads it: a file that both map. While the
 * budget lasts, the first allocation or call from each place fails, in whichever process reaches it first.
 * A place is a call stack, not only a source line.
 */
#ifndef TESTS_FAILING_PLACES_H
#define TESTS_FAILING_PLACES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { FAILING_PLACES_MOST = 1 << 16 };

struct failing_places {
    _Atomic int all_of;      /* process in which every allocation fails; 0: none */
    _Atomic int more;        /* set by the test; each failure decrements it */
    _Atomic uint32_t failed; /* number of places that failed, or of random failures */
    _Atomic uint32_t
        one_in; /* set by the test: mean interval of random failures of allocations; 0: none */
    _Atomic uint64_t places[FAILING_PLACES_MOST]; /* hashes of call stacks; 0 means free */
};

extern struct failing_places
    *failing_places; /* NULL: no control file; children inherit the mapping */

/* Whether this call must fail: the first one from its call stack of that DEPTH, while the budget lasts. */
bool failing_is_new_place(int depth);

/* Distributes values (splitmix64). */
uint64_t failing_mixed(uint64_t value);

#endif
