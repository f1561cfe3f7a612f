/*
 * What failing_memory.c and the test that preloads it share: a file of this form, mapped by both.
 * While more may fail, the first allocation from each place does, in whichever process comes there
 * first; a place is a call stack, not only the line that allocates.
 */
#ifndef TESTS_FAILING_MEMORY_H
#define TESTS_FAILING_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { FAILING_PLACES_MOST = 1 << 16 };

struct failing_places {
    _Atomic int more;                             /* set by the test, counted down by who fails */
    _Atomic uint32_t failed;                      /* so many places did */
    _Atomic uint64_t places[FAILING_PLACES_MOST]; /* hashes; 0: free */
};

#endif
