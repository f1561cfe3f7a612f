/*
 * The response writer: what is sent, counted and logged of responses that the client takes in
 * pieces, or does not take.
 */
#include "daemon/connection/unsent.h"
#include "daemon/http1/response_writer.h"

#include "scene.h"
#include "tests/test.h"
#include "tests/unit/own_cache.h"
#include "tests/unit/wrapped.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

enum {
    COPIED_MAX = 4 * 1024,
    LIFT_AT = 1024 * 1024,
    BIG_FILE = 3 * FILE_WINDOW_BYTES,
};

#define HEAD "the head"
#define BODY "and the body"
#define BOTH HEAD BODY

static struct resource resource;
static unsigned lifted;
static unsigned mallocs_fail; /* number of the next calls that fail */

void *__wrap_malloc(size_t size)
{
    if (mallocs_fail == 0)
        return __real_malloc(size);
    mallocs_fail--;
    return NULL;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    const unsigned int no_limit = 0;

    assert_int_equal(fd, scene.http1->connection.fd);
    assert_true(level == IPPROTO_TCP && option == TCP_NOTSENT_LOWAT);
    assert_int_equal(length, sizeof(no_limit));
    assert_memory_equal(value, &no_limit, sizeof(no_limit));
    lifted++;
    return 0;
}

static struct output_buffer *output(void)
{
    return &scene.loop.context.output;
}

static int begin(void **state)
{
    resource = (struct resource){.fd = -1};
    atomic_store(&resource.entry.references, 1);
    resource.entry.path = "/path";
    resource.entry.path_length = 5;
    lifted = 0;
    mallocs_fail = 0;
    return scene_open(state);
}

static int end(void **state)
{
    int result = scene_close(state);

    assert_int_equal(atomic_load(&resource.entry.references), 1); /* the test's */
    return result;
}

const struct test_fixture test_fixture = {begin, end};

static struct own_cache own;

/* It has an entry, so that it can shrink. */
static void open_cache(void)
{
    own_cache_open(&own, own_cache_forget);
    assert_true(own_cache_put(&own, "/a", KIB));
    scene.worker.cache = own.cache;
    scene.loop.context.thread_cache =
        thread_cache_new(own.cache, segment_hits_of(&own.segment, 0), scene.loop.context.metrics);
    assert_non_null(scene.loop.context.thread_cache);
}

static void close_cache(void)
{
    thread_cache_free(scene.loop.context.thread_cache);
    scene.loop.context.thread_cache = NULL;
    scene.worker.cache = NULL;
    own_cache_close(&own);
}

static struct body_source memory_body(const char *bytes, size_t length)
{
    return (struct body_source){.resource = &resource, .memory = bytes, .left = length};
}

static struct body_source file_body(uint64_t length)
{
    return (struct body_source){.resource = &resource, .left = length};
}

static void compose(const char *head, struct body_source body)
{
    static const struct request request;

    scene_pack(&scene.http1->connection.client, &scene.http1->state, &request, 200, body.left);
    output_put(output(), head, strlen(head));
    output()->body = body;
}

/* Two parts, "ab" and "ef", of which each has a text before it, and a text at the end. */
static struct body_source two_parts(void)
{
    struct byteranges *parts = calloc(1, sizeof(*parts));

    assert_non_null(parts);
    resource.body = "abcdef";
    parts->count = 3;
    parts->part[0] = (struct byteranges_part){SPAN("<1>"), {0, 2}};
    parts->part[1] = (struct byteranges_part){SPAN("<2>"), {4, 2}};
    parts->part[2] = (struct byteranges_part){SPAN("<end>"), {0, 0}};
    parts->length = 15;
    return (struct body_source){.resource = &resource, .parts = parts};
}

static void expect_taken(const char *text)
{
    scene_expect_taken(text);
    assert_int_equal(scene_metric(METRIC_bytes_sent), scene.length + scene.file_bytes);
}

/* Responses that were counted, and their bytes. */
static void expect_counted(uint64_t responses, uint64_t body_bytes)
{
    assert_int_equal(scene_metric(METRIC_requests), responses);
    assert_int_equal(atomic_load(&scene.host_counts.values[HOST_METRIC_body_bytes]), body_bytes);
}

static void expect_pending(bool pending)
{
    assert_int_equal(scene.http1->connection.unsent != NULL, pending);
    assert_int_equal(scene_metric(METRIC_connections_busy), pending);
    assert_int_equal(scene.loop.context.ring_reserved > 0, pending);
}

