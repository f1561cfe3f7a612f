/*
 * Preloaded into a server to make allocations fail, in one of two ways. At random: FAILING_ONE_IN
 * is the mean interval, FAILING_SEED the seed. Once at each place: FAILING_PLACES names a control
 * file, see failing_memory.h. The first FAILING_AFTER allocations of each process succeed, so that
 * it can start.
 */
#include "failing_memory.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The C library's allocator under non-reserved names. */
void *library_malloc(size_t size) __asm__("__libc_malloc");
void *library_calloc(size_t count, size_t size) __asm__("__libc_calloc");
void *library_realloc(void *memory, size_t size) __asm__("__libc_realloc");

static uint64_t mixed(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94D049BB133111EB);
    return value ^ (value >> 31);
}

/* Random failures */

static _Atomic uint64_t calls;
static uint64_t one_in, after, seed;
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
    one_in = setting("FAILING_ONE_IN");
    after = setting("FAILING_AFTER");
    seed = setting("FAILING_SEED");
    atomic_store(&calls, 0);
}

/* splitmix64: the failing calls depend only on the call number and the seed. */
static bool must_fail(uint64_t number)
{
    return one_in != 0 && mixed((number + seed) * UINT64_C(0x9E3779B97F4A7C15)) % one_in == 0;
}

/* One failure at each place */

enum { DEPTH = 12 };

static struct failing_places *places; /* NULL: no control file; children inherit the mapping */
static _Thread_local bool looking;    /* set during backtrace(), whose allocations must succeed */

/*
 * The first call of backtrace(3) loads a library. Do it here, because a sandboxed process cannot.
 */
__attribute__((constructor)) static void map_places(void)
{
    const char *path = getenv("FAILING_PLACES");
    void *stack[1], *mapping = MAP_FAILED;
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    backtrace(stack, 1);
    mapping = mmap(NULL, sizeof(*places), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapping != MAP_FAILED)
        places = mapping;
}

static uint64_t place(void)
{
    void *stack[DEPTH];
    uint64_t hash = 0;
    int depth;

    looking = true;
    depth = backtrace(stack, DEPTH);
    looking = false;
    for (int i = 0; i < depth; i++)
        hash = mixed(hash + (uint64_t)(uintptr_t)stack[i]);
    return hash | 1;
}

static bool is_new(uint64_t hash)
{
    for (uint64_t at = hash;; at++) {
        _Atomic uint64_t *slot = &places->places[at % FAILING_PLACES_MOST];
        uint64_t there = 0;

        if (atomic_compare_exchange_strong(slot, &there, hash))
            return true;
        if (there == hash)
            return false;
    }
}

static bool is_a_new_place(void)
{
    if (looking || atomic_load(&places->more) <= 0 ||
        atomic_load(&places->failed) >= FAILING_PLACES_MOST / 2 || !is_new(place()))
        return false;
    atomic_fetch_sub(&places->more, 1);
    atomic_fetch_add(&places->failed, 1);
    return true;
}

static bool fails(void)
{
    uint64_t number;

    if (owner != getpid())
        begin();
    number = atomic_fetch_add(&calls, 1);
    if (number < after || !(places != NULL ? is_a_new_place() : must_fail(number)))
        return false;
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
