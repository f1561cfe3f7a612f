/*
 * wsboard.h 1.0: shows what a server does, live, in wsconsole and wsctl. Reference: wsboard(3).
 *
 * One header for C99 and C++, gcc and clang, Linux on a little-endian machine. Include it where you
 * call it; in one C file, first define WSBOARD_IMPLEMENTATION and include it before all other headers.
 *
 * Only board_open() and board_control() can fail. If board_open() failed, all other calls do
 * nothing. No call blocks or allocates. Any thread may call them, also in children by fork().
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

/* Before threads and children. 0, or -1 with errno; EEXIST: a running program has this name. */
int board_open(const char *name, int port);
void board_close(void); /* a clean end; without it readers say that the program died */

/* A request of the calling thread. LINE: its first line. It ends with a response of BYTES. */
void board_begin(const char *line, size_t length);
void board_end(int status, uint64_t bytes);
void board_begin_at(const char *line, size_t length, uint64_t now_ns); /* with a time you have */
void board_end_at(int status, uint64_t bytes, uint64_t now_ns);
void board_client(const void *sockaddr); /* of the requests of this thread from now on */

void board_state(enum board_state state); /* of the calling thread */
void board_name(const char *name);        /* of the calling thread */
void board_worker(int number);            /* slot of a child process, as its first call */
void board_connection(int change);        /* opened (1) or closed (-1) */

/* Under the lock of the queue: after each change; when an item is taken, put there at SINCE_NS. */
void board_queue(uint32_t waiting, uint32_t places);
void board_waited(uint64_t since_ns);
void board_count(enum board_counter what, uint64_t more);

/* pthread_mutex_lock() and pthread_cond_wait() that show the wait as LOCK and QUEUE. */
int board_lock(pthread_mutex_t *mutex);
int board_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);

void board_event(enum board_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t board_now(void); /* CLOCK_MONOTONIC in nanoseconds */

/* Offers COMMANDS ("threads queue"). A thread calls HANDLE; it returns 0, or -1 with a reason. */
typedef int (*board_handler)(const char *command, const char *argument, char *answer, size_t size);
int board_control(board_handler handle, const char *commands);

#ifdef __cplusplus
}
#endif
#endif

#if defined WSBOARD_IMPLEMENTATION && !defined WSBOARD_IMPLEMENTED
#define WSBOARD_IMPLEMENTED

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
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

/* The format: webserverd-shm(7) */

/* Name, scope (0 thread, 1 worker), kind (1 gauge), unit (1 bytes, 2 ns), label, help */
#define WSBOARD_METRICS(METRIC)                                                                    \
    METRIC(requests, 0, 0, 0, "requests", "Requests served, any status")                           \
    METRIC(response_time, 0, 0, 2, "response time", "Time from begin to end of all requests")      \
    METRIC(bytes_sent, 0, 0, 1, "sent", "Bytes sent to clients")                                   \
    METRIC(cache_hits, 0, 0, 0, "cache hits", "Requests served from the cache")                    \
    METRIC(cache_misses, 0, 0, 0, "cache misses", "Requests for what was not in the cache")        \
    METRIC(connections_accepted, 0, 0, 0, "accepted", "Connections accepted")                      \
    METRIC(connections_closed, 0, 0, 0, "closed", "Connections closed by either side")             \
    METRIC(lock_waits, 0, 0, 0, "lock waits", "Waits for a mutex that another thread held")        \
    METRIC(lock_wait, 0, 0, 2, "lock wait", "Time spent in these waits")                           \
    METRIC(queue_length, 1, 1, 0, "waiting", "Items in the queue between threads")                 \
    METRIC(queue_capacity, 1, 1, 0, "queue places", "Items that the queue can hold")               \
    METRIC(queue_taken, 1, 0, 0, "taken", "Items taken from the queue")                            \
    METRIC(queue_wait, 1, 0, 2, "waited", "Time that these items spent in the queue")              \
    METRIC(queue_dropped, 1, 0, 0, "dropped", "Items dropped because the queue was full")
