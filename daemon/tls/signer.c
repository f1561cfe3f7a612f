/* The checks of longjmp() take a change to another stack for an error. */
#undef _FORTIFY_SOURCE /* NOLINT(clang-diagnostic-reserved-macro-identifier) */

#include "daemon/tls/signer.h"

#include "daemon/base/channel.h"
#include "daemon/tls/remote_key.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
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

/* Fibres */

/*
 * A fibre is a function call with its own stack that can pause and continue later: OpenSSL computes
 * a signature within a call, but here its result comes later. A paused call continues on the same
 * thread only.
 */

enum { STACK_BYTES = 128 * 1024 }; /* a handshake needs 12 KiB of it; only used pages are memory */

/* One side of a change between two stacks. */
struct fibre_side {
    ucontext_t context; /* where the call begins; with a sanitizer also where it continues */
    jmp_buf place;      /* where it continues */
    bool begun;         /* PLACE is valid */
    const void
        *stack; /* lowest address; ASan: of the thread's stack it is known after the change */
    size_t stack_bytes;
    void *sanitizer; /* ASan: saved state of the stack; TSan: its fiber */
};

struct fibre {
    struct fibre_side inside, outside;
    char *memory; /* a guard page, then the stack */
    size_t memory_bytes;
    void (*run)(void *argument);
    void *argument;
    bool returned;
};

static _Thread_local struct fibre *current_fibre;

#if defined(FIBRE_ASAN) || defined(FIBRE_TSAN)
static void save_and_jump(struct fibre_side *from, const struct fibre_side *to)
{
    swapcontext(&from->context, &to->context);
}
#else
/* swapcontext() changes the signal mask, too: a system call, which is needed only once. */
static void save_and_jump(struct fibre_side *from, struct fibre_side *to)
{
    from->begun = true;
    if (_setjmp(from->place) != 0)
        return;
    if (to->begun)
        _longjmp(to->place, 1);
    setcontext(&to->context);
}
#endif

/* Continues on the stack of TO, until somebody changes back to FROM. */
static void change_stack(struct fibre_side *from, struct fibre_side *to)
{
#ifdef FIBRE_ASAN
    __sanitizer_start_switch_fiber(&from->sanitizer, to->stack, to->stack_bytes);
#endif
#ifdef FIBRE_TSAN
    from->sanitizer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->sanitizer, 0);
#endif
    save_and_jump(from, to);
#ifdef FIBRE_ASAN
    __sanitizer_finish_switch_fiber(from->sanitizer, &to->stack, &to->stack_bytes);
#endif
}

/* The first function on the stack of a fibre. Never returns. */
static void run_fibre_calls(void)
{
    struct fibre *fibre = current_fibre;

#ifdef FIBRE_ASAN
    __sanitizer_finish_switch_fiber(NULL, &fibre->outside.stack, &fibre->outside.stack_bytes);
#endif
    for (;;) {
        fibre->run(fibre->argument);
        fibre->returned = true;
        change_stack(&fibre->inside, &fibre->outside);
    }
}

/* Makes INSIDE call run_fibre_calls() on the stack at STACK. */
static void prepare_stack(struct fibre_side *inside, char *stack)
{
    getcontext(&inside->context);
    inside->stack = inside->context.uc_stack.ss_sp = stack;
    inside->stack_bytes = inside->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&inside->context, run_fibre_calls, 0);
}

/* NULL: out of memory. */
static struct fibre *fibre_new(void)
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
    prepare_stack(&fibre->inside, fibre->memory + guard);
#ifdef FIBRE_TSAN
    fibre->inside.sanitizer = __tsan_create_fiber(0);
#endif
    return fibre;
}

/* It runs no call. */
static void fibre_free(struct fibre *fibre)
{
    if (fibre == NULL)
        return;
#ifdef FIBRE_TSAN
    __tsan_destroy_fiber(fibre->inside.sanitizer);
#endif
    munmap(fibre->memory, fibre->memory_bytes);
    free(fibre);
}

static bool fibre_continue(struct fibre *fibre)
{
    current_fibre = fibre;
    change_stack(&fibre->outside, &fibre->inside);
    current_fibre = NULL;
    return fibre->returned;
}

/*
 * Calls RUN(ARGUMENT), which may call fibre_pause(). Returns true when the call has returned; false
 * if it is paused: then call fibre_continue(), which returns the same. Not within a fibre.
 */
static bool fibre_call(struct fibre *fibre, void (*run)(void *argument), void *argument)
{
    fibre->run = run;
    fibre->argument = argument;
    fibre->returned = false;
    return fibre_continue(fibre);
}

