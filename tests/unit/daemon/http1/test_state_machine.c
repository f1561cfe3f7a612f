/*
 * The state machine of an HTTP/1 connection: what it reads, in which order it serves, and what it
 * waits for. Requests are for files of a directory of its own.
 */
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/unsent.h"

#include "daemon/config/load.h"
#include "daemon/worker/internal.h"
#include "scene.h"
#include "tests/test.h"
#include "tests/unit/own_directory.h"
#include "tests/unit/wrapped.h"

#include <poll.h>
#include <stdio.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* The next read returns INPUT; without input -1 with READ_ERROR, or 0 if that is 0. */
static struct span input;
static int read_error;

static bool out_of_memory;
static const struct {
    const char *target, *request;
} targets[] = {
#define TARGET(target)                                                                             \
    {                                                                                              \
        target, "GET " target " HTTP/1.1\r\nHost: h\r\n\r\n"                                       \
    }
    TARGET("/a"),
    TARGET("/b"),
    TARGET("/g"),
    TARGET("/p"),
};
static unsigned begun_http2;     /* connections */
static struct connection second; /* where the address of a second connection matters */

void *__wrap_malloc(size_t size)
{
    return out_of_memory ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return out_of_memory ? NULL : __real_realloc(memory, size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return out_of_memory ? NULL : __real_calloc(count, size);
}

static ssize_t read_input(struct connection *connection, void *buffer, size_t length)
{
    struct span bytes = input;

    (void)connection;
    input = SPAN("");
    if (bytes.length > 0) {
        assert_true(bytes.length <= length);
        memcpy(buffer, bytes.start, bytes.length);
        return (ssize_t)bytes.length;
    }
    errno = read_error;
    return read_error != 0 ? -1 : 0;
}

/* A file whose content is its target. */
static void put_file(const char *target)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof(path), "%s%s", own_directory, target);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(target, file);
    fclose(file);
}

/* The context of a worker that serves the directory. */
static void open_worker(void)
{
    char root[64];
    const char *overrides[] = {root,
                               "limits.body_bytes=1M",
                               "limits.header_bytes=1K",
                               "limits.request_line=256",
                               "limits.header_count=10",
                               "connections.send_timeout=1s",
                               "log.when_full=wait",
                               "workers.offload_threads=1-1"};
    const struct config_sources sources = {.overrides = overrides,
                                           .override_count = ARRAY_LENGTH(overrides)};
    struct transaction_context *context = &scene.loop.context;

    snprintf(root, sizeof(root), "server.root=%s", own_directory);
    assert_int_equal(config_load(&scene.config, &sources, stderr), 0);
    assert_int_equal(worker_context_open(&scene.worker, &scene.config, NULL), 0);
    assert_int_equal(worker_context_fill(&scene.worker, segment_worker(&scene.segment, 0)), 0);
    assert_int_equal(mailbox_open(&scene.loop.mailbox, 0, NULL), 0);
    context->mailbox = &scene.loop.mailbox;
    directory_check_init(&context->directory, 0);
    context->thread_cache =
        thread_cache_new(scene.worker.cache, segment_hits_of(&scene.segment, 0), context->metrics);
    assert_non_null(context->thread_cache);
    context->prefixes.server =
        header_rules_value(&scene.worker.sites.site[0].headers, NULL, "Server");
    response_prefixes_update(&context->prefixes, 1);
}

static struct connection *connection_of_scene(void);
static void receive(const char *text);

/* Until the offload jobs are done. */
static void finish_jobs(void)
{
    while (scene.loop.context.jobs_out > 0) {
        struct pollfd wait = {.fd = scene.loop.mailbox.eventfd, .events = POLLIN};

        assert_int_equal(poll(&wait, 1, 60000), 1);
        mailbox_deliver(&scene.loop.mailbox, &scene.loop);
    }
}

#define REQUEST(target) "GET " target " HTTP/1.1\r\nHost: h\r\n\r\n"