#define WSBOARD_METRIC_ID(name, scope, kind, unit, label, help) WSBOARD_##name,
#define WSBOARD_METRIC_LINE(name, scope, kind, unit, label, help)                                  \
    {#name, label, help, scope, kind, unit, 0, 0},

enum { WSBOARD_METRICS(WSBOARD_METRIC_ID) WSBOARD_FIRST_STATUS };

enum {
    WSBOARD_STATUSES = 27,
    WSBOARD_ALL_METRICS = (int)WSBOARD_FIRST_STATUS + WSBOARD_STATUSES,
    WSBOARD_SLOTS = WSBOARD_WORKERS * WSBOARD_THREADS,
    WSBOARD_STATES = 15,
    WSBOARD_LINE = 256, /* bytes of a request line that are kept */
    WSBOARD_WORK = 12,  /* words of it in an activity, with a NUL */
    WSBOARD_BUCKETS = 2112,
    WSBOARD_RING_WORDS = 2048, /* a power of two */
    WSBOARD_RECORD_HEAD = 7,
    WSBOARD_EVENTS = 128,
    WSBOARD_EVENT_WORDS = 28
};

/* One metric each. Another status counts as one of the first four, by its class. */
static const uint16_t wsboard_statuses[WSBOARD_STATUSES] = {
    200, 302, 400, 500, 206, 301, 304, 307, 308, 401, 403, 404, 405, 406,
    408, 410, 412, 413, 414, 416, 417, 421, 429, 431, 501, 503, 505};

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
    uint32_t threads, offload_threads, connections, unused[27];
    uint64_t metric[WSBOARD_FIRST_STATUS];
} __attribute__((aligned(64)));

struct wsboard_thread {
    uint64_t sequence, since_ns;
    uint32_t state;
    int32_t tid;
    uint64_t work[WSBOARD_WORK], unused;
    uint64_t metric[WSBOARD_ALL_METRICS];
} __attribute__((aligned(64)));

struct wsboard_event {
    uint64_t sequence, time_ns, source, checksum, text[WSBOARD_EVENT_WORDS];
};

/* Of a thread. Of whole pages, so that a slot that is not used takes no memory. */
struct wsboard_slot {
    struct wsboard_thread thread;
    struct {
        uint64_t sum, max;
        uint32_t used_from, used_to;
        uint64_t bucket[WSBOARD_BUCKETS];
    } latency;
    struct {
        uint64_t claimed, head, unused[6], word[WSBOARD_RING_WORDS];
    } ring __attribute__((aligned(64)));
} __attribute__((aligned(4096)));

struct wsboard {
    struct wsboard_header header;
    struct wsboard_metric metric[WSBOARD_ALL_METRICS];
    struct wsboard_state state[WSBOARD_STATES];
    struct wsboard_worker_slot worker_slot[WSBOARD_WORKERS];
    struct wsboard_thread_slot thread_slot[WSBOARD_SLOTS];
    uint64_t master[1][16] __attribute__((aligned(64)));
    struct wsboard_worker worker[WSBOARD_WORKERS];
    char name[WSBOARD_SLOTS][16];
    struct {
        uint64_t next, unused[7];
        struct wsboard_event event[WSBOARD_EVENTS];
    } events[1];
    struct wsboard_slot slot[WSBOARD_SLOTS];
};

/* Of this process */
static struct {
    struct wsboard *board; /* NULL: not open */
    int pid;               /* of the process that opened it */
    int worker;            /* slot of this process; -1: none yet */
    int wanted;            /* slot of board_worker(); -1: the first free one */
    pthread_mutex_t mutex; /* of worker, and while a thread takes a slot */
    pthread_key_t key;     /* frees the slot of a thread at its end */
    char path[100];        /* of the board */
    struct sockaddr_un address;
    board_handler handle;
    const char *commands;
    int listener;
} wsboard_own;

/* What threads without a slot write, and all threads if no board is open; nobody reads it. */
static struct wsboard_slot wsboard_unseen;
static struct wsboard_worker wsboard_unseen_worker;

static uint8_t wsboard_metric_of[600]; /* by status, from 200 on */

/* Of this thread. CLIENT: IPv6, or IPv4-mapped; at first 127.0.0.1. */
static __thread struct {
    struct wsboard_worker *worker;
    uint64_t client[2];
    struct wsboard_slot *slot; /* NULL: none yet */
    uint32_t number, tries;    /* of the slot; to get one */
    int hidden, in_request;
    uint64_t begin_ns, line_length;
    uint64_t wall_ns, wall_at_ns; /* wall clock at a time of the monotonic clock */
} wsboard_self = {
    &wsboard_unseen_worker, {0, UINT64_C(0x0100007fffff0000)}, NULL, 0, 0, 0, 0, 0, 0, 0, 0};

#define WSBOARD_GET(word)              __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define WSBOARD_SET(word, value)       __atomic_store_n(&(word), value, __ATOMIC_RELAXED)
#define WSBOARD_PUBLISH(word, value)   __atomic_store_n(&(word), value, __ATOMIC_RELEASE)
#define WSBOARD_ADD(word, more)        WSBOARD_SET(word, WSBOARD_GET(word) + (more)) /* one writer */
#define WSBOARD_ADD_SHARED(word, more) __atomic_fetch_add(&(word), more, __ATOMIC_RELAXED)

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
    if (WSBOARD_GET(board->thread_slot[number].reserved) == 0)
        return;
    WSBOARD_SET(board->slot[number].thread.state, 0u);
    WSBOARD_SET(board->thread_slot[number].worker, UINT32_MAX);
    WSBOARD_PUBLISH(board->slot[number].thread.tid, 0);
}

