#include "fixture.h"

#include "common/clock.h"
#include "common/log_record.h"
#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "console/data/recording.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    MAX_WORKERS = 4,
    MAX_THREADS = 64,
    CACHE_ENTRIES = 64,
    RING_BYTES = 64 * 1024,
    TICK_MS = 20,
    PID_FIRST = 5000000, /* no process has such a pid: the maximum is 4194304 */
    TID_FIRST = 6000000
};

struct fixture {
    struct segment segment;
    char socket_path[INSTANCE_PATH_MAX];
    int listener, client; /* -1: none */
    uint32_t threads_each;
    bool driven;
    uint64_t last_drive_ns, last_second_ns;
    double due[MAX_THREADS]; /* requests due but not yet simulated, a fraction */
    uint64_t served;
    char request[256];
    size_t request_length;
    bool request_waits; /* read, not answered yet */
    _Atomic bool hold, stop;
    _Atomic unsigned commands;
    pthread_t thread;
};

static void set32(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* Log lines */

static void log_request(struct fixture *fixture, uint32_t slot, unsigned number, uint16_t status,
                        uint64_t time_ns)
{
    const struct log_ring ring = segment_ring(&fixture->segment, slot);
    uint64_t words[LOG_RECORD_WORDS_MAX];
    char line[64];
    struct log_record record = {.time_ns = time_ns,
                                .duration_ns = 120000 + number * 1000,
                                .body_bytes = 1024 + number,
                                .status = status,
                                .outcome = status >= 400 ? OUTCOME_ERROR : OUTCOME_HIT,
                                .protocol = LOG_PROTOCOL_HTTP_1_1};

    inet_pton(AF_INET6, "::ffff:192.0.2.7", record.address);
    if (number % 4 == 0) {
        record.protocol = LOG_PROTOCOL_HTTP_2;
        record.streams = (uint16_t)(1 + number % 32);
        record.tls = log_record_tls(0x1301, "x25519", number % 8 == 0);
    }
    snprintf(line, sizeof(line), "GET /page-%u %s", number, log_protocol_names[record.protocol]);
    record.request_line = span_of(line);
    record.agent = SPAN("fixture");
    log_ring_append(&ring, words, log_record_pack(&record, words));
}

static uint16_t status_of(unsigned number)
{
    return number % 20 == 7 ? 404 : number % 20 == 13 ? 301 : number % 40 == 39 ? 503 : 200;
}

/* Workers and threads */

static const enum thread_state first_states[4] = {THREAD_STATE_WRITE, THREAD_STATE_KEEPALIVE,
                                                  THREAD_STATE_READ, THREAD_STATE_IDLE};

static void fill_thread(struct fixture *fixture, uint32_t slot, uint64_t n)
{
    struct segment_thread *thread = segment_thread(&fixture->segment, slot);
    static const struct {
        enum metric metric;
        uint64_t value;
    } values[] = {
        {METRIC_requests, 1000},        {METRIC_requests_keepalive, 900},
        {METRIC_responses_200, 950},    {METRIC_responses_301, 8},
        {METRIC_responses_404, 40},     {METRIC_responses_503, 2},
        {METRIC_bytes_sent, 1000000},   {METRIC_bytes_received, 200000},
        {METRIC_cache_hits, 800},       {METRIC_cache_misses, 100},
        {METRIC_connections_open, 1},   {METRIC_connections_accepted, 60},
        {METRIC_tls_handshakes, 7},     {METRIC_tls_group_x25519mlkem768, 4},
        {METRIC_tls_failed_version, 1},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(values); i++)
        metric_set(thread->metrics, values[i].metric, values[i].value * n);
}

static void begin_thread(struct fixture *fixture, uint32_t worker, uint32_t number)
{
    uint32_t slot = worker * (MAX_THREADS / MAX_WORKERS) + number;
    struct segment_thread_slot *tenant = segment_thread_slot(&fixture->segment, slot);
    struct segment_activity *activity;
    const char *work = number == 0 ? "GET /index.html" : "";

    segment_reserve_thread(&fixture->segment, slot);
    activity = &segment_thread(&fixture->segment, slot)->activity;
    set32(&tenant->worker, worker);
    set32(&tenant->thread, number);
    atomic_store(&activity->tid, TID_FIRST + (int32_t)slot);
    segment_activity_work(activity, first_states[(worker * 2 + number) % 4], clock_monotonic_ns(),
                          work, strlen(work));
}

static void end_thread(struct fixture *fixture, uint32_t worker, uint32_t number)
{
    uint32_t slot = worker * (MAX_THREADS / MAX_WORKERS) + number;

    segment_activity_clear(&segment_thread(&fixture->segment, slot)->activity,
                           clock_monotonic_ns());
    metric_set(segment_thread(&fixture->segment, slot)->metrics, METRIC_connections_open, 0);
    set32(&segment_thread_slot(&fixture->segment, slot)->worker, SEGMENT_NO_WORKER);
}

static void set_threads(struct fixture *fixture, uint32_t each)
{
    for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
        for (uint32_t number = fixture->threads_each; number < each; number++)
            begin_thread(fixture, worker, number);
        for (uint32_t number = each; number < fixture->threads_each; number++)
            end_thread(fixture, worker, number);
        set32(&segment_worker_slot(&fixture->segment, worker)->threads_wanted, each);
        set32(&segment_worker(&fixture->segment, worker)->threads_actual, each);
    }
    fixture->threads_each = each;
    set32(&segment_master(&fixture->segment)->threads_wanted, each);
}