static enum write_result flush(void)
{
    enum write_result result = response_flush(scene.http1);

    assert_true(output_is_empty(output()));
    assert_int_equal(output()->used, 0);
    assert_int_equal(output()->record_words, 0);
    assert_true(body_source_is_empty(&output()->body));
    return result;
}

/* --- The output buffer --- */

TEST(small_body_in_memory_is_copied)
{
    static const char bytes[COPIED_MAX + 1];

    compose(HEAD, memory_body(bytes, COPIED_MAX));
    response_copy_body(&scene.loop.context);
    assert_int_equal(output()->used, strlen(HEAD) + COPIED_MAX);
    assert_int_equal(output()->body.left, 0);
    assert_null(output()->body.memory);
    compose(HEAD, memory_body(bytes, COPIED_MAX + 1));
    response_copy_body(&scene.loop.context);
    assert_int_equal(output()->used, 2 * strlen(HEAD) + COPIED_MAX);
    assert_int_equal(output()->body.left, COPIED_MAX + 1);
    output()->body = file_body(1);
    response_copy_body(&scene.loop.context);
    assert_int_equal(output()->body.left, 1);
    output()->body = two_parts();
    output()->body.memory = bytes;
    response_copy_body(&scene.loop.context);
    assert_non_null(output()->body.parts);
    body_source_release(&output()->body, NULL);
}

TEST(copied_body_is_released)
{
    compose(HEAD, memory_body(BODY, strlen(BODY)));
    body_source_keep(&output()->body);
    response_copy_body(&scene.loop.context);
    assert_int_equal(atomic_load(&resource.entry.references), 1);
    assert_int_equal(flush(), WRITE_DONE);
    expect_taken(BOTH);
}

TEST(empty_output_is_not_written)
{
    assert_int_equal(flush(), WRITE_DONE);
    assert_int_equal(scene.writes, 0);
}

TEST(response_that_fits_is_one_write)
{
    for (unsigned closing = 0; closing <= 1; closing++) {
        scene.http1->connection.client.closing = closing;
        scene.length = 0;
        compose(HEAD, memory_body(BODY, strlen(BODY)));
        body_source_keep(&output()->body);
        assert_int_equal(flush(), WRITE_DONE);
        assert_int_equal(scene.writes, closing + 1);
        assert_int_equal(scene.parts, 2);
        assert_int_equal(scene.next, closing != 0 ? WRITE_NEXT_END : WRITE_NEXT_NONE);
        assert_int_equal(scene.length, strlen(BOTH));
        expect_counted(closing + 1, (closing + 1) * strlen(BODY));
        expect_pending(false);
    }
    compose(HEAD, (struct body_source){.resource = NULL});
    assert_int_equal(flush(), WRITE_DONE);
    assert_int_equal(scene.parts, 1);
    assert_int_equal(scene_metric(METRIC_bytes_sent), 2 * strlen(BOTH) + strlen(HEAD));
    assert_int_equal(atomic_load(&scene.loop.context.activity->state), THREAD_STATE_WRITE);
}

TEST(failed_write_counts_no_body)
{
    static const struct {
        int error;
        bool reset;
    } cases[] = {{EPIPE, true}, {ECONNRESET, true}, {EIO, false}};
    uint64_t resets = 0;

    scene.room = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        scene.error = cases[i].error;
        compose(HEAD, memory_body(BODY, strlen(BODY)));
        body_source_keep(&output()->body);
        assert_int_equal(flush(), WRITE_FAILED);
        resets += cases[i].reset;
        assert_int_equal(scene_metric(METRIC_connections_reset), resets);
        expect_counted(i + 1, 0);
        expect_pending(false);
    }
}

/* --- A pending response --- */

/* Cuts it after FIRST bytes, and then sends one byte at a time. */
static void send_in_pieces(size_t first, int error)
{
    size_t length = scene.length;

    scene.room = first;
    scene.error = error;
    compose(HEAD, memory_body(BODY, strlen(BODY)));
    assert_int_equal(flush(), WRITE_BLOCKED);
    assert_int_equal(scene.length, length + first);
    expect_pending(true);
    while (scene.length < length + strlen(BOTH) - 1) {
        scene.room = 1;
        assert_int_equal(response_continue(scene.http1), WRITE_BLOCKED);
    }
    assert_int_equal(response_continue(scene.http1), WRITE_BLOCKED); /* without progress */
    expect_pending(true);
    scene.room = 1;
    assert_int_equal(response_continue(scene.http1), WRITE_DONE);
    expect_pending(false);
    assert_memory_equal(scene.taken + length, BOTH, strlen(BOTH));
}