/* At the end of a thread */
static void wsboard_end_thread(void *slot)
{
    if (slot != wsboard_self.slot)
        return;
    WSBOARD_ADD_SHARED(wsboard_self.worker->threads, UINT32_MAX);
    wsboard_free_thread(wsboard_own.board, wsboard_self.number);
    wsboard_self.slot = NULL;
}

/* Leaves slot I without threads, connections and queue. */
static void wsboard_clear_worker(struct wsboard *board, int i)
{
    uint32_t thread, first = (uint32_t)i * WSBOARD_THREADS;

    for (thread = first; thread < first + WSBOARD_THREADS; thread++)
        wsboard_free_thread(board, thread);
    WSBOARD_SET(board->worker[i].threads, 0u);
    WSBOARD_SET(board->worker[i].connections, 0u);
    WSBOARD_SET(board->worker[i].metric[WSBOARD_queue_length], UINT64_C(0));
}

/* Takes worker slot I if it is free or its process is dead. */
static int wsboard_take_worker(struct wsboard *board, int i)
{
    struct wsboard_worker_slot *slot = &board->worker_slot[i];
    int pid = WSBOARD_GET(slot->pid), own = (int)getpid();

    if ((pid != 0 && pid != own && (kill(pid, 0) == 0 || errno != ESRCH)) ||
        !__atomic_compare_exchange_n(&slot->pid, &pid, own, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return 0;
    wsboard_clear_worker(board, i);
    WSBOARD_SET(slot->started_ns, wsboard_clock(CLOCK_REALTIME));
    WSBOARD_SET(slot->starts, WSBOARD_GET(slot->starts) + 1);
    WSBOARD_SET(slot->state, 2u);
    WSBOARD_PUBLISH(slot->reserved, 1u);
    WSBOARD_SET(wsboard_own.worker, i);
    return 1;
}

/* Takes the first free thread slot of this process, if there is one, and memory for it. */
static void wsboard_take_thread(struct wsboard *board)
{
    uint32_t first = (uint32_t)wsboard_own.worker * WSBOARD_THREADS, i = first;
    struct wsboard_thread_slot *entry;
    struct wsboard_slot *slot;

    while (i < first + WSBOARD_THREADS && WSBOARD_GET(board->thread_slot[i].reserved) != 0 &&
           __atomic_load_n(&board->slot[i].thread.tid, __ATOMIC_ACQUIRE) != 0)
        i++;
    if (i == first + WSBOARD_THREADS)
        return;
    slot = &board->slot[i];
    entry = &board->thread_slot[i];
    /* Without memory a store would end the program by SIGBUS. EINVAL: Linux before 5.14. */
    if (WSBOARD_GET(entry->reserved) == 0 &&
        madvise(slot, sizeof(*slot), 23 /* MADV_POPULATE_WRITE */) != 0 && errno != EINVAL)
        return;
    board->name[i][0] = '\0';
    WSBOARD_SET(entry->thread, i - first);
    WSBOARD_SET(entry->worker, (uint32_t)wsboard_own.worker);
    WSBOARD_SET(slot->thread.since_ns, board_now());
    WSBOARD_SET(slot->thread.state, (uint32_t)BOARD_IDLE);
    WSBOARD_SET(slot->thread.tid, (int)syscall(SYS_gettid));
    WSBOARD_PUBLISH(entry->reserved, 1u);
    WSBOARD_ADD_SHARED(wsboard_self.worker->threads, 1);
    wsboard_self.slot = slot;
    wsboard_self.number = i;
    wsboard_self.in_request = 0;
    pthread_setspecific(wsboard_own.key, slot);
}

/* A thread that gets none tries again at every 1024th call: no call may take long. */
static struct wsboard_slot *wsboard_take_slot(void)
{
    struct wsboard *board = wsboard_own.board;
    int error = errno, i;

    if (board == NULL || wsboard_self.tries++ % 1024 != 0)
        return &wsboard_unseen;
    pthread_mutex_lock(&wsboard_own.mutex);
    if (wsboard_own.worker < 0)
        wsboard_take_worker(board, wsboard_own.wanted);
    for (i = 0; i < WSBOARD_WORKERS && wsboard_own.worker < 0; i++)
        wsboard_take_worker(board, i);
    if (wsboard_own.worker >= 0)
        wsboard_self.worker = &board->worker[wsboard_own.worker];
    if (wsboard_own.worker >= 0 && !wsboard_self.hidden)
        wsboard_take_thread(board);
    pthread_mutex_unlock(&wsboard_own.mutex);
    errno = error;
    return wsboard_self.slot != NULL ? wsboard_self.slot : &wsboard_unseen;
}

/* The slot of the calling thread, which takes one at its first call, as its process does. */
static inline struct wsboard_slot *wsboard_own_slot(void)
{
    return wsboard_self.slot != NULL ? wsboard_self.slot : wsboard_take_slot();
}

/* In a child after fork(): it takes slots of its own. */
static void wsboard_forked(void)
{
    pthread_mutex_init(&wsboard_own.mutex, NULL);
    wsboard_own.worker = -1;
    wsboard_own.wanted = 0;
    wsboard_self.slot = NULL;
    wsboard_self.worker = &wsboard_unseen_worker;
    wsboard_self.tries = 0;
}

/* A child that exits frees its slots. If it is killed, another process finds that. */
static void wsboard_exit(void)
{
    struct wsboard *board = wsboard_own.board;
    int worker = WSBOARD_GET(wsboard_own.worker);

    if (board == NULL || worker < 0 || (int)getpid() == wsboard_own.pid)
        return;
    wsboard_clear_worker(board, worker);
    WSBOARD_SET(board->worker_slot[worker].state, 0u);
    WSBOARD_PUBLISH(board->worker_slot[worker].pid, 0);
}

void board_name(const char *name)
{
    size_t length = strnlen(name, 15);
    char *to;

    if (wsboard_own_slot() == &wsboard_unseen)
        return;
    to = wsboard_own.board->name[wsboard_self.number];
    memcpy(to, name, length);
    to[length] = '\0';
}

void board_worker(int number)
{
    if (number >= 0 && number < WSBOARD_WORKERS)
        wsboard_own.wanted = number;
    wsboard_own_slot();
}

/* States and requests */

static void wsboard_set_state(struct wsboard_slot *slot, uint32_t state, uint64_t now_ns)
{
    WSBOARD_SET(slot->thread.since_ns, now_ns);
    WSBOARD_SET(slot->thread.state, state);
}

void board_state(enum board_state state)
{
    struct wsboard_slot *slot = wsboard_own_slot();

    if (WSBOARD_GET(slot->thread.state) != (uint32_t)state)
        wsboard_set_state(slot, (uint32_t)state, board_now());
}

void board_client(const void *sockaddr)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)sockaddr;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sockaddr;

    memset(wsboard_self.client, 0, sizeof(wsboard_self.client));
    if (v4->sin_family == AF_INET6)
        memcpy(wsboard_self.client, &v6->sin6_addr, sizeof(wsboard_self.client));
    else if (v4->sin_family == AF_INET)
        wsboard_self.client[1] = 0xffff0000u | (uint64_t)v4->sin_addr.s_addr << 32;
}

