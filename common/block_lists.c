#include "common/block_lists.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* AddressSanitizer is to see each use of freed memory. */
#if defined(__SANITIZE_ADDRESS__)
enum { LISTS_USED = false };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { LISTS_USED = false };
#else
enum { LISTS_USED = true };
#endif
#else
enum { LISTS_USED = true };
#endif

/*
 * Sizes of blocks: those of glibc's malloc() up to SMALL_MAX, 24, 40, ..., which waste nothing; then
 * in steps of LARGE_STEP up to LARGE_MAX, which is more than a record and its buffer.
 */
enum {
    SMALL_MIN = 24,
    SMALL_STEP = 16,
    SMALL_CLASSES = 64,
    SMALL_MAX = SMALL_MIN + (SMALL_CLASSES - 1) * SMALL_STEP,
    LARGE_STEP = 64,
    LARGE_CLASSES = 330,
    LARGE_MAX = SMALL_MAX + LARGE_CLASSES * LARGE_STEP,
    CLASSES = SMALL_CLASSES + LARGE_CLASSES,
    KEPT_BYTES_MAX = 1024 * 1024,
};

struct free_block {
    struct free_block *next;
};

static _Thread_local struct {
    struct free_block *first[CLASSES];
    size_t bytes;
    bool watched; /* end_thread() will be called */
    bool ended;
} lists;

static pthread_key_t thread_end;

static size_t class_bytes(size_t class)
{
    return class < SMALL_CLASSES ? SMALL_MIN + class * SMALL_STEP
                                 : SMALL_MAX + (class - SMALL_CLASSES + 1) * LARGE_STEP;
}

/* The smallest class whose blocks have LENGTH bytes, at most LARGE_MAX. */
static size_t class_for(size_t length)
{
    if (length <= SMALL_MIN)
        return 0;
    if (length <= SMALL_MAX)
        return (length - SMALL_MIN + SMALL_STEP - 1) / SMALL_STEP;
    return SMALL_CLASSES + (length - SMALL_MAX + LARGE_STEP - 1) / LARGE_STEP - 1;
}

/* The largest class whose blocks have at most LENGTH bytes, which is SMALL_MIN to LARGE_MAX. */
static size_t class_within(size_t length)
{
    return length <= SMALL_MAX ? (length - SMALL_MIN) / SMALL_STEP
                               : SMALL_CLASSES + (length - SMALL_MAX) / LARGE_STEP - 1;
}

static void release_lists(void)
{
    for (size_t i = 0; i < CLASSES; i++) {
        struct free_block *next;

        for (struct free_block *block = lists.first[i]; block != NULL; block = next) {
            next = block->next;
            free(block);
        }
        lists.first[i] = NULL;
    }
    lists.bytes = 0;
}

/* Afterwards block_lists_give() of this thread calls free(). */
static void end_thread(void *unused)
{
    (void)unused;
    release_lists();
    lists.ended = true;
}

/* Makes room for BYTES. Full lists are emptied, so that they fill with the sizes now in use. */
static bool may_keep(size_t bytes)
{
    if (!lists.watched)
        lists.watched = pthread_setspecific(thread_end, &lists) == 0;
    if (lists.bytes + bytes > KEPT_BYTES_MAX)
        release_lists();
    return lists.watched && !lists.ended;
}

bool block_lists_begin(void)
{
    return LISTS_USED && pthread_key_create(&thread_end, end_thread) == 0;
}

void *block_lists_take(size_t length)
{
    struct free_block *block;
    size_t class;

    if (length > LARGE_MAX)
        return malloc(length);
    class = class_for(length);
    block = lists.first[class];
    if (block == NULL)
        return malloc(class_bytes(class));
    lists.first[class] = block->next;
    lists.bytes -= class_bytes(class);
    return block;
}

void *block_lists_take_zeroed(size_t count, size_t size)
{
    size_t length;
    void *memory = __builtin_mul_overflow(count, size, &length) ? NULL : block_lists_take(length);

    return memory != NULL ? memset(memory, 0, length) : NULL;
}

void block_lists_give(void *memory)
{
    struct free_block *block = memory;
    size_t length, class;

    if (memory == NULL)
        return;
    length = malloc_usable_size(memory);
    if (length < SMALL_MIN || length > LARGE_MAX) {
        free(memory);
        return;
    }
    class = class_within(length);
    if (!may_keep(class_bytes(class))) {
        free(memory);
        return;
    }
    block->next = lists.first[class];
    lists.first[class] = block;
    lists.bytes += class_bytes(class);
}

void *block_lists_resize(void *memory, size_t length)
{
    size_t before = memory != NULL ? malloc_usable_size(memory) : 0;
    void *other = NULL;

    if (before > LARGE_MAX)
        return realloc(memory, length);
    if (length > 0 && length <= before)
        return memory;
    if (length > 0) {
        other = block_lists_take(length); /* each block stays of the size that is taken again */
        if (other == NULL || memory == NULL)
            return other;
        memcpy(other, memory, before);
    }
    block_lists_give(memory);
    return other;
}