static void fill_worker(struct fixture *fixture, uint32_t slot)
{
    static const char file[] = "/downloads/disk.iso";
    struct segment_worker_slot *entry;
    struct segment_worker *worker;
    uint64_t now_ns = clock_monotonic_ns();

    segment_reserve_worker(&fixture->segment, slot);
    worker = segment_worker(&fixture->segment, slot);
    entry = segment_worker_slot(&fixture->segment, slot);
    atomic_store(&entry->pid, PID_FIRST + (int32_t)slot);
    set32(&entry->state, WORKER_SERVING);
    set32(&entry->starts, 1);
    set32(&worker->offload_actual, 2);
    atomic_store(&entry->started_ns, clock_wall_ns() - 3725 * NS_PER_S);
    metric_set(worker->metrics, METRIC_cache_entries, 12 + slot);
    metric_set(worker->metrics, METRIC_cache_bytes, (slot + 1) << 20);
    metric_set(worker->metrics, METRIC_offload_queue_depth, slot);
    metric_set(worker->metrics, METRIC_offload_jobs, 50);
    segment_activity_work(&worker->offload[0], THREAD_STATE_QUEUE, now_ns, "", 0);
    segment_activity_work(&worker->offload[1], THREAD_STATE_FILE, now_ns, file, sizeof(file) - 1);
}

/* History */

static void store_sample(struct fixture *fixture, uint64_t wall_ns, const uint64_t *values,
                         uint64_t latency_ns, uint32_t answered)
{
    struct segment_master *master = segment_master(&fixture->segment);
    uint64_t number = atomic_load_explicit(&master->history_next, memory_order_relaxed);
    struct segment_sample *sample = segment_sample(&fixture->segment, number);

    atomic_store(&sample->number, 0);
    atomic_store(&sample->time_ns, wall_ns);
    atomic_store(&sample->latency_max_ns, answered > 0 ? latency_ns * 2 : 0);
    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        set32(&sample->latency[i], 0);
    set32(&sample->latency[histogram_index(latency_ns) >> HISTOGRAM_COARSE_SHIFT], answered);
    for (uint32_t i = 0; i < METRIC_COUNT; i++)
        atomic_store(&sample->values[i], values[i]);
    atomic_store(&sample->number, number + 1);
    atomic_store_explicit(&master->history_next, number + 1, memory_order_release);
}