static void wsboard_put(struct wsboard_slot *slot, uint64_t position, uint64_t word)
{
    WSBOARD_PUBLISH(slot->ring.word[position % WSBOARD_RING_WORDS], word);
}

/* The 8 bytes of LINE from AT on, with zeros after its end: by one load if LINE has 8 bytes. */
static uint64_t wsboard_word(const char *line, size_t length, size_t at)
{
    size_t left = length - at;
    uint64_t word = 0;

    if (left >= 8) {
        memcpy(&word, line + at, 8);
    } else if (left > 0 && length >= 8) {
        memcpy(&word, line + length - 8, 8);
        word >>= 8 * (8 - left);
    } else {
        memcpy(&word, line + at, left);
    }
    return word;
}

/* Sets the activity, and writes the record behind the head of the log ring: words 4 and on. */
void board_begin_at(const char *line, size_t length, uint64_t now_ns)
{
    struct wsboard_slot *slot = wsboard_own_slot();
    const char *end = (const char *)memchr(line, '\n', length);
    uint64_t record = WSBOARD_GET(slot->ring.head), protocol = 0, sequence, word;
    size_t i;

    if (end != NULL)
        length = (size_t)(end - line);
    if (length > 0 && line[length - 1] == '\r')
        length--;
    if (length >= 9 && memcmp(line + length - 9, " HTTP/1.", 8) == 0)
        protocol = line[length - 1] == '0' ? 1 : line[length - 1] == '1' ? 2 : 0;
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
    wsboard_put(slot, record + 4, wsboard_self.client[0]);
    wsboard_put(slot, record + 5, wsboard_self.client[1]);
    wsboard_put(slot, record + 6, length | protocol << 54);
    for (i = 0; i * 8 <= length; i++) { /* with the zero after it */
        word = wsboard_word(line, length, i * 8);
        wsboard_put(slot, record + WSBOARD_RECORD_HEAD + i, word);
        if (i < WSBOARD_WORK)
            WSBOARD_PUBLISH(slot->thread.work[i], i < WSBOARD_WORK - 1 ? word : word << 8 >> 8);
    }
    WSBOARD_PUBLISH(slot->thread.sequence, sequence + 1);
}

void board_begin(const char *line, size_t length)
{
    board_begin_at(line, length, board_now());
}