/* The files are in the cache. */
static int begin(void **state)
{
    scene_transport.read = read_input;
    input = SPAN("");
    read_error = EAGAIN;
    out_of_memory = false;
    begun_http2 = 0;
    if (scene_open(state) != 0)
        return -1;
    own_directory_make();
    open_worker();
    for (size_t i = 0; i < ARRAY_LENGTH(targets); i++) {
        put_file(targets[i].target);
        receive(targets[i].request);
        assert_memory_equal(scene.taken, "HTTP/1.1 200 ", 13);
        scene.length = 0;
    }
    scene.writes = 0;
    scene.loop.ahead = (struct read_ahead){.connection = NULL};
    connection_of_scene()->client.requests = 0;
    for (int i = 0; i < METRIC_COUNT; i++)
        metric_set(scene.loop.context.metrics, (enum metric)i, 0);
    return 0;
}

static int finish(void **state)
{
    struct transaction_context *context = &scene.loop.context;
    int failed;

    if (scene_metric(METRIC_connections_closed) == 0)
        connection_close(&scene.http1->connection);
    metric_set(context->metrics, METRIC_connections_closed, 1);
    thread_cache_free(context->thread_cache);
    worker_context_close(&scene.worker);
    directory_check_close(&context->directory);
    mailbox_close(&scene.loop.mailbox);
    config_free(&scene.config);
    failed = scene_close(state);
    return own_directory_remove() != 0 || failed != 0 ? -1 : 0;
}

const struct test_fixture test_fixture = {begin, finish};

static struct connection *connection_of_scene(void)
{
    return &scene.http1->connection;
}

static void ready(short what)
{
    http1_protocol.ready(connection_of_scene()->fd, what, connection_of_scene());
}

/* The client sends TEXT, the iteration of the loop ends, and the offload jobs are done. */
static void receive(const char *text)
{
    input = span_of(text);
    ready(EV_READ);
    loop_serve_ahead(&scene.loop);
    finish_jobs();
}

/*
 * What was sent: of each response "STATUS;" with the content before the semicolon if it is 200.
 */
static void summarise(char *summary, size_t size)
{
    const char *at = scene.taken, *end = scene.taken + scene.length;

    *summary = '\0';
    while (at < end) {
        size_t used = strlen(summary);
        const char *body = memmem(at, (size_t)(end - at), "\r\n\r\n", 4), *length;
        int status, bytes = 0;

        assert_non_null(body);
        assert_int_equal(sscanf(at, "HTTP/1.1 %d", &status), 1);
        length = memmem(at, (size_t)(body - at), "\r\nContent-Length: ", 18);
        if (length != NULL)
            bytes = atoi(length + 18);
        at = body + 4 + bytes;
        assert_true(at <= end);
        snprintf(summary + used, size - used, "%d%s%.*s;", status, status == 200 ? " " : "",
                 status == 200 ? bytes : 0, body + 4);
    }
}

static void expect_sent(const char *expected)
{
    char summary[256];

    summarise(summary, sizeof(summary));
    assert_string_equal(summary, expected);
    scene.length = 0;
}

static void expect_wait(short what, enum deadline deadline)
{
    assert_int_equal(scene_metric(METRIC_connections_closed), 0);
    assert_int_equal(connection_of_scene()->watching, what);
    assert_int_equal(connection_of_scene()->deadline, deadline);
}

static void expect_closed(void)
{
    assert_int_equal(scene_metric(METRIC_connections_closed), 1);
}

#define REPLY(target) "200 " target ";"
#define WITH_BODY     "GET /p HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"

/* --- Requests --- */

TEST(requests_of_one_read_are_served_in_order)
{
    static const char text[] = REQUEST("/a") REQUEST("/b");

    receive(text);
    expect_sent(REPLY("/a") REPLY("/b"));
    assert_int_equal(scene.writes, 1);
    assert_int_equal(scene_metric(METRIC_bytes_received), strlen(text));
    expect_wait(EV_READ, DEADLINE_KEEPALIVE);
    assert_null(connection_of_scene()->unserved);
}