TEST(response_in_pieces_is_complete)
{
    unsigned count = 0;

    for (size_t first = 0; first < strlen(BOTH); first++) {
        send_in_pieces(first, first % 2 == 0 ? EAGAIN : EINTR);
        count++;
        expect_counted(count, count * strlen(BODY));
    }
    assert_int_equal(scene_metric(METRIC_bytes_sent), scene.length);
    assert_int_equal(scene_metric(METRIC_connections_reset), 0);
    assert_int_equal(atomic_load(&resource.entry.references), 1);
}

/* The head of both is in one buffer. */
TEST(responses_before_the_pending_one_are_counted)
{
    scene.room = strlen(BOTH) + 1;
    compose(HEAD, memory_body(BODY, strlen(BODY)));
    response_copy_body(&scene.loop.context);
    compose(HEAD, memory_body(BODY, strlen(BODY)));
    assert_int_equal(flush(), WRITE_BLOCKED);
    expect_counted(1, strlen(BODY));
    scene.room = SIZE_MAX;
    assert_int_equal(response_continue(scene.http1), WRITE_DONE);
    expect_counted(2, 2 * strlen(BODY));
    expect_taken(BOTH BOTH);
}

TEST(rest_is_offered_with_the_body)
{
    scene.room = 1;
    compose(HEAD, memory_body(BODY, strlen(BODY)));
    assert_int_equal(flush(), WRITE_BLOCKED);
    assert_int_equal(scene.parts, 2);
    assert_int_equal(scene.next, WRITE_NEXT_NONE);
    scene.room = SIZE_MAX;
    assert_int_equal(response_continue(scene.http1), WRITE_DONE);
    expect_taken(BOTH);
}

TEST(failed_continuation_is_counted_when_aborted)
{
    static const struct {
        int error;
        bool reset;
    } cases[] = {{EPIPE, true}, {ECONNRESET, true}, {EIO, false}};
    uint64_t resets = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        scene.room = strlen(HEAD) + 2;
        scene.error = EAGAIN;
        compose(HEAD, memory_body(BODY, strlen(BODY)));
        assert_int_equal(flush(), WRITE_BLOCKED);
        scene.room = 1;
        assert_int_equal(response_continue(scene.http1), WRITE_BLOCKED);
        scene.error = cases[i].error;
        assert_int_equal(response_continue(scene.http1), WRITE_FAILED);
        resets += cases[i].reset;
        assert_int_equal(scene_metric(METRIC_connections_reset), resets);
        expect_pending(true);
        response_abort(&scene.http1->connection);
        expect_pending(false);
        assert_int_equal(scene_metric(METRIC_responses_cut_short), i + 1);
        expect_counted(i + 1, 3 * (i + 1));
    }
    response_abort(&scene.http1->connection);
    assert_int_equal(scene_metric(METRIC_responses_cut_short), ARRAY_LENGTH(cases));
}

TEST(response_without_memory_to_keep_it_fails)
{
    scene.room = strlen(HEAD);
    mallocs_fail = 1;
    compose(HEAD, memory_body(BODY, strlen(BODY)));
    assert_int_equal(flush(), WRITE_FAILED);
    expect_pending(false);
    expect_counted(1, 0);
    open_cache();
    mallocs_fail = 2;
    scene.room = strlen(HEAD);
    compose(HEAD, memory_body(BODY, strlen(BODY)));
    assert_int_equal(flush(), WRITE_FAILED);
    assert_true(own_cache_put(&own, "/a", KIB)); /* the first one was evicted */
    mallocs_fail = 1;
    scene.room = strlen(HEAD);
    compose(HEAD, memory_body(BODY, strlen(BODY)));
    assert_int_equal(flush(), WRITE_BLOCKED);
    expect_pending(true);
    response_abort(&scene.http1->connection);
    close_cache();
}

/* --- Parts --- */

#define ALL_PARTS HEAD "<1>ab<2>ef<end>"

