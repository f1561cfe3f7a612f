/*
 * Preloaded into a server to make allocations fail in one of three ways: once at each place, at random, or all of a process.
 * FAILING_PLACES names the control file, see failing_places.h. The first FAILING_AFTER allocations of each process
 * succeed, so that it can start.
 */
#include "failing_places.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* The C library's allocator under non-reserved names. */
void *library_malloc(size_t size) __asm__("__libc_malloc");
void *library_calloc(size_t count, size_t size) __asm__("__libc_calloc");
void *library_realloc(void *memory, size_t size) __asm__("__libc_realloc");

enum { DEPTH = 12 }; /* of the call stacks that are places */

static _Atomic uint64_t calls;
static uint64_t after;
static pid_t owner;

static uint64_t setting(const char *name)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* A child resets the counter, because it must start too. */
static void begin(void)
{
    owner = getpid();
    after = setting("FAILING_AFTER");
    atomic_store(&calls, 0);
}

/* Which calls fail depends only on their numbers. */
static bool fails_at_random(uint64_t number)
{
    uint32_t one_in = atomic_load(&failing_places->one_in);

    if (one_in == 0 || failing_mixed(number * UINT64_C(0x9E3779B97F4A7C15)) % one_in != 0)
        return false;
    atomic_fetch_add(&failing_places->failed, 1);
    return true;
}

static bool fails_always(void)
{
    return atomic_load(&failing_places->all_of) == getpid();
}

static bool fails(void)
{
    uint64_t number;

    if (failing_places == NULL)
        return false;
    if (!fails_always()) {
        if (owner != getpid())
            begin();
        number = atomic_fetch_add(&calls, 1);
        if (number < after || !(fails_at_random(number) || failing_is_new_place(DEPTH)))
            return false;
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : library_malloc(size);
}

void *calloc(size_t nmemb, size_t size)
{
    return fails() ? NULL : library_calloc(nmemb, size);
}

void *realloc(void *ptr, size_t size)
{
    return fails() ? NULL : library_realloc(ptr, size);
}