/* --- Reading ahead --- */

TEST(next_connection_is_read_before_the_first_is_served)
{
    input = SPAN(REQUEST("/a"));
    ready(EV_READ);
    expect_sent("");
    assert_ptr_equal(scene.loop.ahead.connection, connection_of_scene());
    assert_ptr_equal(scene.loop.ahead.data, scene.loop.space->read[0]);
    second = *connection_of_scene();
    input = SPAN(REQUEST("/b"));
    http1_protocol.ready(second.fd, EV_READ, &second);
    expect_sent(REPLY("/a"));
    assert_ptr_equal(scene.loop.ahead.connection, &second);
    assert_ptr_equal(scene.loop.ahead.data, scene.loop.space->read[1]);
    assert_memory_equal(scene.loop.ahead.data, REQUEST("/b"), scene.loop.ahead.length);
    assert_int_equal(scene.loop.ahead.length, strlen(REQUEST("/b")));
    scene.loop.ahead.connection = NULL;
}

TEST(what_was_read_ahead_is_served_once)
{
    input = SPAN(REQUEST("/a"));
    ready(EV_READ);
    second = *connection_of_scene();
    second.watching = EV_READ;
    http1_protocol.ready(second.fd, EV_READ, &second);
    loop_serve_ahead(&scene.loop);
    expect_sent(REPLY("/a"));
}

/* --- The end of the input --- */

TEST(read_without_bytes_changes_nothing)
{
    static const int errors[] = {EAGAIN, EINTR};

    for (size_t i = 0; i < ARRAY_LENGTH(errors); i++) {
        read_error = errors[i];
        receive("");
        expect_wait(EV_READ, DEADLINE_KEEPALIVE);
        receive("GE");
        receive("");
        expect_wait(EV_READ, DEADLINE_HEADER);
        receive("T /a HTTP/1.1\r\nHost: h\r\n\r\n");
        expect_sent(REPLY("/a"));
        receive(WITH_BODY);
        receive("");
        expect_wait(EV_READ, DEADLINE_BODY);
        receive("body");
        expect_sent(REPLY("/p"));
    }
    assert_int_equal(scene_metric(METRIC_connections_reset), 0);
}

TEST(head_without_memory_closes)
{
    static char head[4096 + 1] = "GET /a HTTP/1.1\r\nX: ";

    scene.config.limits_header_bytes = 2 * sizeof(head);
    memset(head + strlen(head), 'x', sizeof(head) - 1 - strlen(head));
    receive(head);
    expect_wait(EV_READ, DEADLINE_HEADER);
    out_of_memory = true;
    input = SPAN("y");
    ready(EV_READ);
    out_of_memory = false;
    expect_closed();
}

TEST(rest_without_memory_closes)
{
    out_of_memory = true;
    receive(REQUEST("/a") "GET");
    out_of_memory = false;
    expect_sent(REPLY("/a"));
    expect_closed();
}

/* --- Bodies --- */

TEST(continue_is_sent_when_the_client_takes_it)
{
    static const char get[] =
        "GET /g HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";

    scene.room = 0;
    receive(get);
    expect_wait(EV_WRITE, DEADLINE_SEND);
    scene.error = EINTR;
    ready(EV_WRITE);
    expect_wait(EV_WRITE, DEADLINE_SEND);
    scene.room = SIZE_MAX;
    ready(EV_WRITE);
    expect_sent("100;");
    expect_wait(EV_READ, DEADLINE_BODY);
    receive("body");
    expect_sent(REPLY("/g"));
    scene.room = 0;
    scene.error = EPIPE;
    receive(get);
    expect_closed();
}

#define EXPECTING(method, length)                                                                  \
    method " /g HTTP/1.1\r\nHost: h\r\nContent-Length: " length "\r\nExpect: 100-continue\r\n\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

