/*
 * State shared by failing_memory.c and the test that preloads it: a file that both map. While the
 * budget lasts, the first allocation from each place fails, in whichever process reaches it first.
 * A place is a call stack, not only a source line.
 */
#ifndef TESTS_FAILING_MEMORY_H
#define TESTS_FAILING_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { FAILING_PLACES_MOST = 1 << 16 };

struct failing_places {
    _Atomic int more;                             /* set by the test; each failure decrements it */
    _Atomic uint32_t failed;                      /* number of places that failed */
    _Atomic uint64_t places[FAILING_PLACES_MOST]; /* hashes of call stacks; 0 means free */
};

#endif