/* Only within a call. Others may use OpenSSL meanwhile, so its error queue must be empty. */
static void fibre_pause(void)
{
    struct fibre *fibre = current_fibre;

    change_stack(&fibre->inside, &fibre->outside);
}

/* Handshakes that wait */

/*
 * SENT_MAX: requests that the keys process may have to answer at a time. Its queue of answers is
 * bounded.
 */
enum { SPARE_FIBRES = 128, SENT_MAX = 512 };

/* Renewals that follow each other soon; more let the oldest handshakes fail. */
enum { LINKS_MAX = 4 };

TAILQ_HEAD(signer_queue, signer_handshake);

/* To the keys process. All zero: none. */
struct signer_link {
    uint32_t set; /* of keys */
    struct channel *channel;
    uint64_t replaced_ns; /* when another set was first seen to be newer; 0: not yet */
};

struct signer {
    struct event_base *base;
    void (*resume)(void *owner);
    struct signer_link link[LINKS_MAX]; /* the newest set first */
    struct signer_queue unsent, sent;   /* each ordered by number */
    size_t sent_count;
    uint64_t requests;
    struct fibre *spare[SPARE_FIBRES];
    size_t spare_count;
};

/* What signer_run() runs now, and for whom. */
static _Thread_local struct signer *running_signer;
static _Thread_local struct signer_handshake *running;

/* The links */

static struct channel *channel_of_set(const struct signer *signer, uint32_t set)
{
    for (size_t i = 0; i < LINKS_MAX; i++)
        if (signer->link[i].set == set)
            return signer->link[i].channel;
    return NULL;
}

/* Returns false if its link takes no message. */
static bool transmit_request(const struct signer *signer, const struct signer_handshake *handshake)
{
    _Alignas(struct message_sign) char space[sizeof(struct message_sign) + SIGNED_BYTES_MAX];
    struct message_sign *message = (struct message_sign *)space;
    struct channel *link = channel_of_set(signer, handshake->set);

    *message = (struct message_sign){
        .number = handshake->number, .key = handshake->key, .scheme = handshake->scheme};
    memcpy(message->bytes, handshake->bytes, handshake->length);
    return link != NULL && channel_send(link, MESSAGE_SIGN, message,
                                        sizeof(*message) + handshake->length, -1, false) == 0;
}

/* Of the handshakes of an older set, which has no link after an end of the keys process, none waits
 * for long. */
static void send_waiting(struct signer *signer)
{
    struct signer_handshake *handshake = TAILQ_FIRST(&signer->unsent), *next;

    for (; signer->sent_count < SENT_MAX && handshake != NULL; handshake = next) {
        next = TAILQ_NEXT(handshake, link);
        if (transmit_request(signer, handshake)) {
            TAILQ_REMOVE(&signer->unsent, handshake, link);
            TAILQ_INSERT_TAIL(&signer->sent, handshake, link);
            signer->sent_count++;
        } else if (handshake->set == signer->link[0].set) {
            return;
        }
    }
}

/* The handshake is no longer in a list. */
static void finish_signature(struct signer *signer, struct signer_handshake *handshake,
                             const void *signature, size_t length)
{
    handshake->signature_length = length <= handshake->signature_max ? length : 0;
    memcpy(handshake->signature, signature, handshake->signature_length);
    signer->resume(handshake->owner);
}

/* The answers come in the order of the requests, except for those that have expired. */
static void on_signature(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct signer *signer = owner;
    const struct message_signature *message = data;
    struct signer_handshake *handshake = TAILQ_FIRST(&signer->sent);

    (void)kind, (void)fd;
    while (handshake != NULL && handshake->number != message->number)
        handshake = TAILQ_NEXT(handshake, link);
    if (handshake == NULL)
        return;
    TAILQ_REMOVE(&signer->sent, handshake, link);
    signer->sent_count--;
    send_waiting(signer);
    finish_signature(signer, handshake, message->bytes, length - sizeof(*message));
}

/* The master makes another link, over which all requests are sent again. */
static void ignore_keys_closed(void *signer)
{
    (void)signer;
}

static void ignore_keys_fault(void *signer, const char *what)
{
    (void)signer, (void)what;
}

/* All requests are sent again, also those of other sets: a second answer is ignored. */
static void unsend_all(struct signer *signer)
{
    TAILQ_CONCAT(&signer->sent, &signer->unsent, link);
    TAILQ_CONCAT(&signer->unsent, &signer->sent, link);
    signer->sent_count = 0;
}

