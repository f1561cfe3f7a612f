/*
 * wsboard.h 1.0: shows what a server does, live, in wsconsole and wsctl.
 *
 * One header for C99 and C++, gcc and clang, Linux. Include it where you call it. In one C file,
 * first define WSBOARD_IMPLEMENTATION and include it before all other headers:
 *
 *     #define WSBOARD_IMPLEMENTATION
 *     #include "wsboard.h"
 *
 * Only board_open() and board_control() can fail. If board_open() failed, all other calls do
 * nothing. No call blocks or allocates. Any thread may call them, also in children by fork(). The
 * program publishes in shared memory, in the format of webserverd-shm(7); nobody is asked, nobody
 * answers. See wsboard(3).
 */
#ifndef WSBOARD_H
#define WSBOARD_H

#if defined WSBOARD_IMPLEMENTATION && !defined _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Processes that are shown at a time, and threads of each. Others run on, but are not shown. */
#ifndef WSBOARD_WORKERS
#define WSBOARD_WORKERS 8
#endif
#ifndef WSBOARD_THREADS
#define WSBOARD_THREADS 64
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum board_state {
    BOARD_IDLE = 2,     /* _  no connection */
    BOARD_KEEPALIVE,    /* K  waits for the next request of a connection */
    BOARD_ACCEPT,       /* A  accepts connections */
    BOARD_READ,         /* R  reads a request */
    BOARD_WRITE,        /* W  answers it */
    BOARD_FILE,         /* F  opens or reads a file */
    BOARD_LOCK,         /* M  waits for a mutex */
    BOARD_QUEUE = 10,   /* Q  waits for an item in the queue */
    BOARD_COMPUTE = 13, /* X  computes */
    BOARD_BLOCKED       /* B  waits for a place in the queue */
};

enum board_counter { BOARD_CACHE_HITS, BOARD_CACHE_MISSES, BOARD_DROPPED };

enum board_level { BOARD_DEBUG, BOARD_INFO, BOARD_WARN, BOARD_ERROR };

/*
 * Publishes the board NAME of a server on PORT. Call it before threads and children exist, after
 * daemon(). NAME: letters, digits, '.', '_', '-'. Returns 0, or -1 with errno: EEXIST if a running
 * program has this name, EINVAL if NAME is not valid. The board of a dead program is replaced.
 */
int board_open(const char *name, int port);

/* A clean end. Without it readers say that the program died. Only for the process that opened. */
void board_close(void);

/* A request of the calling thread begins. LINE: its first line; 256 bytes of it are kept. */
void board_begin(const char *line, size_t length);

/* It ends: counts it with its latency, and writes a log record. BYTES: size of the response. */
void board_end(int status, uint64_t bytes);

/* The same for programs that have the time (board_now()) already. */
void board_begin_at(const char *line, size_t length, uint64_t now_ns);
void board_end_at(int status, uint64_t bytes, uint64_t now_ns);

/* The client of the thread's requests from now on: a struct sockaddr. Without it, 127.0.0.1. */
void board_client(const void *sockaddr);

/* Sets the state of the calling thread. board_begin() sets WRITE, board_end() IDLE. */
void board_state(enum board_state state);

/* Name of the calling thread, at most 15 bytes; without it readers show its number. */
void board_name(const char *name);

/* Gives this process slot NUMBER, below WSBOARD_WORKERS: first call in a child. Else it gets the
 * first free slot. */
void board_worker(int number);

/* A connection was opened (1) or closed (-1). */
void board_connection(int change);

/*
 * The queue between threads: its length and capacity, after each change. A thread that waited in
 * state QUEUE is then in READ. board_waited(): an item was taken that was put in at SINCE_NS. Call
 * both under the queue's lock.
 */
void board_queue(uint32_t waiting, uint32_t places);
void board_waited(uint64_t since_ns);

/* MORE of WHAT. */
void board_count(enum board_counter what, uint64_t more);

/*
 * pthread_mutex_lock() and pthread_cond_wait(), with the same results. The thread is in LOCK or
 * QUEUE while it waits; then again in the state it had. A wait for the mutex is counted.
 */
int board_lock(pthread_mutex_t *mutex);
int board_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);

/* An event, as by printf(); 223 bytes of it are kept. */
void board_event(enum board_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t board_now(void);

/*
 * Offers COMMANDS, separated by blanks ("threads queue"), to wsconsole and wsctl. Another thread
 * calls HANDLE with a command and its argument ("" if there is none). HANDLE returns 0, or -1 with
 * the reason in ANSWER (SIZE bytes). Returns 0, or -1 with errno. Once, after board_open().
 */
int board_control(int (*handle)(const char *command, const char *argument, char *answer,
                                size_t size),
                  const char *commands);

#ifdef __cplusplus
}
#endif
#endif

#if defined WSBOARD_IMPLEMENTATION && !defined WSBOARD_IMPLEMENTED
#define WSBOARD_IMPLEMENTED

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The format, webserverd-shm(7). Whoever changes it here changes it there. */

#define WSBOARD_METRICS(THREAD, WORKER)                                                            \
    THREAD(requests, 0, 0, "requests", "Requests served, any status")                              \
    THREAD(response_time, 0, 2, "response time",                                                   \
           "Time from the start of each request to the end of its response")                       \
    THREAD(bytes_sent, 0, 1, "sent", "Bytes sent to clients, headers included")                    \
    THREAD(cache_hits, 0, 0, "cache hits", "Requests served from the cache")                       \
    THREAD(cache_misses, 0, 0, "cache misses", "Requests for a file that was not in the cache")    \
    THREAD(connections_accepted, 0, 0, "accepted", "Connections accepted")                         \
    THREAD(connections_closed, 0, 0, "closed", "Connections closed by either side")                \
    THREAD(lock_waits, 0, 0, "lock waits", "Waits for a mutex that another thread held")           \
    THREAD(lock_wait, 0, 2, "lock wait", "Time spent in these waits")                              \
    WORKER(queue_length, 1, 0, "queued", "Items in the queue between threads")                     \
    WORKER(queue_capacity, 1, 0, "queue places", "Items that the queue can hold")                  \
    WORKER(queue_taken, 0, 0, "taken", "Items taken from the queue")                               \
    WORKER(queue_wait, 0, 2, "in queue", "Time that these items spent in the queue")               \
    WORKER(queue_dropped, 0, 0, "dropped", "Items dropped because the queue was full")

