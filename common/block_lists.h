/*
 * Memory of a library that allocates many small blocks: those that it frees wait in lists of the
 * thread for its next allocation of the same size, up to 1 MiB for each thread. The C library keeps
 * fewer of a size. Each block is one of malloc(), so any thread, and free(), may free it.
 */
#ifndef COMMON_BLOCK_LISTS_H
#define COMMON_BLOCK_LISTS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Call it once, before the others. Returns false if the library is to use malloc(): with
 * AddressSanitizer, or if no thread key is left.
 */
bool block_lists_begin(void);

/* As malloc(), calloc(), realloc() and free(). A LENGTH of 0 to take is one block. */
void *block_lists_take(size_t length);
void *block_lists_take_zeroed(size_t count, size_t size);
void *block_lists_resize(void *memory, size_t length);
void block_lists_give(void *memory);

#endif