/* Constant rate with one peak; when driven also a slow wave, so that graphs have a shape. */
static void fill_history(struct fixture *fixture)
{
    uint64_t values[METRIC_COUNT] = {0}, now_ns = clock_wall_ns();

    for (uint32_t i = 0; i < FIXTURE_SECONDS; i++) {
        uint64_t back = FIXTURE_SECONDS - 1 - i;
        uint64_t requests = back == FIXTURE_PEAK_BACK ? 5000 : 100;

        if (fixture->driven)
            requests =
                (uint64_t)(900 + 600 * sin(i / 9.0) + (back == FIXTURE_PEAK_BACK ? 2500 : 0));
        values[METRIC_requests] += requests;
        values[METRIC_bytes_sent] += requests * 1024;
        values[METRIC_cache_hits] += requests * 9 / 10;
        values[METRIC_cache_misses] += requests / 10;
        values[METRIC_responses_404] += requests / 20;
        values[METRIC_connections_open] = 10 + i % 5;
        store_sample(fixture, now_ns - back * NS_PER_S, values, 200000 + requests * 100,
                     (uint32_t)requests);
    }
}

static void store_second(struct fixture *fixture, uint64_t wall_ns, uint32_t answered)
{
    uint64_t values[METRIC_COUNT];

    for (uint32_t i = 0; i < METRIC_COUNT; i++)
        values[i] = segment_sum(&fixture->segment, (enum metric)i);
    store_sample(fixture, wall_ns, values, 400000, answered);
}

/* Driving */

static void serve_one(struct fixture *fixture, uint32_t slot, uint64_t now_ns, uint64_t wall_ns)
{
    struct segment_thread *thread = segment_thread(&fixture->segment, slot);
    unsigned number = (unsigned)(fixture->served++ % 1000);
    uint16_t status = status_of(number);
    enum thread_state states[] = {THREAD_STATE_READ, THREAD_STATE_WRITE, THREAD_STATE_KEEPALIVE,
                                  THREAD_STATE_FILE};
    char work[64];

    metric_add(thread->metrics, METRIC_requests, 1);
    metric_add(thread->metrics, METRIC_requests_keepalive, number % 10 != 0);
    metric_add(thread->metrics,
               status == 200   ? METRIC_responses_200
               : status == 301 ? METRIC_responses_301
               : status == 404 ? METRIC_responses_404
                               : METRIC_responses_503,
               1);
    metric_add(thread->metrics, METRIC_bytes_sent, 1024 + number);
    metric_add(thread->metrics, METRIC_bytes_received, 200);
    metric_add(thread->metrics, number % 12 == 0 ? METRIC_cache_misses : METRIC_cache_hits, 1);
    histogram_record(&segment_latency_of(&fixture->segment, slot)[OUTCOME_HIT],
                     80000 + (uint64_t)(rand() % 400000));
    snprintf(work, sizeof(work), "GET /page-%u", number);
    segment_activity_work(&thread->activity, states[number % 4], now_ns, work, strlen(work));
    log_request(fixture, slot, number, status, wall_ns);
}

static void drive(struct fixture *fixture, uint64_t now_ns)
{
    double seconds = (double)(now_ns - fixture->last_drive_ns) / (double)NS_PER_S;

    fixture->last_drive_ns = now_ns;
    for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++)
        for (uint32_t number = 0; number < fixture->threads_each; number++) {
            uint32_t slot = worker * (MAX_THREADS / MAX_WORKERS) + number;

            fixture->due[slot] += seconds * (200 + 50 * slot);
            while (fixture->due[slot] >= 1) {
                serve_one(fixture, slot, now_ns, clock_wall_ns());
                fixture->due[slot] -= 1;
            }
        }
    if (now_ns < fixture->last_second_ns + NS_PER_S)
        return;
    fixture->last_second_ns = now_ns;
    store_second(fixture, clock_wall_ns(), 1000);
}