/* One metric each; another status counts as the first of its class here (RFC 9110 section 15). */
/* clang-format off */
#define WSBOARD_STATUSES(STATUS)                                                                   \
    STATUS(200) STATUS(206) STATUS(301) STATUS(302) STATUS(304) STATUS(307) STATUS(308)            \
    STATUS(400) STATUS(401) STATUS(403) STATUS(404) STATUS(405) STATUS(406) STATUS(408)            \
    STATUS(410) STATUS(412) STATUS(413) STATUS(414) STATUS(416) STATUS(417) STATUS(421)            \
    STATUS(429) STATUS(431) STATUS(500) STATUS(501) STATUS(503) STATUS(505)
/* clang-format on */

#define WSBOARD_ID(name, kind, unit, label, help) WSBOARD_##name,
#define WSBOARD_STATUS_ID(code)                   WSBOARD_responses_##code,
#define WSBOARD_NOTHING(name, kind, unit, label, help)
enum wsboard_thread_metric {
    WSBOARD_METRICS(WSBOARD_ID, WSBOARD_NOTHING) WSBOARD_STATUSES(WSBOARD_STATUS_ID)
        WSBOARD_THREAD_METRICS
};
enum wsboard_worker_metric { WSBOARD_METRICS(WSBOARD_NOTHING, WSBOARD_ID) WSBOARD_WORKER_METRICS };

enum {
    WSBOARD_SLOTS = WSBOARD_WORKERS * WSBOARD_THREADS,
    WSBOARD_ALL_METRICS = (int)WSBOARD_THREAD_METRICS + (int)WSBOARD_WORKER_METRICS,
    WSBOARD_STATES = 15,
    WSBOARD_LINE = 256,
    WSBOARD_BUCKETS = 2112,
    WSBOARD_RING_WORDS = 2048, /* a power of two */
    WSBOARD_RECORD_HEAD = 7,
    WSBOARD_WORK = 12,
    WSBOARD_NO_OUTCOME = 255,
    WSBOARD_EVENTS = 128,
    WSBOARD_EVENT_WORDS = 28
};

#define WSBOARD_NO_WORKER UINT32_MAX

struct wsboard_section {
    uint32_t kind, count;
    uint64_t offset, stride, entry_size;
};

struct wsboard_header {
    uint64_t magic;
    uint16_t major, minor;
    uint32_t header_size;
    uint64_t total_size, generation, started_ns, start_ticks;
    int32_t pid;
    uint32_t ready, stopped, section_count, metric_count, state_count, outcome_count, cache_entries;
    char name[64], version[32], socket_path[108], listening[256];
    uint32_t unused;
    struct wsboard_section section[64];
};

struct wsboard_metric {
    char name[32], label[16], help[128];
    uint8_t scope, kind, unit, unused;
    uint32_t offset;
};

struct wsboard_state {
    char letter, name[15], help[64];
};

struct wsboard_worker_slot {
    uint32_t reserved, state;
    int32_t pid;
    uint32_t starts, threads_wanted, generation;
    uint64_t started_ns;
};

struct wsboard_thread_slot {
    uint32_t reserved, worker, thread, unused;
};

struct wsboard_worker {
    uint64_t heartbeat_ns;
    uint32_t threads, offload_threads, connections, unused[11];
    uint64_t metric[WSBOARD_WORKER_METRICS];
} __attribute__((aligned(64)));

struct wsboard_thread {
    uint64_t sequence, since_ns;
    uint32_t state;
    int32_t tid;
    uint64_t work[WSBOARD_WORK], unused; /* the request line, with a NUL */
    uint64_t metric[WSBOARD_THREAD_METRICS];
} __attribute__((aligned(64)));

struct wsboard_latency {
    uint64_t sum, max;
    uint32_t used_from, used_to;
    uint64_t bucket[WSBOARD_BUCKETS];
};

struct wsboard_ring {
    uint64_t claimed, head, unused[6], word[WSBOARD_RING_WORDS];
};

struct wsboard_event {
    uint64_t sequence, time_ns, source, checksum, text[WSBOARD_EVENT_WORDS];
};

struct wsboard_events {
    uint64_t next, unused[7];
    struct wsboard_event event[WSBOARD_EVENTS];
};

/* The memory of a thread slot, of whole pages, so that a slot that is not used has none. */
struct wsboard_slot {
    struct wsboard_thread thread;
    struct wsboard_latency latency;
    struct wsboard_ring ring __attribute__((aligned(64)));
} __attribute__((aligned(4096)));

struct wsboard {
    struct wsboard_header header;
    struct wsboard_metric metric[WSBOARD_ALL_METRICS];
    struct wsboard_state state[WSBOARD_STATES];
    struct wsboard_worker_slot worker_slot[WSBOARD_WORKERS];
    struct wsboard_thread_slot thread_slot[WSBOARD_SLOTS];
    uint64_t master[16] __attribute__((aligned(64)));
    struct wsboard_worker worker[WSBOARD_WORKERS];
    char name[WSBOARD_SLOTS][16];
    struct wsboard_events events;
    struct wsboard_slot slot[WSBOARD_SLOTS];
};

/* Of this process */
static struct {
    struct wsboard *board; /* NULL: not open */
    int pid;               /* of the process that opened it */
    int worker;            /* slot of this process, or WSBOARD_UNKNOWN or the next two */
    int wanted;            /* slot of board_worker(); -1: the first free one */
    pthread_key_t key;     /* frees the slot of a thread at its end */
    char path[160], socket_path[108];
} wsboard_process;

/* What threads without a slot write, and all threads if no board is open; nobody reads it. */
static struct wsboard_slot wsboard_unseen;
static struct wsboard_worker wsboard_unseen_worker;

enum { WSBOARD_UNKNOWN = -1, WSBOARD_IN_CHANGE = -2, WSBOARD_FULL = -3 };

