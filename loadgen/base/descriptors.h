/* Room for connections: the limit on open files of this process. */
#ifndef LOADGEN_DESCRIPTORS_H
#define LOADGEN_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Raises the limit to the most that is allowed, and checks that CONNECTIONS in THREADS fit. Returns
 * 0, or -1 with WHY saying what fits and what to do.
 */
int descriptors_reserve(uint32_t connections, uint32_t threads, char *why, size_t size);

#endif