void signer_connect(struct signer *signer, uint32_t set, int fd)
{
    const struct channel_owner owner = {.message = on_signature,
                                        .closed = ignore_keys_closed,
                                        .fault = ignore_keys_fault,
                                        .owner = signer};

    if (signer->link[0].set == set) {
        channel_close(signer->link[0].channel);
        unsend_all(signer);
    } else {
        channel_close(signer->link[LINKS_MAX - 1].channel);
        memmove(signer->link + 1, signer->link, (LINKS_MAX - 1) * sizeof(*signer->link));
    }
    signer->link[0] = (struct signer_link){
        .set = set, .channel = channel_open(signer->base, fd, ROUTE_SIGNATURES, &owner)};
    send_waiting(signer);
}

/* Each list is in the order of the time since when they wait. */
static void expire_requests(struct signer *signer, struct signer_queue *list, uint64_t now_ns,
                            uint64_t patience_ns)
{
    struct signer_handshake *first;

    while ((first = TAILQ_FIRST(list)) != NULL && now_ns > first->since_ns + patience_ns) {
        TAILQ_REMOVE(list, first, link);
        if (list == &signer->sent)
            signer->sent_count--;
        finish_signature(signer, first, "", 0);
    }
}

static void close_replaced_links(struct signer *signer, uint64_t now_ns, uint64_t patience_ns)
{
    for (size_t i = 1; i < LINKS_MAX; i++) {
        struct signer_link *old = &signer->link[i];

        if (old->replaced_ns == 0)
            old->replaced_ns = now_ns;
        if (now_ns <= old->replaced_ns + 2 * patience_ns)
            continue;
        channel_close(old->channel);
        *old = (struct signer_link){.set = 0};
    }
}

void signer_expire(struct signer *signer, uint64_t now_ns, uint64_t patience_ns)
{
    close_replaced_links(signer, now_ns, patience_ns);
    expire_requests(signer, &signer->sent, now_ns, patience_ns);
    expire_requests(signer, &signer->unsent, now_ns, patience_ns);
    send_waiting(signer);
}

/* Handshakes */

static void run_handshake(void *argument)
{
    struct signer_handshake *handshake = argument;

    handshake->result = SSL_do_handshake(handshake->ssl);
    handshake->error = errno;
}

bool signer_run(struct signer *signer, struct signer_handshake *handshake, SSL *ssl, void *owner,
                uint64_t now_ns, int *result)
{
    bool continues = handshake->fibre != NULL, returned;

    if (!continues) {
        handshake->fibre =
            signer->spare_count > 0 ? signer->spare[--signer->spare_count] : fibre_new();
        if (handshake->fibre == NULL) {
            errno = ENOMEM;
            *result = -1;
            return true;
        }
        handshake->ssl = ssl;
        handshake->owner = owner;
    }
    handshake->since_ns = now_ns;
    running_signer = signer;
    running = handshake;
    returned = continues ? fibre_continue(handshake->fibre)
                         : fibre_call(handshake->fibre, run_handshake, handshake);
    running = NULL;
    if (!returned)
        return false;
    if (signer->spare_count < SPARE_FIBRES)
        signer->spare[signer->spare_count++] = handshake->fibre;
    else
        fibre_free(handshake->fibre);
    handshake->fibre = NULL;
    *result = handshake->result;
    errno = handshake->error;
    return true;
}

size_t signer_sign(uint32_t key, const struct signature_scheme *scheme, const uint8_t *bytes,
                   size_t length, uint8_t *signature, size_t max)
{
    struct signer *signer = running_signer;
    struct signer_handshake *handshake = running;

    if (handshake == NULL || length > SIGNED_BYTES_MAX)
        return 0;
    handshake->key = key;
    handshake->scheme = scheme->code;
    handshake->bytes = bytes;
    handshake->length = length;
    handshake->signature = signature;
    handshake->signature_max = max;
    handshake->number = ++signer->requests;
    TAILQ_INSERT_TAIL(&signer->unsent, handshake, link);
    send_waiting(signer);
    fibre_pause();
    return handshake->signature_length;
}

/* Beginning and end */

struct signer *signer_new(struct event_base *base, void (*resume)(void *owner))
{
    struct signer *signer = calloc(1, sizeof(*signer));

    if (signer == NULL)
        return NULL;
    signer->base = base;
    signer->resume = resume;
    TAILQ_INIT(&signer->unsent);
    TAILQ_INIT(&signer->sent);
    return signer;
}

void signer_free(struct signer *signer)
{
    if (signer == NULL)
        return;
    for (size_t i = 0; i < LINKS_MAX; i++)
        channel_close(signer->link[i].channel);
    while (signer->spare_count > 0)
        fibre_free(signer->spare[--signer->spare_count]);
    free(signer);
}