static void wsboard_record_latency(struct wsboard_slot *slot, uint64_t value)
{
    uint32_t index = (uint32_t)value, shift;

    if (value >= 128) {
        shift = 57 - (uint32_t)__builtin_clzll(value);
        index = shift > 31 ? WSBOARD_BUCKETS - 1 : shift * 64 + (uint32_t)(value >> shift);
    }
    WSBOARD_ADD(slot->latency.bucket[index], 1);
    WSBOARD_ADD(slot->latency.sum, value);
    if (WSBOARD_GET(slot->latency.used_to) == 0 || index < WSBOARD_GET(slot->latency.used_from))
        WSBOARD_SET(slot->latency.used_from, index);
    if (index >= WSBOARD_GET(slot->latency.used_to))
        WSBOARD_SET(slot->latency.used_to, index + 1);
    if (value > WSBOARD_GET(slot->latency.max))
        WSBOARD_SET(slot->latency.max, value);
}

void board_end_at(int status, uint64_t bytes, uint64_t now_ns)
{
    struct wsboard_slot *slot = wsboard_own_slot();
    uint64_t record = WSBOARD_GET(slot->ring.head), begin_ns = wsboard_self.begin_ns, words;
    uint64_t duration = now_ns > begin_ns ? now_ns - begin_ns : 0;

    if (!wsboard_self.in_request)
        return;
    wsboard_self.in_request = 0;
    WSBOARD_ADD(slot->thread.metric[WSBOARD_requests], 1);
    WSBOARD_ADD(slot->thread.metric[WSBOARD_response_time], duration);
    WSBOARD_ADD(slot->thread.metric[WSBOARD_bytes_sent], bytes);
    if (status >= 200 && status < 600)
        WSBOARD_ADD(slot->thread.metric[wsboard_metric_of[status]], 1);
    wsboard_record_latency(slot, duration);

    if (now_ns - wsboard_self.wall_at_ns > 1000000000u) {
        wsboard_self.wall_at_ns = now_ns;
        wsboard_self.wall_ns = wsboard_clock(CLOCK_REALTIME);
    }
    words = WSBOARD_RECORD_HEAD + (wsboard_self.line_length + 7) / 8;
    wsboard_put(slot, record, words | UINT64_C(0xff03) << 32 | (uint64_t)(uint16_t)status << 48);
    wsboard_put(slot, record + 1, wsboard_self.wall_ns - wsboard_self.wall_at_ns + begin_ns);
    wsboard_put(slot, record + 2, duration);
    wsboard_put(slot, record + 3, bytes << 16 >> 16);
    WSBOARD_PUBLISH(slot->ring.head, record + words);
    wsboard_set_state(slot, BOARD_IDLE, now_ns);
}

void board_end(int status, uint64_t bytes)
{
    board_end_at(status, bytes, board_now());
}

/* Connections, queue, locks, events */

void board_connection(int change)
{
    struct wsboard_slot *slot = wsboard_own_slot();

    if (change > 0)
        WSBOARD_ADD(slot->thread.metric[WSBOARD_connections_accepted], 1);
    else
        WSBOARD_ADD(slot->thread.metric[WSBOARD_connections_closed], 1);
    WSBOARD_ADD_SHARED(wsboard_self.worker->connections, change > 0 ? 1 : UINT32_MAX);
}

void board_queue(uint32_t waiting, uint32_t places)
{
    struct wsboard_slot *slot = wsboard_own_slot();

    WSBOARD_SET(wsboard_self.worker->metric[WSBOARD_queue_length], (uint64_t)waiting);
    WSBOARD_SET(wsboard_self.worker->metric[WSBOARD_queue_capacity], (uint64_t)places);
    if (WSBOARD_GET(slot->thread.state) == BOARD_QUEUE) /* it has what it waited for */
        wsboard_set_state(slot, BOARD_READ, board_now());
}

void board_waited(uint64_t since_ns)
{
    uint64_t now_ns = board_now();

    wsboard_own_slot();
    WSBOARD_ADD(wsboard_self.worker->metric[WSBOARD_queue_taken], 1);
    WSBOARD_ADD(wsboard_self.worker->metric[WSBOARD_queue_wait],
                now_ns > since_ns ? now_ns - since_ns : 0);
}

void board_count(enum board_counter what, uint64_t more)
{
    struct wsboard_slot *slot = wsboard_own_slot();

    if (what == BOARD_DROPPED)
        WSBOARD_ADD_SHARED(wsboard_self.worker->metric[WSBOARD_queue_dropped], more);
    else if (what == BOARD_CACHE_HITS)
        WSBOARD_ADD(slot->thread.metric[WSBOARD_cache_hits], more);
    else
        WSBOARD_ADD(slot->thread.metric[WSBOARD_cache_misses], more);
}