TEST(continue_that_is_cut_closes)
{
    scene.room = strlen(CONTINUE) - 1;
    receive(EXPECTING("GET", "4"));
    expect_closed();
    assert_int_equal(scene_metric(METRIC_bytes_sent), strlen(CONTINUE) - 1);
}

TEST(body_without_memory_is_503)
{
    static char rest[8192 + 1];

    out_of_memory = true;
    receive(WITH_BODY);
    out_of_memory = false;
    expect_sent("503;");
    expect_wait(EV_READ, DEADLINE_LINGER);
    finish(state);
    assert_int_equal(begin(state), 0);
    receive(WITH_BODY);
    memset(rest, 'G', sizeof(rest) - 1);
    out_of_memory = true;
    receive(rest); /* the end of the body, and more than there is memory for */
    out_of_memory = false;
    expect_sent("503;");
}

TEST(duration_begins_with_an_incomplete_body)
{
    receive(WITH_BODY);
    assert_int_equal(scene.http1->state.began_ns, SCENE_NOW_NS);
    receive("body");
    expect_sent(REPLY("/p"));
    receive(WITH_BODY "body");
    assert_int_equal(scene.http1->state.began_ns, 0);
}

/* Bytes restart body_timeout if they are enough. */
TEST(timeout_restarts_after_each_64_kib)
{
    static char bytes[64 * 1024];
    const struct connection *connection = connection_of_scene();

    memset(bytes, 'x', sizeof(bytes) - 1);
    receive("GET /p HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n");
    for (unsigned i = 1; i <= 2; i++) {
        uint64_t before_ns = connection->deadline_from_ns;

        scene.loop.context.loop_now_ns += NS_PER_S;
        receive(bytes);
        assert_int_equal(connection->deadline_from_ns, before_ns);
        receive("x");
        assert_int_equal(connection->deadline_from_ns, SCENE_NOW_NS + i * NS_PER_S);
    }
}

/* --- Unsent responses --- */

TEST(rest_that_fails_closes)
{
    scene.room = 1;
    receive(REQUEST("/a"));
    expect_wait(EV_WRITE, DEADLINE_SEND);
    scene.error = EPIPE;
    ready(EV_WRITE);
    expect_closed();
    assert_int_equal(scene_metric(METRIC_responses_cut_short), 1);
}

TEST(response_that_fails_closes)
{
    scene.room = 0;
    scene.error = EPIPE;
    receive(REQUEST("/a"));
    expect_closed();
}

/* The job refers to the connection. */
TEST(failure_during_a_job_waits_for_it)
{
    struct client *client = &connection_of_scene()->client;

    scene.room = 0;
    scene.error = EPIPE;
    client->jobs_out = 1;
    client->linger_wanted = true;
    receive(REQUEST("/a") REQUEST("/b"));
    expect_wait(0, DEADLINE_NONE);
    assert_null(connection_of_scene()->unserved);
    client->jobs_out = 0;
    http1_protocol.resume(connection_of_scene());
    expect_closed();
}

TEST(rest_waits_for_its_job)
{
    scene.room = 1;
    receive(REQUEST("/a"));
    connection_of_scene()->client.jobs_out = 1;
    http1_protocol.resume(connection_of_scene());
    expect_wait(0, DEADLINE_NONE);
    connection_of_scene()->client.jobs_out = 0;
    scene.room = SIZE_MAX;
    http1_protocol.resume(connection_of_scene());
    expect_sent(REPLY("/a"));
    expect_wait(EV_READ, DEADLINE_KEEPALIVE);
}

/* --- The log ring --- */

static void fill_ring(bool full)
{
    atomic_store(&scene.ring.words->head, full ? scene.ring.capacity : 0);
}