/* Of this thread */
static __thread struct {
    struct wsboard_slot *slot; /* NULL: not known yet */
    struct wsboard_worker *worker;
    uint32_t number; /* of the slot */
    uint32_t tries;  /* to get a slot */
    int in_request;
    uint64_t begin_ns;
    uint64_t wall_ns, wall_at_ns; /* wall clock at a time of the monotonic clock */
    uint64_t line_length;
} wsboard_self;

/* IPv6 address of the client; at first ::ffff:127.0.0.1 */
static __thread uint8_t wsboard_client[16] = {0, 0, 0,    0,    0,   0, 0, 0,
                                              0, 0, 0xff, 0xff, 127, 0, 0, 1};

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WSBOARD_BYTE(i) (8 * (i)) /* the place of byte I in a word, in bits */
#else
#define WSBOARD_BYTE(i) (8 * (7 - (i)))
#endif
#define WSBOARD_GET(word)            __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define WSBOARD_SET(word, value)     __atomic_store_n(&(word), value, __ATOMIC_RELAXED)
#define WSBOARD_PUBLISH(word, value) __atomic_store_n(&(word), value, __ATOMIC_RELEASE)
#define WSBOARD_ADD(word, more)      WSBOARD_SET(word, WSBOARD_GET(word) + (more)) /* one writer */
#define WSBOARD_SWAP(word, expected, value)                                                        \
    __atomic_compare_exchange_n(&(word), expected, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

static uint64_t wsboard_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t board_now(void)
{
    return wsboard_clock(CLOCK_MONOTONIC);
}

/* Slots of processes and threads */

static void wsboard_free_thread(struct wsboard *board, uint32_t number)
{
    struct wsboard_thread *thread = &board->slot[number].thread;

    if (WSBOARD_GET(board->thread_slot[number].reserved) == 0)
        return;
    WSBOARD_SET(thread->state, 0u);
    WSBOARD_SET(board->thread_slot[number].worker, WSBOARD_NO_WORKER);
    WSBOARD_PUBLISH(thread->tid, 0);
}

static int wsboard_is_gone(int pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

/* Takes slot I if it is free or its process is gone. */
static int wsboard_take_worker(struct wsboard *board, int i)
{
    struct wsboard_worker_slot *slot = &board->worker_slot[i];
    int pid = WSBOARD_GET(slot->pid), own = (int)getpid();
    uint32_t thread, first = (uint32_t)i * WSBOARD_THREADS;

    if ((pid != 0 && pid != own && !wsboard_is_gone(pid)) || !WSBOARD_SWAP(slot->pid, &pid, own))
        return 0;
    for (thread = first; thread < first + WSBOARD_THREADS; thread++)
        wsboard_free_thread(board, thread);
    WSBOARD_SET(board->worker[i].threads, 0u);
    WSBOARD_SET(board->worker[i].connections, 0u);
    WSBOARD_SET(board->worker[i].metric[WSBOARD_queue_length], (uint64_t)0);
    WSBOARD_SET(slot->started_ns, wsboard_clock(CLOCK_REALTIME));
    WSBOARD_SET(slot->starts, WSBOARD_GET(slot->starts) + 1);
    WSBOARD_SET(slot->state, 2u);
    WSBOARD_PUBLISH(slot->reserved, 1u);
    return 1;
}

/* Slot of this process, which takes one at the first call. */
static int wsboard_worker_number(struct wsboard *board)
{
    int number = __atomic_load_n(&wsboard_process.worker, __ATOMIC_ACQUIRE), i;

    if (number != WSBOARD_UNKNOWN && number != WSBOARD_IN_CHANGE)
        return number;
    number = WSBOARD_UNKNOWN;
    if (!WSBOARD_SWAP(wsboard_process.worker, &number, (int)WSBOARD_IN_CHANGE)) {
        while ((number = __atomic_load_n(&wsboard_process.worker, __ATOMIC_ACQUIRE)) ==
               WSBOARD_IN_CHANGE)
            sched_yield(); /* another thread of this process takes it */
        return number;
    }
    number = WSBOARD_FULL;
    if (wsboard_process.wanted >= 0) {
        if (wsboard_take_worker(board, wsboard_process.wanted))
            number = wsboard_process.wanted;
    }
    for (i = 0; i < WSBOARD_WORKERS && number == WSBOARD_FULL; i++)
        if (wsboard_take_worker(board, i))
            number = i;
    WSBOARD_PUBLISH(wsboard_process.worker, number);
    return number;
}

/* Takes thread slot NUMBER. Returns 1; 0 if another thread has it; -1 if it has no memory. */
static int wsboard_take_thread(struct wsboard *board, uint32_t number)
{
    struct wsboard_slot *slot = &board->slot[number];
    int tid = (int)syscall(SYS_gettid), nobody = 0;

    /* Without memory a store would end the program by SIGBUS. */
    if (WSBOARD_GET(board->thread_slot[number].reserved) == 0 &&
        madvise(slot, sizeof(*slot), MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
        return -1;
    return WSBOARD_SWAP(slot->thread.tid, &nobody, tid);
}

/* At the end of a thread, with its slot */
static void wsboard_end_thread(void *memory)
{
    struct wsboard *board = wsboard_process.board;

    (void)memory;
    if (board == NULL || wsboard_self.slot == NULL)
        return;
    __atomic_fetch_sub(&wsboard_self.worker->threads, 1, __ATOMIC_RELAXED);
    wsboard_free_thread(board, wsboard_self.number);
    wsboard_self.slot = NULL;
}

/* Number of this process, negative if it has none. Its worker gets the stores of this thread. */
static int wsboard_own_worker(void)
{
    struct wsboard *board = wsboard_process.board;
    int worker = board != NULL ? wsboard_worker_number(board) : WSBOARD_FULL;

    wsboard_self.worker = worker >= 0 ? &board->worker[worker] : &wsboard_unseen_worker;
    return worker;
}

/* A thread that gets none tries again at every 1024th call: no call may take long. */
static struct wsboard_slot *wsboard_take_slot(void)
{
    struct wsboard *board = wsboard_process.board;
    struct wsboard_thread_slot *entry;
    int worker = wsboard_own_worker(), taken = 0;
    uint32_t first = (uint32_t)worker * WSBOARD_THREADS, i = first;

    if (worker < 0 || wsboard_self.tries++ % 1024 != 0)
        return &wsboard_unseen;
    while (i < first + WSBOARD_THREADS && (taken = wsboard_take_thread(board, i)) == 0)
        i++;
    if (taken != 1)
        return &wsboard_unseen;
    entry = &board->thread_slot[i];
    WSBOARD_SET(entry->thread, i - first);
    WSBOARD_SET(entry->worker, (uint32_t)worker);
    WSBOARD_SET(board->name[i][0], '\0');
    WSBOARD_SET(board->slot[i].thread.since_ns, board_now());
    WSBOARD_SET(board->slot[i].thread.state, (uint32_t)BOARD_IDLE);
    WSBOARD_PUBLISH(entry->reserved, 1u);
    wsboard_self.slot = &board->slot[i];
    wsboard_self.number = i;
    wsboard_self.in_request = 0;
    __atomic_fetch_add(&wsboard_self.worker->threads, 1, __ATOMIC_RELAXED);
    pthread_setspecific(wsboard_process.key, wsboard_self.slot);
    return wsboard_self.slot;
}

/* The slot of the calling thread, which takes one at its first call. */
static inline struct wsboard_slot *wsboard_own_slot(void)
{
    return wsboard_self.slot != NULL ? wsboard_self.slot : wsboard_take_slot();
}

/* After fork(), in the child, which takes its own slots. */
static void wsboard_forked(void)
{
    wsboard_process.worker = WSBOARD_UNKNOWN;
    wsboard_process.wanted = -1;
    wsboard_self.slot = NULL;
    wsboard_self.tries = 0;
}

/* A child that exits frees its slots. If it is killed, another process finds that. */
static void wsboard_exit(void)
{
    struct wsboard *board = wsboard_process.board;
    int worker = wsboard_process.worker, i;

    if (board == NULL || worker < 0 || (int)getpid() == wsboard_process.pid)
        return;
    for (i = worker * WSBOARD_THREADS; i < (worker + 1) * WSBOARD_THREADS; i++)
        wsboard_free_thread(board, (uint32_t)i);
    WSBOARD_SET(board->worker[worker].threads, 0u);
    WSBOARD_SET(board->worker_slot[worker].state, 0u);
    WSBOARD_PUBLISH(board->worker_slot[worker].pid, 0);
}

/* Requests */

static void wsboard_set_state(struct wsboard_thread *thread, enum board_state state,
                              uint64_t now_ns)
{
    if (WSBOARD_GET(thread->state) == (uint32_t)state)
        return;
    WSBOARD_SET(thread->since_ns, now_ns);
    WSBOARD_SET(thread->state, (uint32_t)state);
}

void board_state(enum board_state state)
{
    struct wsboard_slot *slot = wsboard_own_slot();

    if (WSBOARD_GET(slot->thread.state) != (uint32_t)state)
        wsboard_set_state(&slot->thread, state, board_now());
}

void board_name(const char *name)
{
    struct wsboard *board = wsboard_process.board;
    size_t length = strnlen(name, 15);

    if (board == NULL || wsboard_own_slot() == &wsboard_unseen)
        return;
    memcpy(board->name[wsboard_self.number], name, length);
    board->name[wsboard_self.number][length] = '\0';
}

void board_worker(int number)
{
    if (number >= 0 && number < WSBOARD_WORKERS)
        wsboard_process.wanted = number;
    wsboard_own_slot();
}

void board_client(const void *sockaddr)
{
    uint16_t family;
    uint8_t address[16] = {0};

    memcpy(&family, sockaddr, sizeof(family));
    if (family == AF_INET6) {
        memcpy(address, &((const struct sockaddr_in6 *)sockaddr)->sin6_addr, 16);
    } else if (family == AF_INET) {
        memset(address + 10, 0xff, 2);
        memcpy(address + 12, &((const struct sockaddr_in *)sockaddr)->sin_addr, 4);
    }
    memcpy(wsboard_client, address, sizeof(address));
}

/* HTTP/1.0, HTTP/1.1, or neither */
static uint64_t wsboard_protocol(const char *line, size_t length)
{
    if (length < 9 || memcmp(line + length - 9, " HTTP/1.", 8) != 0)
        return 0;
    return line[length - 1] == '0' ? 1 : line[length - 1] == '1' ? 2 : 0;
}

/*
 * The first LENGTH bytes of TEXT, at most 8, as a word that has zeros after them. With memcpy() of
 * LENGTH bytes the word is loaded before its bytes are stored: that is half of the time of a call.
 */
static uint64_t wsboard_word(const char *text, size_t length)
{
    uint64_t word = 0;
    size_t i;

    if (length >= 8)
        memcpy(&word, text, 8);
    for (i = 0; i < length && length < 8; i++)
        word |= (uint64_t)(uint8_t)text[i] << WSBOARD_BYTE(i);
    return word;
}

static void wsboard_put(struct wsboard_ring *ring, uint64_t position, uint64_t word)
{
    WSBOARD_PUBLISH(ring->word[position & (WSBOARD_RING_WORDS - 1)], word);
}

/* Writes words 4 and following of the log record behind the ring's head. */
void board_begin_at(const char *line, size_t length, uint64_t now_ns)
{
    struct wsboard_slot *slot = wsboard_own_slot();
    const char *end = (const char *)memchr(line, '\n', length);
    uint64_t record = WSBOARD_GET(slot->ring.head), sequence, protocol, word;
    size_t i;

    if (end != NULL)
        length = (size_t)(end - line);
    if (length > 0 && line[length - 1] == '\r')
        length--;
    protocol = wsboard_protocol(line, length);
    if (length > WSBOARD_LINE)
        length = WSBOARD_LINE;
    wsboard_self.line_length = length;
    wsboard_self.begin_ns = now_ns;
    wsboard_self.in_request = 1;

    sequence = WSBOARD_GET(slot->thread.sequence) | 1;
    WSBOARD_SET(slot->thread.sequence, sequence);
    WSBOARD_SET(slot->ring.claimed, record + WSBOARD_RECORD_HEAD + length / 8 + 1);
    WSBOARD_PUBLISH(slot->thread.since_ns, now_ns);
    WSBOARD_PUBLISH(slot->thread.state, (uint32_t)BOARD_WRITE);
    for (i = 0; i < 2; i++) {
        memcpy(&word, wsboard_client + i * 8, 8);
        wsboard_put(&slot->ring, record + 4 + i, word);
    }
    wsboard_put(&slot->ring, record + 6, length | protocol << 54);
    for (i = 0; i * 8 <= length; i++) { /* with the zero after it */
        word = wsboard_word(line + i * 8, length - i * 8);
        wsboard_put(&slot->ring, record + WSBOARD_RECORD_HEAD + i, word);
        if (i == WSBOARD_WORK - 1)
            word &= ~(UINT64_C(0xff) << WSBOARD_BYTE(7));
        if (i < WSBOARD_WORK)
            WSBOARD_PUBLISH(slot->thread.work[i], word);
    }
    WSBOARD_PUBLISH(slot->thread.sequence, sequence + 1);
}

void board_begin(const char *line, size_t length)
{
    board_begin_at(line, length, board_now());
}

static void wsboard_record_latency(struct wsboard_latency *latency, uint64_t value)
{
    uint32_t index = (uint32_t)value, shift;

    if (value >= 128) {
        shift = 63 - (uint32_t)__builtin_clzll(value);
        shift = shift > 37 ? 38 : shift - 6;
        index = shift == 38 ? WSBOARD_BUCKETS - 1 : shift * 64 + (uint32_t)(value >> shift);
    }
    WSBOARD_ADD(latency->bucket[index], 1);
    WSBOARD_ADD(latency->sum, value);
    if (WSBOARD_GET(latency->used_to) == 0 || index < WSBOARD_GET(latency->used_from))
        WSBOARD_SET(latency->used_from, index);
    if (index >= WSBOARD_GET(latency->used_to))
        WSBOARD_SET(latency->used_to, index + 1);
    if (value > WSBOARD_GET(latency->max))
        WSBOARD_SET(latency->max, value);
}

/* The metric of STATUS, or of the first status of its class. */
static inline uint32_t wsboard_status_metric(int status)
{
#define WSBOARD_STATUS_CASE(code)                                                                  \
    case code:                                                                                     \
        return WSBOARD_responses_##code;
    switch (status) {
        WSBOARD_STATUSES(WSBOARD_STATUS_CASE)
    default:
        return status < 300   ? WSBOARD_responses_200
               : status < 400 ? WSBOARD_responses_302
               : status < 500 ? WSBOARD_responses_400
                              : WSBOARD_responses_500;
    }
}

void board_end_at(int status, uint64_t bytes, uint64_t now_ns)
{
    struct wsboard_slot *slot = wsboard_own_slot();
    uint64_t record = WSBOARD_GET(slot->ring.head), words, duration;

    if (!wsboard_self.in_request)
        return;
    wsboard_self.in_request = 0;
    duration = now_ns > wsboard_self.begin_ns ? now_ns - wsboard_self.begin_ns : 0;
    WSBOARD_ADD(slot->thread.metric[WSBOARD_requests], 1);
    WSBOARD_ADD(slot->thread.metric[WSBOARD_response_time], duration);
    WSBOARD_ADD(slot->thread.metric[WSBOARD_bytes_sent], bytes);
    if (status >= 200 && status < 600)
        WSBOARD_ADD(slot->thread.metric[wsboard_status_metric(status)], 1);
    wsboard_record_latency(&slot->latency, duration);

    if (now_ns - wsboard_self.wall_at_ns > 1000000000u) {
        wsboard_self.wall_at_ns = now_ns;
        wsboard_self.wall_ns = wsboard_clock(CLOCK_REALTIME);
    }
    words = WSBOARD_RECORD_HEAD + (wsboard_self.line_length + 7) / 8;
    wsboard_put(&slot->ring, record,
                words | (uint64_t)3 << 32 | (uint64_t)WSBOARD_NO_OUTCOME << 40 |
                    (uint64_t)(uint16_t)status << 48);
    wsboard_put(&slot->ring, record + 1,
                wsboard_self.wall_ns - (wsboard_self.wall_at_ns - wsboard_self.begin_ns));
    wsboard_put(&slot->ring, record + 2, duration);
    wsboard_put(&slot->ring, record + 3, bytes & ((UINT64_C(1) << 48) - 1));
    WSBOARD_PUBLISH(slot->ring.head, record + words);
    wsboard_set_state(&slot->thread, BOARD_IDLE, now_ns);
}

void board_end(int status, uint64_t bytes)
{
    board_end_at(status, bytes, board_now());
}

/* Connections, queue, locks */

void board_connection(int change)
{
    struct wsboard_slot *slot = wsboard_own_slot();

    WSBOARD_ADD(
        slot->thread.metric[change > 0 ? WSBOARD_connections_accepted : WSBOARD_connections_closed],
        1);
    __atomic_fetch_add(&wsboard_self.worker->connections, (uint32_t)(change > 0 ? 1 : -1),
                       __ATOMIC_RELAXED);
}

/* The thread has what it waited for. */
static void wsboard_end_wait(struct wsboard_slot *slot)
{
    if (WSBOARD_GET(slot->thread.state) == BOARD_QUEUE)
        wsboard_set_state(&slot->thread, BOARD_READ, board_now());
}

void board_queue(uint32_t waiting, uint32_t places)
{
    struct wsboard_slot *slot = wsboard_own_slot();

    WSBOARD_SET(wsboard_self.worker->metric[WSBOARD_queue_length], (uint64_t)waiting);
    WSBOARD_SET(wsboard_self.worker->metric[WSBOARD_queue_capacity], (uint64_t)places);
    wsboard_end_wait(slot);
}

void board_waited(uint64_t since_ns)
{
    struct wsboard_slot *slot = wsboard_own_slot();
    uint64_t now_ns = board_now();

    WSBOARD_ADD(wsboard_self.worker->metric[WSBOARD_queue_taken], 1);
    WSBOARD_ADD(wsboard_self.worker->metric[WSBOARD_queue_wait],
                now_ns > since_ns ? now_ns - since_ns : 0);
    wsboard_end_wait(slot);
}

void board_count(enum board_counter what, uint64_t more)
{
    struct wsboard_slot *slot = wsboard_own_slot();

    if (what == BOARD_DROPPED)
        __atomic_fetch_add(&wsboard_self.worker->metric[WSBOARD_queue_dropped], more,
                           __ATOMIC_RELAXED);
    else
        WSBOARD_ADD(slot->thread.metric[what == BOARD_CACHE_HITS ? WSBOARD_cache_hits
                                                                 : WSBOARD_cache_misses],
                    more);
}

int board_lock(pthread_mutex_t *mutex)
{
    struct wsboard_slot *slot;
    enum board_state before;
    uint64_t since_ns, now_ns;
    int error = pthread_mutex_trylock(mutex);

    if (error != EBUSY)
        return error;
    slot = wsboard_own_slot();
    before = (enum board_state)WSBOARD_GET(slot->thread.state);
    since_ns = board_now();
    wsboard_set_state(&slot->thread, BOARD_LOCK, since_ns);
    error = pthread_mutex_lock(mutex);
    now_ns = board_now();
    wsboard_set_state(&slot->thread, before, now_ns);
    WSBOARD_ADD(slot->thread.metric[WSBOARD_lock_waits], 1);
    WSBOARD_ADD(slot->thread.metric[WSBOARD_lock_wait], now_ns - since_ns);
    return error;
}

int board_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    struct wsboard_slot *slot = wsboard_own_slot();
    enum board_state before = (enum board_state)WSBOARD_GET(slot->thread.state);
    int error;

    if (before != BOARD_BLOCKED)
        wsboard_set_state(&slot->thread, BOARD_QUEUE, board_now());
    error = pthread_cond_wait(condition, mutex);
    if (before != BOARD_BLOCKED)
        wsboard_set_state(&slot->thread, before, board_now());
    return error;
}

void board_event(enum board_level level, const char *format, ...)
{
    struct wsboard *board = wsboard_process.board;
    uint64_t words[3 + WSBOARD_EVENT_WORDS] = {0}; /* number, time, source, text */
    uint64_t sum = UINT64_C(0xcbf29ce484222325);   /* FNV-1a of the words */
    char text[sizeof(uint64_t) * WSBOARD_EVENT_WORDS];
    struct wsboard_event *event;
    va_list arguments;
    size_t i;

    if (board == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    words[0] = __atomic_fetch_add(&board->events.next, 1, __ATOMIC_RELAXED);
    words[1] = wsboard_clock(CLOCK_REALTIME);
    words[2] = (uint64_t)level | (uint64_t)(uint32_t)getpid() << 32;
    memcpy(words + 3, text, strlen(text));
    for (i = 0; i < 3 + WSBOARD_EVENT_WORDS; i++)
        sum = (sum ^ words[i]) * UINT64_C(0x100000001b3);
    event = &board->events.event[words[0] % WSBOARD_EVENTS];
    WSBOARD_SET(event->sequence, 2 * words[0] + 1);
    WSBOARD_PUBLISH(event->time_ns, words[1]);
    WSBOARD_PUBLISH(event->source, words[2]);
    WSBOARD_PUBLISH(event->checksum, sum);
    for (i = 0; i < WSBOARD_EVENT_WORDS; i++)
        WSBOARD_PUBLISH(event->text[i], words[3 + i]);
    WSBOARD_PUBLISH(event->sequence, 2 * words[0] + 2);
}

/* Open and close */

#define WSBOARD_LINE_OF(name, label, help, scope, kind, unit, block)                               \
    {#name, label,                                                                                 \
     help,  scope,                                                                                 \
     kind,  unit,                                                                                  \
     0,     (uint32_t)(offsetof(struct block, metric) + WSBOARD_##name * sizeof(uint64_t))},
#define WSBOARD_THREAD_LINE(name, kind, unit, label, help)                                         \
    WSBOARD_LINE_OF(name, label, help, 0, kind, unit, wsboard_thread)
#define WSBOARD_WORKER_LINE(name, kind, unit, label, help)                                         \
    WSBOARD_LINE_OF(name, label, help, 1, kind, unit, wsboard_worker)
#define WSBOARD_STATUS_LINE(code)                                                                  \
    WSBOARD_LINE_OF(responses_##code, #code, "Responses with this status", 0, 0, 0, wsboard_thread)

static const struct wsboard_metric wsboard_metrics[] = {
    WSBOARD_METRICS(WSBOARD_THREAD_LINE, WSBOARD_NOTHING) WSBOARD_STATUSES(WSBOARD_STATUS_LINE)
        WSBOARD_METRICS(WSBOARD_NOTHING, WSBOARD_WORKER_LINE)};

/* By number: those of webserverd, too */
static const struct wsboard_state wsboard_states[] = {
    {'.', "none", "no thread in this slot"},
    {'S', "starting", "starting"},
    {'_', "idle", "waiting, no connection open"},
    {'K', "keep-alive", "waiting for the next request of a connection"},
    {'A', "accept", "accepting connections"},
    {'R', "read", "reading or parsing a request"},
    {'W', "write", "answering a request"},
    {'F', "file", "opening, checking or reading a file"},
    {'M', "lock", "waiting for a mutex"},
    {'L', "log", "waiting for space in its log ring"},
    {'Q', "queue", "waiting for an item in the queue"},
    {'G', "leaving", "about to exit"},
    {'Z', "compress", "compressing"},
    {'X', "compute", "computing"},
    {'B', "blocked", "waiting for a place in the queue"},
};

#define WSBOARD_BYTES(member) sizeof(((struct wsboard *)0)->member)
#define WSBOARD_PART(kind, count, member)                                                          \
    {kind, count, offsetof(struct wsboard, member), WSBOARD_BYTES(member) / (count),               \
     WSBOARD_BYTES(member) / (count)},
#define WSBOARD_PART_OF_SLOTS(kind, member)                                                        \
    {kind, WSBOARD_SLOTS, offsetof(struct wsboard, slot) + offsetof(struct wsboard_slot, member),  \
     sizeof(struct wsboard_slot), sizeof(((struct wsboard_slot *)0)->member)},

static const struct wsboard_section wsboard_sections[] = {
    WSBOARD_PART(1, WSBOARD_ALL_METRICS, metric)  /* METRICS */
    WSBOARD_PART(2, WSBOARD_STATES, state)        /* STATES */
    WSBOARD_PART(3, WSBOARD_WORKERS, worker_slot) /* WORKER_SLOTS */
    WSBOARD_PART(4, WSBOARD_SLOTS, thread_slot)   /* THREAD_SLOTS */
    WSBOARD_PART(5, 1, master)                    /* MASTER */
    WSBOARD_PART(6, WSBOARD_WORKERS, worker)      /* WORKERS */
    WSBOARD_PART_OF_SLOTS(7, thread)              /* THREADS */
    WSBOARD_PART_OF_SLOTS(8, latency)             /* LATENCY */
    WSBOARD_PART_OF_SLOTS(9, ring)                /* RINGS */
    WSBOARD_PART(10, 1, events)                   /* EVENTS */
    WSBOARD_PART(11, WSBOARD_SLOTS, name)         /* NAMES */
};

/* Field 22 of /proc/PID/stat; 0: there is no such process, or it is a zombie. */
static uint64_t wsboard_start_ticks(int pid)
{
    char path[40], text[1024], *field;
    ssize_t length = 0;
    int fd, number;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        length = read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    text[length > 0 ? length : 0] = '\0';
    field = strrchr(text, ')'); /* the name before it may contain anything */
    if (field == NULL || field[1] == '\0' || field[2] == 'Z')
        return 0;
    for (number = 2; field != NULL && number < 22; number++)
        field = strchr(field + 1, ' ');
    return field != NULL ? strtoull(field, NULL, 10) : 0;
}

/* Whether the file of FD is the board of a program that runs. */
static int wsboard_is_alive(int fd)
{
    struct wsboard_header header;
    ssize_t length = pread(fd, &header, sizeof(header), 0);

    return length == (ssize_t)sizeof(header) && header.stopped == 0 &&
           wsboard_start_ticks(header.pid) == header.start_ticks;
}

/* Removes the board PATH, open as FD, if its program is dead. Returns 0, EAGAIN or another errno. */
static int wsboard_remove_dead(const char *path, int fd)
{
    struct stat held, named;

    if (flock(fd, LOCK_EX) != 0 || fstat(fd, &held) != 0) /* one program at a time removes it */
        return errno;
    if (stat(path, &named) != 0 || named.st_ino != held.st_ino)
        return EAGAIN; /* another program has replaced or removed it */
    if (wsboard_is_alive(fd))
        return EEXIST;
    return unlink(path) == 0 ? EAGAIN : errno;
}

/* Gives the file FD the name PATH, unless a running program has it. Returns 0 or an errno. */
static int wsboard_publish(int fd, const char *path)
{
    char link[40];
    int old, error;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    do {
        if (linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        if (errno != EEXIST)
            return errno;
        old = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        error = old >= 0 ? wsboard_remove_dead(path, old) : errno == ENOENT ? EAGAIN : errno;
        if (old >= 0)
            close(old);
    } while (error == EAGAIN);
    return error;
}

static void wsboard_fill(struct wsboard *board, const char *name, int port, uint64_t now_ns)
{
    struct wsboard_header *header = &board->header;
    int i;

    memcpy(&header->magic, "WSRVSEG1", 8);
    header->major = 3;
    header->header_size = sizeof(*header);
    header->total_size = sizeof(*board);
    header->generation = header->started_ns = now_ns;
    header->pid = (int32_t)getpid();
    header->start_ticks = wsboard_start_ticks(header->pid);
    header->section_count = sizeof(wsboard_sections) / sizeof(wsboard_sections[0]);
    header->metric_count = WSBOARD_ALL_METRICS;
    header->state_count = WSBOARD_STATES;
    header->outcome_count = 1;
    snprintf(header->name, sizeof(header->name), "%s", name);
    snprintf(header->version, sizeof(header->version), "wsboard 1.0");
    snprintf(header->listening, sizeof(header->listening), "*:%d", port);
    memcpy(header->section, wsboard_sections, sizeof(wsboard_sections));
    memcpy(board->metric, wsboard_metrics, sizeof(wsboard_metrics));
    memcpy(board->state, wsboard_states, sizeof(wsboard_states));
    for (i = 0; i < WSBOARD_SLOTS; i++)
        board->thread_slot[i].worker = WSBOARD_NO_WORKER;
}

static int wsboard_name_is_valid(const char *name)
{
    size_t length = strlen(name);

    return length > 0 && length < 64 && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               length;
}

/* The file has no name until it is complete, so a program that dies before leaves nothing. */
static int wsboard_create(const char *name, int port)
{
    const off_t fixed = (off_t)offsetof(struct wsboard, slot);
    int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0640), error = 0;
    void *memory = MAP_FAILED;

    if (fd < 0 || ftruncate(fd, (off_t)sizeof(struct wsboard)) != 0 ||
        (error = posix_fallocate(fd, 0, fixed)) != 0 ||
        (memory = mmap(NULL, sizeof(struct wsboard), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
            MAP_FAILED)
        error = error != 0 ? error : errno;
    if (error == 0) {
        struct wsboard *board = (struct wsboard *)memory;

        wsboard_fill(board, name, port, wsboard_clock(CLOCK_REALTIME));
        WSBOARD_PUBLISH(board->header.ready, 1u);
        error = wsboard_publish(fd, wsboard_process.path);
        if (error == 0)
            wsboard_process.board = board;
        else
            munmap(memory, sizeof(*board));
    }
    if (fd >= 0)
        close(fd);
    return error;
}

/* Once: what a process needs for threads and children that end. */
static int wsboard_prepare(void)
{
    static int prepared;
    int error = prepared ? 0 : pthread_key_create(&wsboard_process.key, wsboard_end_thread);

    if (error == 0 && !prepared)
        error = pthread_atfork(NULL, NULL, wsboard_forked);
    if (error == 0 && !prepared && atexit(wsboard_exit) != 0)
        error = ENOMEM;
    prepared |= error == 0;
    return error;
}

int board_open(const char *name, int port)
{
    int error = wsboard_process.board != NULL ? EALREADY
                : wsboard_name_is_valid(name) ? wsboard_prepare()
                                              : EINVAL;

    if (error == 0) {
        wsboard_process.pid = (int)getpid();
        wsboard_process.worker = WSBOARD_UNKNOWN;
        wsboard_process.wanted = -1;
        snprintf(wsboard_process.path, sizeof(wsboard_process.path), "/dev/shm/webserverd.%s",
                 name);
        error = wsboard_create(name, port);
    }
    errno = error;
    return error == 0 ? 0 : -1;
}

/* Control: lines of words in, lines of JSON out, as webserverd's control socket */

static struct {
    int (*handle)(const char *command, const char *argument, char *answer, size_t size);
    const char *commands;
    int listener;
} wsboard_control;

/* $XDG_RUNTIME_DIR/webserverd, /run/webserverd for root, /tmp/webserverd-UID; mode 0700. */
static int wsboard_run_directory(char *path, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat status;

    if (geteuid() == 0)
        snprintf(path, size, "/run/webserverd");
    else if (runtime != NULL && runtime[0] == '/')
        snprintf(path, size, "%s/webserverd", runtime);
    else
        snprintf(path, size, "/tmp/webserverd-%lu", (unsigned long)geteuid());
    if (mkdir(path, geteuid() == 0 ? 0755 : 0700) != 0 && errno != EEXIST)
        return errno;
    if (lstat(path, &status) != 0)
        return errno;
    return S_ISDIR(status.st_mode) && (status.st_uid == geteuid() || geteuid() == 0) ? 0 : EPERM;
}

/* Whether WORD is one of the offered commands. */
static int wsboard_offers(const char *word)
{
    size_t length = strlen(word);
    const char *at = wsboard_control.commands;

    while (length > 0 && (at = strstr(at, word)) != NULL) {
        if ((at == wsboard_control.commands || at[-1] == ' ') && strchr(" ", at[length]) != NULL)
            return 1;
        at += length;
    }
    return 0;
}

/* Writes TEXT as the inside of a JSON string. */
static void wsboard_escape(const char *text, char *to, size_t size)
{
    size_t used = 0;

    for (; *text != '\0' && used + 7 < size; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            used += (size_t)snprintf(to + used, size - used, "\\u%04x", (unsigned)c);
        else
            to[used++] = (char)c;
    }
    to[used] = '\0';
}

static void wsboard_answer_line(int client, char *line)
{
    char answer[512] = "", escaped[1024], reply[1280], *argument;
    int result = -1;

    line[strcspn(line, "\r\n")] = '\0';
    argument = line + strcspn(line, " ");
    if (*argument != '\0')
        *argument++ = '\0';
    if (strcmp(line, "ping") == 0)
        result = 0;
    else if (!wsboard_offers(line))
        snprintf(answer, sizeof(answer), "unknown command '%.40s'; this program offers: %.400s",
                 line, wsboard_control.commands);
    else
        result = wsboard_control.handle(line, argument, answer, sizeof(answer));
    answer[sizeof(answer) - 1] = '\0';
    wsboard_escape(answer, escaped, sizeof(escaped));
    snprintf(reply, sizeof(reply), "{\"ok\":%s,\"%s\":\"%s\"}\n", result == 0 ? "true" : "false",
             result == 0 ? "message" : "error", escaped);
    if (send(client, reply, strlen(reply), MSG_NOSIGNAL) < 0)
        return; /* the client has gone */
}

/* Serves one client at a time, of root or of the user of this program. */
static void wsboard_serve(int client)
{
    struct timeval limit = {10, 0};
    struct ucred peer = {0, (uid_t)-1, 0};
    socklen_t size = sizeof(peer);
    char line[512];
    FILE *lines;

    getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    if (peer.uid != 0 && peer.uid != geteuid())
        return;
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    lines = fdopen(dup(client), "r");
    while (lines != NULL && fgets(line, sizeof(line), lines) != NULL && strchr(line, '\n') != NULL)
        wsboard_answer_line(client, line);
    if (lines != NULL)
        fclose(lines);
}

static void *wsboard_listen(void *unused)
{
    (void)unused;
    wsboard_own_worker();
    wsboard_self.slot = &wsboard_unseen; /* this thread is not the program's, and not shown */
    for (;;) {
        int client = accept4(wsboard_control.listener, NULL, NULL, SOCK_CLOEXEC);

        if (client >= 0) {
            wsboard_serve(client);
            close(client);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return NULL;
        }
    }
}

int board_control(int (*handle)(const char *command, const char *argument, char *answer,
                                size_t size),
                  const char *commands)
{
    struct wsboard *board = wsboard_process.board;
    struct sockaddr_un address;
    char directory[108];
    sigset_t all, before;
    pthread_t thread;
    int error;

    if (board == NULL || wsboard_control.handle != NULL) {
        errno = board == NULL ? EINVAL : EALREADY;
        return -1;
    }
    memset(&address, 0, sizeof(address));
    address.sun_family = AF_UNIX;
    error = wsboard_run_directory(directory, sizeof(directory));
    if (error == 0 && (size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s.sock",
                                       directory, board->header.name) >= sizeof(address.sun_path))
        error = ENAMETOOLONG;
    wsboard_control.listener = error == 0 ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (error == 0 && wsboard_control.listener < 0)
        error = errno;
    if (error == 0) {
        unlink(address.sun_path); /* of a dead program with this name */
        if (bind(wsboard_control.listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
            chmod(address.sun_path, 0600) != 0 || listen(wsboard_control.listener, 8) != 0)
            error = errno;
    }
    wsboard_control.handle = handle;
    wsboard_control.commands = commands;
    if (error == 0) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads */
        error = pthread_create(&thread, NULL, wsboard_listen, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (error != 0) {
        wsboard_control.handle = NULL;
        if (wsboard_control.listener >= 0)
            close(wsboard_control.listener);
        errno = error;
        return -1;
    }
    pthread_detach(thread);
    snprintf(wsboard_process.socket_path, sizeof(wsboard_process.socket_path), "%s",
             address.sun_path);
    memcpy(board->header.socket_path, address.sun_path, sizeof(board->header.socket_path));
    return 0;
}

void board_close(void)
{
    struct wsboard *board = wsboard_process.board;

    if (board == NULL || wsboard_process.pid != (int)getpid())
        return;
    WSBOARD_PUBLISH(board->header.stopped, 1u);
    unlink(wsboard_process.path);
    if (wsboard_process.socket_path[0] != '\0')
        unlink(wsboard_process.socket_path);
}

#endif