int board_lock(pthread_mutex_t *mutex)
{
    int error = pthread_mutex_trylock(mutex);
    struct wsboard_slot *slot;
    uint64_t since_ns, now_ns;
    uint32_t before;

    if (error != EBUSY)
        return error;
    slot = wsboard_own_slot();
    before = WSBOARD_GET(slot->thread.state);
    since_ns = board_now();
    wsboard_set_state(slot, BOARD_LOCK, since_ns);
    error = pthread_mutex_lock(mutex);
    now_ns = board_now();
    wsboard_set_state(slot, before, now_ns);
    WSBOARD_ADD(slot->thread.metric[WSBOARD_lock_waits], 1);
    WSBOARD_ADD(slot->thread.metric[WSBOARD_lock_wait], now_ns - since_ns);
    return error;
}

int board_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    enum board_state before = (enum board_state)WSBOARD_GET(wsboard_own_slot()->thread.state);
    int error;

    if (before != BOARD_BLOCKED)
        board_state(BOARD_QUEUE);
    error = pthread_cond_wait(condition, mutex);
    board_state(before);
    return error;
}

void board_event(enum board_level level, const char *format, ...)
{
    struct wsboard *board = wsboard_own.board;
    uint64_t words[3 + WSBOARD_EVENT_WORDS] = {0}; /* number, time, source, text */
    uint64_t sum = UINT64_C(0xcbf29ce484222325);   /* FNV-1a of the words */
    struct wsboard_event *event;
    va_list arguments;
    int i;

    if (board == NULL)
        return;
    va_start(arguments, format);
    vsnprintf((char *)(words + 3), WSBOARD_EVENT_WORDS * 8, format, arguments);
    va_end(arguments);
    words[0] = WSBOARD_ADD_SHARED(board->events[0].next, 1);
    words[1] = wsboard_clock(CLOCK_REALTIME);
    words[2] = (uint64_t)level | (uint64_t)getpid() << 32;
    for (i = 0; i < 3 + WSBOARD_EVENT_WORDS; i++)
        sum = (sum ^ words[i]) * UINT64_C(0x100000001b3);
    event = &board->events[0].event[words[0] % WSBOARD_EVENTS];
    WSBOARD_SET(event->sequence, 2 * words[0] + 1);
    WSBOARD_PUBLISH(event->time_ns, words[1]);
    WSBOARD_PUBLISH(event->source, words[2]);
    WSBOARD_PUBLISH(event->checksum, sum);
    for (i = 0; i < WSBOARD_EVENT_WORDS; i++)
        WSBOARD_PUBLISH(event->text[i], words[3 + i]);
    WSBOARD_PUBLISH(event->sequence, 2 * words[0] + 2);
}

/* Open and close */

static const struct wsboard_metric wsboard_metrics[] = {WSBOARD_METRICS(WSBOARD_METRIC_LINE)};

/* By number; those without a letter are not used. */
static const struct wsboard_state wsboard_states[WSBOARD_STATES] = {
    {'.', "none", "no thread in this slot"},
    {'\0', "", ""},
    {'_', "idle", "waiting, no connection open"},
    {'K', "keep-alive", "waiting for the next request of a connection"},
    {'A', "accept", "accepting connections"},
    {'R', "read", "reading or parsing a request"},
    {'W', "write", "answering a request"},
    {'F', "file", "opening, checking or reading a file"},
    {'M', "lock", "waiting for a mutex"},
    {'\0', "", ""},
    {'Q', "queue", "waiting for an item in the queue"},
    {'\0', "", ""},
    {'\0', "", ""},
    {'X', "compute", "computing"},
    {'B', "blocked", "waiting for a place in the queue"},
};

#define WSBOARD_SIZE(part) sizeof(((struct wsboard *)0)->part)
#define WSBOARD_PART(kind, array, part)                                                            \
    {kind, WSBOARD_SIZE(array) / WSBOARD_SIZE(array[0]), offsetof(struct wsboard, part),           \
     WSBOARD_SIZE(array[0]), WSBOARD_SIZE(part)},

static const struct wsboard_section wsboard_sections[] = {
    WSBOARD_PART(1, metric, metric[0])           /* METRICS */
    WSBOARD_PART(2, state, state[0])             /* STATES */
    WSBOARD_PART(3, worker_slot, worker_slot[0]) /* WORKER_SLOTS */
    WSBOARD_PART(4, thread_slot, thread_slot[0]) /* THREAD_SLOTS */
    WSBOARD_PART(5, master, master[0])           /* MASTER */
    WSBOARD_PART(6, worker, worker[0])           /* WORKERS */
    WSBOARD_PART(7, slot, slot[0].thread)        /* THREADS */
    WSBOARD_PART(8, slot, slot[0].latency)       /* LATENCY */
    WSBOARD_PART(9, slot, slot[0].ring)          /* RINGS */
    WSBOARD_PART(10, events, events[0])          /* EVENTS */
    WSBOARD_PART(11, name, name[0])              /* NAMES */
};

