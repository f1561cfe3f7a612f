#include "daemon/tls/fibre.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* The sanitizers must know of a change of the stack. */
#if defined(__SANITIZE_ADDRESS__)
#define FIBRE_ASAN
#elif defined(__SANITIZE_THREAD__)
#define FIBRE_TSAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBRE_ASAN
#elif __has_feature(thread_sanitizer)
#define FIBRE_TSAN
#endif
#endif
#ifdef FIBRE_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FIBRE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum { STACK_BYTES = 128 * 1024 }; /* a handshake needs 12 KiB of it; only used pages are memory */

/* One side of a change between two stacks. */
struct side {
    ucontext_t context;
    const void
        *stack; /* lowest address; ASan: of the thread's stack it is known after the change */
    size_t stack_bytes;
    void *sanitizer; /* ASan: saved state of the stack; TSan: its fiber */
};

struct fibre {
    struct side inside, outside;
    char *memory; /* a guard page, then the stack */
    size_t memory_bytes;
    void (*run)(void *argument);
    void *argument;
    bool returned;
};

static _Thread_local struct fibre *current;

/* Continues on the stack of TO, until somebody changes back to FROM. */
static void change(struct side *from, struct side *to)
{
#ifdef FIBRE_ASAN
    __sanitizer_start_switch_fiber(&from->sanitizer, to->stack, to->stack_bytes);
#endif
#ifdef FIBRE_TSAN
    from->sanitizer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->sanitizer, 0);
#endif
    swapcontext(&from->context, &to->context);
#ifdef FIBRE_ASAN
    __sanitizer_finish_switch_fiber(from->sanitizer, &to->stack, &to->stack_bytes);
#endif
}

/* The first function on the stack of a fibre. Never returns. */
static void run_calls(void)
{
    struct fibre *fibre = current;

#ifdef FIBRE_ASAN
    __sanitizer_finish_switch_fiber(NULL, &fibre->outside.stack, &fibre->outside.stack_bytes);
#endif
    for (;;) {
        fibre->run(fibre->argument);
        fibre->returned = true;
        change(&fibre->inside, &fibre->outside);
    }
}

/* Makes INSIDE call run_calls() on the stack at STACK. */
static void prepare(struct side *inside, char *stack)
{
    getcontext(&inside->context);
    inside->stack = stack;
    inside->stack_bytes = STACK_BYTES;
    inside->context.uc_stack.ss_sp = stack;
    inside->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&inside->context, run_calls, 0);
}

struct fibre *fibre_new(void)
{
    struct fibre *fibre = calloc(1, sizeof(*fibre));
    size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    void *memory;

    if (fibre == NULL)
        return NULL;
    fibre->memory_bytes = guard + STACK_BYTES;
    memory = mmap(NULL, fibre->memory_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        free(fibre);
        return NULL;
    }
    fibre->memory = memory;
    mprotect(fibre->memory, guard, PROT_NONE);
    prepare(&fibre->inside, fibre->memory + guard);
#ifdef FIBRE_TSAN
    fibre->inside.sanitizer = __tsan_create_fiber(0);
#endif
    return fibre;
}

void fibre_free(struct fibre *fibre)
{
    if (fibre == NULL)
        return;
#ifdef FIBRE_TSAN
    __tsan_destroy_fiber(fibre->inside.sanitizer);
#endif
    munmap(fibre->memory, fibre->memory_bytes);
    free(fibre);
}

bool fibre_continue(struct fibre *fibre)
{
    current = fibre;
    change(&fibre->outside, &fibre->inside);
    current = NULL;
    return fibre->returned;
}

bool fibre_call(struct fibre *fibre, void (*run)(void *argument), void *argument)
{
    fibre->run = run;
    fibre->argument = argument;
    fibre->returned = false;
    return fibre_continue(fibre);
}

void fibre_pause(void)
{
    struct fibre *fibre = current;

    change(&fibre->inside, &fibre->outside);
}