TEST(adopted_response_waits_for_space_in_the_log)
{
    scene.room = 1;
    receive(REQUEST("/a"));
    unsent_end_reservation(connection_of_scene());
    assert_int_equal(scene.loop.context.ring_reserved, 0);
    http1_protocol.moved(connection_of_scene(), false);
    fill_ring(true);
    scene.room = SIZE_MAX;
    http1_protocol.resume(connection_of_scene());
    expect_wait(0, DEADLINE_NONE);
    assert_true(connection_of_scene()->log_blocked);
    fill_ring(false);
    connections_retry_log(&scene.loop);
    expect_sent(REPLY("/a"));
}

/* --- Timeouts --- */

static void time_out(void)
{
    http1_protocol.timed_out(connection_of_scene());
}

/* A client cannot extend the time for a head by sending it slowly. */
TEST(each_head_has_a_time_of_its_own)
{
    const struct connection *connection = connection_of_scene();
    uint64_t *now_ns = &scene.loop.context.loop_now_ns;

    receive("GET /a HT");
    *now_ns += NS_PER_S;
    receive("TP/1.1\r\n");
    expect_wait(EV_READ, DEADLINE_HEADER);
    assert_int_equal(connection->deadline_from_ns, SCENE_NOW_NS);
    receive("Host: h\r\n\r\nGET");
    expect_sent(REPLY("/a"));
    expect_wait(EV_READ, DEADLINE_HEADER);
    assert_int_equal(connection->deadline_from_ns, *now_ns);
}

TEST(late_head_of_a_slow_reader_is_408_later)
{
    receive("GET");
    scene.room = 1;
    time_out();
    expect_wait(EV_WRITE, DEADLINE_SEND);
    scene.room = SIZE_MAX;
    ready(EV_WRITE);
    expect_sent("408;");
    expect_wait(EV_READ, DEADLINE_LINGER);
}

TEST(late_head_of_a_lost_client_closes)
{
    receive("GET");
    scene.room = 0;
    scene.error = EPIPE;
    time_out();
    expect_closed();
}

TEST(late_head_without_space_in_the_log_closes)
{
    receive("GET");
    fill_ring(true);
    time_out();
    expect_sent("");
    expect_closed();
}

/* --- Moving --- */

/* --- HTTP/2 --- */

static void init_http2(struct connection *connection)
{
    (void)connection;
}

/* The test needs the connection as one of HTTP/1 again. */
static void accept_http2(struct connection *connection)
{
    begun_http2++;
    scene.http1 = CONTAINER_OF(connection, struct http1_connection, connection);
    connection->protocol = &http1_protocol;
}

static void move_http2(struct connection *connection, bool leaving)
{
    (void)connection, (void)leaving;
}

static const struct connection_protocol http2 = {.connection_bytes =
                                                     sizeof(struct http1_connection),
                                                 .init = init_http2,
                                                 .accepted = accept_http2,
                                                 .moved = move_http2};

TEST(preface_without_memory_closes)
{
    static const char *const sent[] = {PREFACE, PREFACE "frames"};

    for (size_t i = 0; i < ARRAY_LENGTH(sent); i++) {
        scene.loop.http2 = &http2;
        out_of_memory = true;
        receive(sent[i]);
        out_of_memory = false;
        assert_int_equal(begun_http2, 0);
        expect_closed();
        finish(state);
        assert_int_equal(begin(state), 0);
    }
}

TEST(connection_without_promised_preface_closes)
{
    scene.loop.http2 = &http2;
    connection_of_scene()->awaits_http2 = true;
    receive("PRI *");
    expect_wait(EV_READ, DEADLINE_HEADER);
    receive(" HTTP/1.1\r\n");
    expect_sent("");
    expect_closed();
    assert_int_equal(scene_metric(METRIC_http2_errors), 1);
}

TEST(late_preface_closes_silently)
{
    scene.loop.http2 = &http2;
    connection_of_scene()->awaits_http2 = true;
    receive("PRI *");
    time_out();
    expect_sent("");
    expect_closed();
    assert_int_equal(scene_metric(METRIC_http2_errors), 0);
}