/* Control */

static void answer(struct fixture *fixture)
{
    char text[256];
    unsigned each;

    fixture->request_waits = false;
    if (sscanf(fixture->request, "threads %u", &each) != 1)
        snprintf(text, sizeof(text),
                 "{\"ok\":false,\"error\":\"the fixture knows only threads N\"}\n");
    else if (each > MAX_THREADS / MAX_WORKERS)
        snprintf(text, sizeof(text), "{\"ok\":false,\"error\":\"at most %d threads fit\"}\n",
                 MAX_THREADS / MAX_WORKERS);
    else {
        set_threads(fixture, each);
        snprintf(text, sizeof(text), "{\"ok\":true,\"wanted\":%u,\"actual\":%u}\n", each, each);
    }
    if (send(fixture->client, text, strlen(text), MSG_NOSIGNAL) < 0)
        perror("fixture: send");
}

static void hear(struct fixture *fixture)
{
    ssize_t got = recv(fixture->client, fixture->request + fixture->request_length,
                       sizeof(fixture->request) - 1 - fixture->request_length, MSG_DONTWAIT);

    if (got <= 0) {
        close(fixture->client);
        fixture->client = -1;
        fixture->request_length = 0;
        return;
    }
    fixture->request_length += (size_t)got;
    fixture->request[fixture->request_length] = '\0';
    if (strchr(fixture->request, '\n') == NULL)
        return;
    fixture->request_length = 0;
    fixture->request_waits = true;
    atomic_fetch_add(&fixture->commands, 1);
}

static void serve_control(struct fixture *fixture)
{
    struct pollfd wait = {.fd = fixture->client >= 0 ? fixture->client : fixture->listener,
                          .events = POLLIN};

    if (fixture->request_waits && !atomic_load(&fixture->hold))
        answer(fixture);
    if (poll(&wait, 1, TICK_MS) <= 0)
        return;
    if (fixture->client >= 0)
        hear(fixture);
    else
        fixture->client = accept(fixture->listener, NULL, NULL);
}

static void *run(void *argument)
{
    struct fixture *fixture = argument;

    while (!atomic_load(&fixture->stop)) {
        uint64_t now_ns = clock_monotonic_ns();

        atomic_store_explicit(&segment_master(&fixture->segment)->heartbeat_ns, now_ns,
                              memory_order_relaxed);
        if (fixture->driven)
            drive(fixture, now_ns);
        serve_control(fixture);
    }
    return NULL;
}

/* Start and end */