TEST(parts_follow_their_texts)
{
    compose(HEAD, two_parts());
    assert_int_equal(flush(), WRITE_DONE);
    expect_taken(ALL_PARTS);
    for (size_t first = 0; first < strlen(ALL_PARTS); first++) {
        scene.length = 0;
        scene.room = first;
        compose(HEAD, two_parts());
        assert_int_equal(flush(), WRITE_BLOCKED);
        while (scene.length < strlen(ALL_PARTS)) {
            scene.room = 1;
            response_continue(scene.http1);
        }
        assert_memory_equal(scene.taken, ALL_PARTS, strlen(ALL_PARTS));
        expect_pending(false);
    }
}

/* The kernel may delay packets until the end, and only until then. */
TEST(last_text_is_sent_at_once)
{
    scene.room = strlen(HEAD);
    compose(HEAD, two_parts());
    assert_int_equal(flush(), WRITE_BLOCKED);
    assert_int_equal(scene.next, WRITE_NEXT_MORE);
    scene.room = strlen("<1>ab<2>ef");
    assert_int_equal(response_continue(scene.http1), WRITE_BLOCKED);
    assert_int_equal(scene.next, WRITE_NEXT_NONE);
    scene.room = SIZE_MAX;
    assert_int_equal(response_continue(scene.http1), WRITE_DONE);
    expect_taken(ALL_PARTS);
}

/* The log counts the framing of parts as body, but not the head. */
TEST(texts_of_parts_count_as_body)
{
    uint64_t bytes = 0;

    scene.room = 1;
    compose(HEAD, two_parts());
    assert_int_equal(flush(), WRITE_BLOCKED);
    scene.room = 1;
    assert_int_equal(response_continue(scene.http1), WRITE_BLOCKED);
    response_abort(&scene.http1->connection);
    expect_counted(1, 0);
    for (size_t sent = strlen(HEAD) - 2; sent < strlen(ALL_PARTS); sent++) {
        scene.room = sent;
        compose(HEAD, two_parts());
        assert_int_equal(flush(), WRITE_BLOCKED);
        response_abort(&scene.http1->connection);
        bytes += sent > strlen(HEAD) ? sent - strlen(HEAD) : 0;
        assert_int_equal(atomic_load(&scene.host_counts.values[HOST_METRIC_body_bytes]), bytes);
    }
}

/* --- Files --- */

TEST(file_follows_the_head)
{
    compose(HEAD, file_body(1000));
    assert_int_equal(flush(), WRITE_DONE);
    assert_int_equal(scene.next, WRITE_NEXT_MORE);
    assert_int_equal(scene.writes, 1);
    assert_int_equal(scene.file_bytes, 1000);
    expect_taken(HEAD);
    expect_counted(1, 1000);
    assert_int_equal(lifted, 0);
}

static unsigned resumed;

static void count_resumed(struct connection *connection)
{
    assert_ptr_equal(connection, &scene.http1->connection);
    resumed++;
}

/* The window of an earlier file is forgotten. */
TEST(file_has_a_window_of_its_own)
{
    struct connection_protocol protocol = http1_protocol;
    struct file_window *window = &scene.http1->window;

    window->warm_until = 10;
    scene.room = strlen(HEAD) + 20;
    compose(HEAD, file_body(1000));
    assert_int_equal(flush(), WRITE_BLOCKED);
    assert_int_equal(window->warm_from, 0);
    assert_int_equal(window->warm_until, 1000);
    protocol.resume = count_resumed;
    scene.http1->connection.protocol = &protocol;
    resumed = 0;
    window->read(window, &scene.http1->connection);
    assert_int_equal(resumed, 1);
    scene.http1->connection.protocol = &http1_protocol;
}

TEST(large_file_leaves_time_for_others)
{
    compose(HEAD, file_body(BIG_FILE));
    for (int i = 1; i < 3; i++) {
        assert_int_equal(i == 1 ? flush() : response_continue(scene.http1), WRITE_BLOCKED);
        assert_int_equal(scene.file_bytes, i * FILE_WINDOW_BYTES);
    }
    assert_int_equal(response_continue(scene.http1), WRITE_DONE);
    assert_int_equal(scene.file_bytes, BIG_FILE);
    expect_counted(1, BIG_FILE);
}

TEST(limit_of_unsent_bytes_is_lifted_once)
{
    scene.room = strlen(HEAD);
    compose(HEAD, file_body(BIG_FILE));
    assert_int_equal(flush(), WRITE_BLOCKED);
    scene.room = LIFT_AT - 1;
    assert_int_equal(response_continue(scene.http1), WRITE_BLOCKED);
    assert_int_equal(lifted, 0);
    scene.room = 1;
    assert_int_equal(response_continue(scene.http1), WRITE_BLOCKED);
    assert_int_equal(lifted, 1);
    scene.room = 1;
    assert_int_equal(response_continue(scene.http1), WRITE_BLOCKED);
    assert_int_equal(lifted, 1);
}

