/*
 * Preloaded into a server: now and then an allocation fails, anywhere. FAILING_ONE_IN says how seldom,
 * FAILING_SEED which ones, and the first FAILING_AFTER of each process succeed, so that it can start.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static _Atomic uint64_t calls;
static uint64_t one_in, after, seed;
static pid_t owner;

static uint64_t setting(const char *name)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* A child begins to count anew: it has to start, too. */
static void begin(void)
{
    owner = getpid();
    one_in = setting("FAILING_ONE_IN");
    after = setting("FAILING_AFTER");
    seed = setting("FAILING_SEED");
    atomic_store(&calls, 0);
}

/* splitmix64: which call fails depends on its number and the seed alone. */
static bool fails(void)
{
    uint64_t number, mixed;

    if (owner != getpid())
        begin();
    number = atomic_fetch_add(&calls, 1);
    if (one_in == 0 || number < after)
        return false;
    mixed = (number + seed) * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    if ((mixed ^ (mixed >> 31)) % one_in != 0)
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return fails() ? NULL : __libc_realloc(memory, size);
}
