#include "failing_places.h"

#include <execinfo.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DEPTH_MAX = 16 };

struct failing_places *failing_places;
static _Thread_local bool looking; /* set during backtrace(), whose calls must succeed */

uint64_t failing_mixed(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94D049BB133111EB);
    return value ^ (value >> 31);
}

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
    mapping = mmap(NULL, sizeof(*failing_places), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapping != MAP_FAILED)
        failing_places = mapping;
}

static uint64_t place(int depth)
{
    void *stack[DEPTH_MAX];
    uint64_t hash = 0;

    looking = true;
    depth = backtrace(stack, depth < DEPTH_MAX ? depth : DEPTH_MAX);
    looking = false;
    for (int i = 0; i < depth; i++)
        hash = failing_mixed(hash + (uint64_t)(uintptr_t)stack[i]);
    return hash | 1;
}

static bool is_new(uint64_t hash)
{
    for (uint64_t at = hash;; at++) {
        _Atomic uint64_t *slot = &failing_places->places[at % FAILING_PLACES_MOST];
        uint64_t there = 0;

        if (atomic_compare_exchange_strong(slot, &there, hash))
            return true;
        if (there == hash)
            return false;
    }
}

bool failing_is_new_place(int depth)
{
    if (looking || failing_places == NULL || atomic_load(&failing_places->more) <= 0 ||
        atomic_load(&failing_places->failed) >= FAILING_PLACES_MOST / 2 || !is_new(place(depth)))
        return false;
    atomic_fetch_sub(&failing_places->more, 1);
    atomic_fetch_add(&failing_places->failed, 1);
    return true;
}
