/*
 * A site that only the test uses: files in a directory of its own, a configuration, the context of
 * a worker and of one serving thread, real offload threads; but no connection. A request goes in as
 * text, its response comes out. The system can be made slow, late and short of memory.
 *
 * The program that includes this file links daemon_worker and wraps malloc, calloc, open_memstream,
 * syscall, clock_gettime and nanosleep.
 */
#ifndef TESTS_OWN_SITE_H
#define TESTS_OWN_SITE_H

#include "tests/unit/own_directory.h"
#include "tests/unit/own_segment.h"

#include "common/macros.h"
#include "daemon/config/load.h"
#include "daemon/http1/request_parser.h"
#include "daemon/transaction/accounting.h"
#include "daemon/worker/internal.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OWN_SITE_BODY_MAX = 128 * 1024 };

/* What the system lacks; all 0 after own_site_open(). */
static struct {
    _Atomic bool
        cold; /* nothing is in the page cache, so a thread that must not block gets EAGAIN */
    _Atomic bool leased;             /* every file has a write lease: EBUSY */
    _Atomic int failing_allocations; /* of the next ones of the serving thread */
    _Atomic int failing_in_offload;  /* of an offload thread */
    _Atomic bool no_stream;          /* open_memstream() fails */
    _Atomic uint64_t late_ns;        /* added to the monotonic clocks */
    _Atomic unsigned opens;          /* calls of openat2() so far */
    _Atomic unsigned pauses;         /* of offload threads that wait for memory */
} own_system;

static struct {
    struct segment segment;
    struct config config;
    struct worker_context worker;
    struct worker_shortages shortages;
    struct mailbox mailbox, main;
    struct transaction_context context;
    struct client client;
    struct transaction_state state;
    pthread_t thread;
    bool resumed;
} own_site;

/* A response. */
static struct {
    int status;
    enum outcome outcome;
    unsigned waits; /* for offload threads */
    unsigned opens; /* calls of openat2() */
    char head[OUTPUT_BUFFER_BYTES + 1];
    size_t body_length;
    char body[OWN_SITE_BODY_MAX + 1];
} answer;

static bool own_system_lacks_memory(void)
{
    _Atomic int *failing = pthread_equal(pthread_self(), own_site.thread)
                               ? &own_system.failing_allocations
                               : &own_system.failing_in_offload;

    if (atomic_load(failing) == 0)
        return false;
    atomic_fetch_sub(failing, 1);
    return true;
}

void *__wrap_malloc(size_t size)
{
    return own_system_lacks_memory() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return own_system_lacks_memory() ? NULL : __real_calloc(count, size);
}

FILE *__wrap_open_memstream(char **text, size_t *length)
{
    return own_system.no_stream ? NULL : __real_open_memstream(text, length);
}

long __wrap_syscall(long number, ...)
{
    va_list list;
    long a, b, c, d;

    va_start(list, number);
    a = va_arg(list, long);
    b = va_arg(list, long);
    c = va_arg(list, long);
    d = va_arg(list, long);
    va_end(list);
    if (number == SYS_openat2) {
        struct open_how *how = (struct open_how *)(uintptr_t)c;
        bool cold = (how->resolve & RESOLVE_CACHED) != 0 && own_system.cold;

        how->resolve &= ~(uint64_t)RESOLVE_CACHED; /* some file systems never know what is absent */
        own_system.opens++;
        if (cold || own_system.leased) {
            errno = cold ? EAGAIN : EBUSY;
            return -1;
        }
    }
    return __real_syscall(number, a, b, c, d);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = __real_clock_gettime(clock, now);

    if (failed == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)) {
        uint64_t ns =
            (uint64_t)now->tv_sec * NS_PER_S + (uint64_t)now->tv_nsec + own_system.late_ns;

        *now =
            (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    }
    return failed;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)time;
    (void)left;
    own_system.pauses++;
    return 0;
}

static inline bool own_site_covers(const struct client *client, struct span host)
{
    (void)client;
    (void)host;
    return true;
}

static inline void own_site_resume(struct transaction_state *state)
{
    assert_ptr_equal(state, &own_site.state);
    own_site.resumed = true;
}

/* Makes own_directory, with the root www. */
static inline void own_site_make(void)
{
    char path[64];

    own_directory_make();
    snprintf(path, sizeof(path), "%s/www", own_directory);
    assert_int_equal(mkdir(path, 0755), 0);
}