static int open_listener(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    unlink(path);
    if (fd >= 0 &&
        (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 4) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void fill_segment(struct fixture *fixture)
{
    struct segment_master *master = segment_master(&fixture->segment);
    struct segment_header *header = segment_shared_header(&fixture->segment);
    uint64_t wall_ns = clock_wall_ns();

    header->started_ns = wall_ns - 3725 * NS_PER_S;
    /* The console reports a stopped master as an alert, and this process may be stopped. */
    header->master_pid = getppid();
    header->start_ticks = process_start_ticks(getppid());
    set32(&master->workers_wanted, FIXTURE_WORKERS);
    set32(&master->offload_min_wanted, 2);
    set32(&master->offload_max_wanted, 8);
    atomic_store(&master->heartbeat_ns, clock_monotonic_ns());
    for (uint32_t i = 0; i < FIXTURE_WORKERS; i++)
        fill_worker(fixture, i);
    set_threads(fixture, FIXTURE_THREADS);
    for (uint32_t i = 0; i < FIXTURE_WORKERS * FIXTURE_THREADS; i++)
        fill_thread(fixture,
                    i / FIXTURE_THREADS * (MAX_THREADS / MAX_WORKERS) + i % FIXTURE_THREADS, i + 1);
    for (unsigned i = 0; i < FIXTURE_LINES; i++)
        log_request(fixture, i % 2 * (MAX_THREADS / MAX_WORKERS), i, status_of(i),
                    wall_ns - (FIXTURE_LINES - i) * 10 * NS_PER_MS);
    fill_history(fixture);
}

struct fixture *fixture_start(const char *name, bool driven)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct segment_plan plan = {.name = name,
                                .listening = "127.0.0.1:8080",
                                .max_workers = MAX_WORKERS,
                                .max_threads = MAX_THREADS / MAX_WORKERS,
                                .cache_entries = CACHE_ENTRIES,
                                .max_hosts = 1,
                                .ring_bytes = RING_BYTES};
    char why[256];

    if (fixture == NULL)
        return NULL;
    snprintf(fixture->socket_path, sizeof(fixture->socket_path), "/tmp/%s.sock", name);
    plan.socket_path = fixture->socket_path;
    fixture->driven = driven;
    fixture->client = -1;
    fixture->listener = open_listener(fixture->socket_path);
    if (fixture->listener < 0 || segment_create(&fixture->segment, &plan, why, sizeof(why)) != 0) {
        fprintf(stderr, "fixture: %s\n", fixture->listener < 0 ? "no socket" : why);
        free(fixture);
        return NULL;
    }
    fill_segment(fixture);
    fixture->last_drive_ns = fixture->last_second_ns = clock_monotonic_ns();
    segment_publish(&fixture->segment);
    if (pthread_create(&fixture->thread, NULL, run, fixture) != 0)
        abort();
    return fixture;
}

void fixture_make_pool(struct fixture *fixture, unsigned age_s)
{
    uint64_t now_ns = clock_monotonic_ns();

    set32(&segment_master(&fixture->segment)->model, MODEL_POOL);
    for (uint32_t i = 0; i < FIXTURE_WORKERS; i++) {
        struct segment_worker *worker = segment_worker(&fixture->segment, i);
        struct segment_thread *thread =
            segment_thread(&fixture->segment, i * (MAX_THREADS / MAX_WORKERS));

        set32(&worker->model, MODEL_POOL);
        set32(&worker->acceptors, 1);
        set32(&worker->threads_actual, FIXTURE_THREADS - 1);
        set32(&worker->queue_order, QUEUE_ORDER_SFF);
        set32(&worker->queue_full, QUEUE_FULL_BLOCK);
        set32(&worker->offload_actual, 0);
        segment_activity_clear(&worker->offload[0], now_ns);
        segment_activity_clear(&worker->offload[1], now_ns);
        metric_set(worker->metrics, METRIC_queue_capacity, 8);
        segment_activity_work(&thread->activity, THREAD_STATE_BLOCKED, now_ns, "", 0);
        if (i > 0)
            continue;
        metric_set(worker->metrics, METRIC_queue_length, 8);
        atomic_store(&worker->queue_since_ns, now_ns - age_s * NS_PER_S);
    }
}

void fixture_stop(struct fixture *fixture)
{
    if (fixture == NULL)
        return;
    atomic_store(&fixture->stop, true);
    pthread_join(fixture->thread, NULL);
    if (fixture->client >= 0)
        close(fixture->client);
    close(fixture->listener);
    unlink(fixture->socket_path);
    segment_destroy(&fixture->segment);
    free(fixture);
}

void fixture_log_requests(struct fixture *fixture, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        log_request(fixture, 0, i, 200, clock_wall_ns());
}

static void log_event_at(struct fixture *fixture, uint64_t wall_ns, const char *text)
{
    const struct event_ring ring = segment_event_ring(&fixture->segment, SEGMENT_RING_MASTER);
    struct event_record event = {
        .time_ns = wall_ns, .level = LEVEL_INFO, .role = ROLE_MASTER, .pid = getpid()};

    snprintf(event.text, sizeof(event.text), "%s", text);
    event_ring_append(&ring, &event);
}

void fixture_log_event(struct fixture *fixture, unsigned seconds, const char *text)
{
    log_event_at(fixture, clock_wall_ns() - seconds * NS_PER_S, text);
}

static void simulate_second(struct fixture *fixture, unsigned second, uint64_t now_ns,
                            uint64_t wall_ns)
{
    unsigned count = 20 + second % 7;

    for (unsigned i = 0; i < count; i++)
        serve_one(fixture, i % 2 * (MAX_THREADS / MAX_WORKERS), now_ns,
                  wall_ns - (count - i) * 10 * NS_PER_MS);
    store_second(fixture, wall_ns, count);
    if (second == 20) {
        log_event_at(fixture, wall_ns,
                     "worker 1 (pid 5000001) was killed by signal 9, starting another");
        fixture_add(fixture, METRIC_workers_died, 1);
    }
    if (second == 40) {
        log_event_at(fixture, wall_ns, "serving threads per worker changed from 2 to 3, by uid 0");
        set_threads(fixture, 3);
    }
}

void fixture_record(struct fixture *fixture, const char *path, unsigned seconds)
{
    uint64_t from_ns = clock_monotonic_ns(), wall_ns = clock_wall_ns();
    struct segment_reader reader;
    char why[256];
    struct recorder *recorder = recorder_create(path, why, sizeof(why));
    const char *problem =
        segment_attach_copy(&reader, fixture->segment.base, fixture->segment.size);
    int failed = recorder == NULL || problem != NULL;

    for (unsigned i = 0; i < seconds && !failed; i++) {
        simulate_second(fixture, i, from_ns + i * NS_PER_S, wall_ns + i * NS_PER_S);
        failed = recorder_add(recorder, &reader, i == 0, NULL, from_ns + i * NS_PER_S,
                              wall_ns + i * NS_PER_S, why, sizeof(why));
    }
    if (failed || recorder_close(recorder, why, sizeof(why)) != 0) {
        fprintf(stderr, "fixture: %s\n", problem != NULL ? problem : why);
        abort();
    }
}

void fixture_add(struct fixture *fixture, enum metric metric, uint64_t more)
{
    const struct segment *segment = &fixture->segment;
    _Atomic uint64_t *const blocks[SCOPE_COUNT] = {
        [SCOPE_THREAD] = segment_thread(segment, 0)->metrics,
        [SCOPE_WORKER] = segment_worker(segment, 0)->metrics,
        [SCOPE_MASTER] = segment_master(segment)->metrics,
        [SCOPE_LOGGER] = segment_logger(segment)->metrics};

    metric_add(blocks[metric_table[metric].scope], metric, more);
}

void fixture_add_certificate(struct fixture *fixture, const char *names, int64_t left_s,
                             unsigned failures, const char *error)
{
    const struct segment *segment = &fixture->segment;
    uint32_t count = atomic_load(&segment_certificates(segment)->count);
    uint64_t now_s = clock_wall_ns() / NS_PER_S, end_s = now_s + (uint64_t)left_s;
    struct certificate_copy copy = {.not_before_s = end_s - 90 * 86400,
                                    .not_after_s = end_s,
                                    .next_attempt_s = now_s + 3 * 86400 + 1800,
                                    .failures = failures};

    snprintf(copy.names, sizeof(copy.names), "%s", names);
    snprintf(copy.issuer, sizeof(copy.issuer), "/CN=Test authority");
    snprintf(copy.error, sizeof(copy.error), "%s", error);
    segment_store_certificate(segment, count, &copy);
    segment_store_certificate_count(segment, count + 1);
}

void fixture_hold_answers(struct fixture *fixture, bool hold)
{
    atomic_store(&fixture->hold, hold);
}

unsigned fixture_commands(const struct fixture *fixture)
{
    return atomic_load(&((struct fixture *)fixture)->commands);
}

const char *fixture_socket(const struct fixture *fixture)
{
    return fixture->socket_path;
}