TEST(file_that_has_shrunk_ends_the_response)
{
    scene.room = strlen(HEAD) + 10;
    scene.error = 0;
    compose(HEAD, file_body(1000));
    errno = EPIPE; /* of an earlier call */
    assert_int_equal(flush(), WRITE_FAILED);
    assert_int_equal(scene_metric(METRIC_connections_reset), 0);
    response_abort(&scene.http1->connection);
    expect_counted(1, 10);
}

TEST(file_waits_for_the_client_or_a_job)
{
    scene.room = strlen(HEAD) + 10;
    compose(HEAD, file_body(1000));
    assert_int_equal(flush(), WRITE_BLOCKED);
    scene.http1->connection.client.jobs_out = 1;
    assert_int_equal(response_continue(scene.http1), WRITE_OFFLOAD);
    scene.http1->connection.client.jobs_out = 0;
    scene.error = EINTR;
    assert_int_equal(response_continue(scene.http1), WRITE_BLOCKED);
    scene.error = EPIPE;
    assert_int_equal(response_continue(scene.http1), WRITE_FAILED);
    assert_int_equal(scene_metric(METRIC_connections_reset), 1);
}

/* The rate of a client is measured over one response. */
TEST(sent_bytes_count_for_the_rate)
{
    struct connection *connection = &scene.http1->connection;

    scene.room = strlen(HEAD) + 10;
    connection->send_from_ns = SCENE_NOW_NS;
    compose(HEAD, file_body(1000));
    assert_int_equal(flush(), WRITE_BLOCKED);
    assert_int_equal(connection->send_bytes, 10);
    assert_int_equal(connection->send_from_ns, SCENE_NOW_NS);
    scene.room = SIZE_MAX;
    assert_int_equal(response_continue(scene.http1), WRITE_DONE);
    assert_int_equal(connection->send_bytes, 1000);
    assert_int_equal(connection->send_from_ns, 0);
}

TEST(activity_names_the_file)
{
    const struct segment_activity *activity = scene.loop.context.activity;

    scene.room = strlen(HEAD);
    compose(HEAD, file_body(1000));
    assert_int_equal(flush(), WRITE_BLOCKED);
    assert_string_equal((const char *)activity->work, "/path");
    response_abort(&scene.http1->connection);
    scene.room = 1;
    compose(HEAD, (struct body_source){.resource = NULL});
    assert_int_equal(flush(), WRITE_BLOCKED);
    assert_string_equal((const char *)activity->work, "");
}

/* --- Another thread --- */

static void make_pending(void)
{
    scene.room = 1;
    compose(HEAD, memory_body(BODY, strlen(BODY)));
    assert_int_equal(flush(), WRITE_BLOCKED);
}

TEST(reservation_moves_with_the_response)
{
    struct connection *connection = &scene.http1->connection;
    uint64_t reserved;

    unsent_end_reservation(connection);
    assert_true(unsent_reserve_log(connection));
    expect_pending(false);
    make_pending();
    reserved = scene.loop.context.ring_reserved;
    for (int i = 0; i < 2; i++) {
        unsent_end_reservation(connection);
        assert_int_equal(scene.loop.context.ring_reserved, 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(unsent_reserve_log(connection));
        assert_int_equal(scene.loop.context.ring_reserved, reserved);
    }
}

TEST(full_ring_has_no_place_for_the_record)
{
    make_pending();
    unsent_end_reservation(&scene.http1->connection);
    atomic_store(&scene.ring.words->head, scene.ring.capacity);
    assert_false(unsent_reserve_log(&scene.http1->connection));
    assert_int_equal(scene.loop.context.ring_reserved, 0);
    atomic_store(&scene.ring.cursor->position, scene.ring.capacity);
    assert_true(unsent_reserve_log(&scene.http1->connection));
}

TEST(pending_response_of_no_thread_is_freed)
{
    make_pending();
    assert_int_equal(atomic_load(&resource.entry.references), 2);
    unsent_end_reservation(&scene.http1->connection);
    unsent_free(&scene.http1->connection, NULL);
    assert_null(scene.http1->connection.unsent);
    assert_int_equal(atomic_load(&resource.entry.references), 1);
    unsent_free(&scene.http1->connection, NULL);
    expect_counted(0, 0);
}