/* TEXT are lines of a configuration in own_directory, which exists. */
static inline void own_site_open(const char *text)
{
    char path[64];
    struct config_sources sources = {.file = path};
    const struct segment_plan plan = {.cache_entries = cache_slots(64), .ring_bytes = 64 * 1024};
    struct transaction_context *context = &own_site.context;
    struct segment_thread *thread;
    char *full;
    int length;

    memset(&own_site, 0, sizeof(own_site));
    memset(&own_system, 0, sizeof(own_system));
    own_site.thread = pthread_self();
    snprintf(path, sizeof(path), "%s/own.ini", own_directory);
    length = asprintf(
        &full, "[server]\nroot = www\n[workers]\noffload_threads = 1\noffload_queue = 1\n%s", text);
    sources.text = full;
    sources.length = (size_t)length;
    assert_int_equal(config_load(&own_site.config, &sources, stderr), 0);
    free(full);
    assert_int_equal(own_segment_create(&own_site.segment, plan), 0);
    assert_int_equal(segment_reserve_worker(&own_site.segment, 0), 0);
    assert_int_equal(segment_reserve_thread(&own_site.segment, 0), 0);
    assert_int_equal(mailbox_open(&own_site.mailbox, 0, NULL), 0);
    assert_int_equal(mailbox_open(&own_site.main, 0, NULL), 0);
    own_site.worker = (struct worker_context){.segment = &own_site.segment,
                                              .shortages = &own_site.shortages,
                                              .tls_covers = own_site_covers,
                                              .main = &own_site.main,
                                              .doorbell = -1};
    assert_int_equal(worker_context_open(&own_site.worker, &own_site.config, NULL), 0);
    assert_int_equal(worker_context_fill(&own_site.worker, segment_worker(&own_site.segment, 0)),
                     0);
    thread = segment_thread(&own_site.segment, 0);
    *context = (struct transaction_context){.worker = &own_site.worker,
                                            .mailbox = &own_site.mailbox,
                                            .activity = &thread->activity,
                                            .metrics = thread->metrics,
                                            .latency = segment_latency_of(&own_site.segment, 0),
                                            .accept_encoding.preference = PREFER_IDENTITY};
    directory_check_init(&context->directory, 0);
    if (own_site.worker.cache != NULL) {
        context->thread_cache = thread_cache_new(
            own_site.worker.cache, segment_hits_of(&own_site.segment, 0), thread->metrics);
        context->negative_cache = negative_cache_new(own_site.config.cache_revalidate * NS_PER_MS);
    }
    own_site.state.resume = own_site_resume;
    own_site.client.address[10] = own_site.client.address[11] = 0xff; /* 192.0.2.1 */
    memcpy(own_site.client.address + 12, (const uint8_t[]){192, 0, 2, 1}, 4);
}

static inline int own_site_close(void **state)
{
    (void)state;
    assert_int_equal(own_site.client.jobs_out, 0);
    assert_int_equal(own_site.context.jobs_out, 0);
    thread_cache_free(own_site.context.thread_cache);
    negative_cache_free(own_site.context.negative_cache);
    directory_check_close(&own_site.context.directory);
    worker_context_close(&own_site.worker);
    mailbox_close(&own_site.mailbox);
    mailbox_close(&own_site.main);
    segment_destroy(&own_site.segment);
    config_free(&own_site.config);
    return own_directory_remove();
}

/* Replaces the file NAME, such as "a/b", whose directory exists. */
static inline void own_site_put(const char *name, const char *bytes, size_t length)
{
    char path[512], before[520];
    FILE *file;

    snprintf(path, sizeof(path), "%s/www/%s", own_directory, name);
    snprintf(before, sizeof(before), "%s.new", path);
    file = fopen(before, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fchmod(fileno(file), 0640), 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(before, path), 0);
}

static inline void own_site_put_text(const char *name, const char *text)
{
    own_site_put(name, text, strlen(text));
}

static inline void own_site_remove(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/www/%s", own_directory, name);
    assert_int_equal(remove(path), 0);
}

static inline uint64_t own_site_metric(enum metric metric)
{
    return metric_get(own_site.context.metrics, metric);
}

static inline void own_site_take_body(struct body_source *body)
{
    do {
        struct span text = {NULL, 0};

        if (body->left == 0 && body_source_has_parts(body))
            text = body_source_next_part(body);
        assert_true(answer.body_length + text.length + body->left <= OWN_SITE_BODY_MAX);
        if (text.length > 0)
            memcpy(answer.body + answer.body_length, text.start, text.length);
        answer.body_length += text.length;
        if (body->memory != NULL)
            memcpy(answer.body + answer.body_length, body->memory, body->left);
        else if (body->left > 0)
            assert_int_equal(pread(body->resource->fd, answer.body + answer.body_length, body->left,
                                   (off_t)body->offset),
                             body->left);
        answer.body_length += body->left;
        body_source_advance(body, body->left);
    } while (!body_source_is_empty(body));
    answer.body[answer.body_length] = '\0';
}