/* Field 22 of /proc/PID/stat; 0: there is no such process, or it is a zombie. */
static uint64_t wsboard_start_ticks(int pid)
{
    char path[40], text[1024] = "", *field;
    FILE *file;
    int number;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file != NULL) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
    }
    field = strrchr(text, ')'); /* the name before it may contain anything */
    if (field == NULL || strncmp(field, ") Z", 3) == 0)
        return 0;
    for (number = 2; field != NULL && number < 22; number++)
        field = strchr(field + 1, ' ');
    return field != NULL ? strtoull(field, NULL, 10) : 0;
}

/* Whether the file of FD is the board of a program that runs. */
static int wsboard_is_alive(int fd)
{
    struct wsboard_header header;

    return pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
           header.stopped == 0 && wsboard_start_ticks(header.pid) == header.start_ticks;
}

/* Gives the file FD its name, unless a running program has it. Returns 0 or an errno. */
static int wsboard_publish(int fd)
{
    struct stat held, named;
    char link[40];
    int old, error;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    do {
        if (linkat(AT_FDCWD, link, AT_FDCWD, wsboard_own.path, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        if (errno != EEXIST)
            return errno;
        old = open(wsboard_own.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        error = old < 0 && errno != ENOENT ? errno : EAGAIN;
        /* One program at a time removes it, if it still has the name. */
        if (old >= 0 && flock(old, LOCK_EX) == 0 && fstat(old, &held) == 0 &&
            stat(wsboard_own.path, &named) == 0 && held.st_ino == named.st_ino)
            error = wsboard_is_alive(old) ? EEXIST : unlink(wsboard_own.path) == 0 ? EAGAIN : errno;
        if (old >= 0)
            close(old);
    } while (error == EAGAIN);
    return error;
}

static void wsboard_describe_metrics(struct wsboard_metric *metric)
{
    int i;

    memcpy(metric, wsboard_metrics, sizeof(wsboard_metrics));
    for (i = 200; i < 600; i++)
        wsboard_metric_of[i] = (uint8_t)(WSBOARD_FIRST_STATUS + i / 100 - 2);
    for (i = 0; i < WSBOARD_STATUSES; i++) {
        struct wsboard_metric *status = &metric[WSBOARD_FIRST_STATUS + i];

        wsboard_metric_of[wsboard_statuses[i]] = (uint8_t)(WSBOARD_FIRST_STATUS + i);
        snprintf(status->name, sizeof(status->name), "responses_%d", wsboard_statuses[i]);
        snprintf(status->label, sizeof(status->label), "%d", wsboard_statuses[i]);
    }
    for (i = 0; i < WSBOARD_ALL_METRICS; i++) /* the same in the block of a worker */
        metric[i].offset = (uint32_t)(offsetof(struct wsboard_thread, metric) + (size_t)i * 8);
}

static void wsboard_fill(struct wsboard *board, const char *name, int port)
{
    struct wsboard_header *header = &board->header;
    int i;

    memcpy(&header->magic, "WSRVSEG1", 8);
    header->major = 3;
    header->header_size = sizeof(*header);
    header->total_size = sizeof(*board);
    header->generation = header->started_ns = wsboard_clock(CLOCK_REALTIME);
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
    memcpy(board->state, wsboard_states, sizeof(wsboard_states));
    wsboard_describe_metrics(board->metric);
    for (i = 0; i < WSBOARD_SLOTS; i++)
        board->thread_slot[i].worker = UINT32_MAX;
    WSBOARD_PUBLISH(header->ready, 1u);
}

/* The file has no name until it is complete, so a program that dies before leaves nothing. */
static int wsboard_create(const char *name, int port)
{
    const size_t size = sizeof(struct wsboard);
    int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0640), error;
    void *memory = MAP_FAILED;

    if (fd < 0)
        return errno;
    error = ftruncate(fd, (off_t)size) != 0
                ? errno
                : posix_fallocate(fd, 0, offsetof(struct wsboard, slot));
    if (error == 0)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (error == 0 && memory == MAP_FAILED)
        error = errno;
    if (error == 0) {
        wsboard_fill((struct wsboard *)memory, name, port);
        error = wsboard_publish(fd);
        if (error == 0)
            wsboard_own.board = (struct wsboard *)memory;
        else
            munmap(memory, size);
    }
    close(fd);
    return error;
}

int board_open(const char *name, int port)
{
    static const char valid[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    static int prepared;
    size_t length = strlen(name);
    int error = wsboard_own.board != NULL ? EALREADY : 0;

    if (length == 0 || length >= 64 || name[0] == '.' || strspn(name, valid) != length)
        error = EINVAL;
    if (error == 0 && !prepared) { /* for threads and children that end */
        error = pthread_key_create(&wsboard_own.key, wsboard_end_thread);
        if (error == 0)
            error = pthread_atfork(NULL, NULL, wsboard_forked);
        if (error == 0 && atexit(wsboard_exit) != 0)
            error = ENOMEM;
        prepared = error == 0;
    }
    if (error == 0) {
        wsboard_forked();
        wsboard_own.pid = (int)getpid();
        wsboard_own.address.sun_family = AF_UNIX;
        snprintf(wsboard_own.address.sun_path, 108, "/dev/shm/wsboard.%s", name);
        snprintf(wsboard_own.path, sizeof(wsboard_own.path), "/dev/shm/webserverd.%s", name);
        error = wsboard_create(name, port);
    }
    errno = error;
    return error == 0 ? 0 : -1;
}

void board_close(void)
{
    struct wsboard *board = wsboard_own.board;

    if (board == NULL || wsboard_own.pid != (int)getpid())
        return;
    WSBOARD_PUBLISH(board->header.stopped, 1u);
    unlink(wsboard_own.path);
    unlink(wsboard_own.address.sun_path);
}

/* Control: lines of words in, lines of JSON out, as webserverd's control socket */

/* Returns 0 if the client has gone. */
static int wsboard_answer(int client, char *line)
{
    char answer[512] = "", reply[600], offered[512], word[512], *argument;
    int done = strcmp(line, "ping\n") == 0;
    size_t i;

    line[strcspn(line, "\r\n")] = '\0';
    argument = line + strcspn(line, " ");
    if (*argument != '\0')
        *argument++ = '\0';
    snprintf(offered, sizeof(offered), " %s ", wsboard_own.commands);
    snprintf(word, sizeof(word), " %s ", line);
    if (!done && strstr(offered, word) != NULL)
        done = wsboard_own.handle(line, argument, answer, sizeof(answer)) == 0;
    else if (!done)
        snprintf(answer, sizeof(answer), "unknown command '%.40s'; this program offers: %.400s",
                 line, wsboard_own.commands);
    for (i = 0; i < sizeof(answer) && answer[i] != '\0'; i++)
        if (answer[i] < ' ' || answer[i] > '~' || answer[i] == '"' || answer[i] == '\\')
            answer[i] = '\'';
    i = (size_t)snprintf(reply, sizeof(reply), "{\"ok\":%s,\"%s\":\"%.511s\"}\n",
                         done ? "true" : "false", done ? "message" : "error", answer);
    return send(client, reply, i, MSG_NOSIGNAL) == (ssize_t)i;
}

/* Serves one client at a time, of root or of the user of this program. */
static void wsboard_serve(int client)
{
    struct timeval limit = {10, 0};
    struct ucred peer = {0, (uid_t)-1, 0};
    socklen_t size = sizeof(peer);
    FILE *lines = fdopen(client, "r");
    char line[500];

    getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    while (lines != NULL && (peer.uid == 0 || peer.uid == geteuid()) &&
           fgets(line, sizeof(line), lines) != NULL && strchr(line, '\n') != NULL &&
           wsboard_answer(client, line))
        ;
    if (lines == NULL || fclose(lines) != 0)
        close(client);
}

static void *wsboard_listen(void *unused)
{
    (void)unused;
    wsboard_self.hidden = 1; /* this thread is not the program's */
    for (;;) {
        int client = accept4(wsboard_own.listener, NULL, NULL, SOCK_CLOEXEC);

        if (client >= 0)
            wsboard_serve(client);
        else if (errno != EINTR && errno != ECONNABORTED)
            return NULL;
    }
}

int board_control(board_handler handle, const char *commands)
{
    struct sockaddr_un *address = &wsboard_own.address;
    int error = wsboard_own.board == NULL ? EINVAL : wsboard_own.handle != NULL ? EALREADY : 0;
    int fd = error == 0 ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    sigset_t all, before;
    pthread_t thread;

    if (error == 0) {
        unlink(address->sun_path); /* of a dead program with this name */
        if (fd < 0 || bind(fd, (struct sockaddr *)address, sizeof(*address)) != 0 ||
            listen(fd, 8) != 0)
            error = errno;
    }
    if (error == 0) {
        wsboard_own.listener = fd;
        wsboard_own.handle = handle;
        wsboard_own.commands = commands;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads */
        error = pthread_create(&thread, NULL, wsboard_listen, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error != 0)
            wsboard_own.handle = NULL;
    }
    if (error == 0) {
        pthread_detach(thread);
        memcpy(wsboard_own.board->header.socket_path, address->sun_path,
               sizeof(wsboard_own.board->header.socket_path));
    } else if (fd >= 0) {
        close(fd);
    }
    errno = error;
    return error == 0 ? 0 : -1;
}

#endif