/* Jobs that keep the only offload thread busy and fill its queue. */
static struct {
    struct offload_job job[2];
    sem_t end;
    int finished;
} own_site_blockers;

static inline void own_site_run_blocker(struct offload_job *job)
{
    (void)job;
    sem_wait(&own_site_blockers.end);
}

static inline void own_site_finish_blocker(struct offload_job *job)
{
    (void)job;
    own_site_blockers.finished++;
}

static inline void own_site_fill_queue(void)
{
    sem_init(&own_site_blockers.end, 0, 0);
    own_site_blockers.finished = 0;
    for (int i = 0; i < 2; i++) {
        own_site_blockers.job[i] = (struct offload_job){.run = own_site_run_blocker,
                                                        .finish = own_site_finish_blocker,
                                                        .owner = &own_site.mailbox};
        while (!offload_submit(own_site.worker.offload, &own_site_blockers.job[i],
                               clock_monotonic_ns()))
            usleep(100); /* until the thread has taken the first one */
    }
}

static inline void own_site_empty_queue(void)
{
    sem_post(&own_site_blockers.end);
    sem_post(&own_site_blockers.end);
    while (own_site_blockers.finished < 2) {
        usleep(100);
        mailbox_deliver(&own_site.mailbox, NULL);
    }
}

/* Waits until the offload threads have finished the jobs of the request. */
static inline void own_site_await(void)
{
    while (!own_site.resumed) {
        struct pollfd ready = {.fd = own_site.mailbox.eventfd, .events = POLLIN};

        assert_int_equal(poll(&ready, 1, 60 * 1000), 1);
        mailbox_deliver(&own_site.mailbox, NULL);
    }
    own_site.resumed = false;
}

/*
 * Processes the request TEXT: its head, without the empty line. Returns the status; the rest is in
 * answer.
 */
static inline int own_site_request(const char *text)
{
    static const struct request_limits limits = {16 * 1024, 32 * 1024, 100};
    struct transaction_context *context = &own_site.context;
    struct output_buffer *output = &context->output;
    char whole[32 * 1024];
    struct request request;
    size_t scanned = 0;
    int length = snprintf(whole, sizeof(whole), "%s\r\n", text);

    answer.waits = 0;
    answer.opens = own_system.opens;
    answer.head[0] = '\0';
    answer.body_length = 0;
    assert_int_equal(request_parse(whole, (size_t)length, &limits, &scanned, &request), length);
    context->loop_now_ns = clock_monotonic_ns();
    context->wall_offset_ns = clock_wall_ns() - context->loop_now_ns;
    response_prefixes_update(&context->prefixes, (int64_t)(context_wall_ns(context) / NS_PER_S));
    while (transaction_process(context, &own_site.client, &own_site.state, &request) ==
           TRANSACTION_WAITING) {
        answer.waits++;
        own_site_await();
        context->loop_now_ns = clock_monotonic_ns();
    }
    memcpy(answer.head, output->bytes, output->used);
    answer.head[output->used] = '\0';
    assert_string_equal(answer.head + output->used - 4, "\r\n\r\n");
    own_site_take_body(&output->body);
    body_source_release(&output->body, own_site.worker.cache);
    answer.outcome = (enum outcome)(output->last_record[0] >> 40 & 0xff);
    accounting_finish_all(context, output->records, output->record_words);
    output_clear(output);
    answer.opens = own_system.opens - answer.opens;
    assert_int_equal(sscanf(answer.head, "HTTP/1.1 %d", &answer.status), 1);
    return answer.status;
}

/* GET TARGET of host "own", with the field LINES. */
static inline int own_site_get(const char *target, const char *lines)
{
    char text[16 * 1024];

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: own\r\n%s", target, lines);
    return own_site_request(text);
}

/* The value of the field NAME in the answer; "": none. Until the next call. */
static inline const char *own_site_field(const char *name)
{
    static char value[8 * 1024];
    char start[64];
    const char *line;

    snprintf(start, sizeof(start), "\r\n%s: ", name);
    line = strcasestr(answer.head, start);
    value[0] = '\0';
    if (line != NULL) {
        line += strlen(start);
        snprintf(value, sizeof(value), "%.*s", (int)strcspn(line, "\r"), line);
    }
    return value;
}

#endif
