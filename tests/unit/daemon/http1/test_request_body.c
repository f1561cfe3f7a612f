/* Request bodies that arrive in pieces: what is kept of them, their timeout, and 100 (Continue). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/connection/read_buffer.h"
#include "daemon/http1/request_body.h"

#include "scene.h"

enum { RESTART_BYTES = 64 * 1024, BODY_MAX = 1024 * 1024 };

#define HEAD     "POST / HTTP/1.1\r\n\r\n"
#define HEAD_LEN (sizeof(HEAD) - 1)
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

static bool malloc_fails, append_fails;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. The labels are its names. */
void *wrapped_malloc(size_t size) __asm__("__wrap_malloc");
void *real_malloc(size_t size) __asm__("__real_malloc");
bool wrapped_append(struct read_buffer **buffer, const char *data,
                    size_t length) __asm__("__wrap_read_buffer_append");
bool real_append(struct read_buffer **buffer, const char *data,
                 size_t length) __asm__("__real_read_buffer_append");

void *wrapped_malloc(size_t size)
{
    return malloc_fails ? NULL : real_malloc(size);
}

bool wrapped_append(struct read_buffer **buffer, const char *data, size_t length)
{
    return !append_fails && real_append(buffer, data, length);
}

static struct request request_of(uint64_t length)
{
    return (struct request){.method = METHOD_GET, .has_body = true, .content_length = length};
}

/* The result for REQUEST, of which HEAD and then BODY have been read. */
static int check(const struct request *request, const char *body)
{
    char data[256];
    size_t length = (size_t)snprintf(data, sizeof(data), "%s%s", HEAD, body);

    return request_body_check(scene.http1, request, data, length, HEAD_LEN);
}

/* Begins a body of LENGTH bytes, of which none has arrived. */
static struct request begin_body(uint64_t length)
{
    const struct request request = request_of(length);

    assert_int_equal(check(&request, ""), 0);
    assert_true(request_body_is_incomplete(scene.http1));
    assert_int_equal(request_body_head_length(scene.http1), HEAD_LEN);
    assert_true(read_buffer_keep(&scene.http1->connection.unserved, HEAD, HEAD_LEN));
    return request;
}

/* Receives LENGTH bytes of a body. */
static bool receive(size_t length)
{
    static const char bytes[RESTART_BYTES];

    assert_true(length <= sizeof(bytes));
    return request_body_receive(scene.http1, bytes, length);
}

static void body_that_came_with_the_head_needs_no_state(void **state)
{
    const struct request request = request_of(4);

    (void)state;
    assert_int_equal(check(&request, "bodyGET /"), HEAD_LEN + 4);
    assert_null(scene.http1->body);
    assert_false(request_body_is_incomplete(scene.http1));
    assert_int_equal(scene.http1->state.began_ns, 0);
}

static void too_large_body_is_rejected_at_once(void **state)
{
    struct request request = request_of(BODY_MAX + 1);

    (void)state;
    assert_int_equal(check(&request, ""), -413);
    request.content_length = BODY_MAX;
    assert_int_equal(check(&request, ""), 0);
}

static void duration_begins_with_an_incomplete_body(void **state)
{
    (void)state;
    begin_body(10);
    assert_int_equal(scene.http1->state.began_ns, SCENE_NOW_NS);
    request_body_free(scene.http1);
    scene.http1->state.began_ns = 5; /* the head took long */
    begin_body(10);
    assert_int_equal(scene.http1->state.began_ns, 5);
}

static void body_without_memory_is_503(void **state)
{
    const struct request request = request_of(10);

    (void)state;
    malloc_fails = true;
    assert_int_equal(check(&request, "x"), -503);
    malloc_fails = false;
    assert_null(scene.http1->body);
}

static void bytes_after_a_body_in_pieces_are_kept(void **state)
{
    struct read_buffer **unserved = &scene.http1->connection.unserved;
    const struct request request = request_of(6);

    (void)state;
    assert_int_equal(check(&request, "ab"), 0);
    assert_true(read_buffer_keep(unserved, HEAD, HEAD_LEN));
    assert_false(request_body_receive(scene.http1, "cd", 2));
    assert_int_equal(check(&request, ""), 0);
    assert_int_equal((*unserved)->length, HEAD_LEN);
    assert_true(request_body_receive(scene.http1, "efGET", 5));
    assert_false(request_body_is_incomplete(scene.http1));
    assert_int_equal(check(&request, "GET"), HEAD_LEN);
    assert_int_equal((*unserved)->length, HEAD_LEN + 3);
    assert_memory_equal((*unserved)->bytes, HEAD "GET", HEAD_LEN + 3);
    request_body_free(scene.http1);
    assert_null(scene.http1->body);
    assert_false(request_body_is_incomplete(scene.http1));
}

static void malformed_body_is_rejected_later(void **state)
{
    const struct request request = {.method = METHOD_GET, .has_body = true, .chunked = true};

    (void)state;
    assert_int_equal(check(&request, "1\r\n"), 0);
    assert_true(read_buffer_keep(&scene.http1->connection.unserved, HEAD, HEAD_LEN));
    assert_true(request_body_receive(scene.http1, "xyz", 3));
    assert_int_equal(check(&request, ""), -400);
    assert_int_equal(scene.http1->connection.unserved->length, HEAD_LEN);
}

static void rest_without_memory_is_503(void **state)
{
    const struct request request = begin_body(1);

    (void)state;
    append_fails = true;
    assert_true(request_body_receive(scene.http1, "xGET", 4));
    append_fails = false;
    assert_int_equal(check(&request, ""), -503);
}

static void late_body_is_408(void **state)
{
    const struct request request = begin_body(1);

    (void)state;
    request_body_time_out(scene.http1);
    assert_int_equal(check(&request, ""), -408);
    assert_false(request_body_is_incomplete(scene.http1));
}

/* Bytes restart body_timeout if they are enough. */
static void timeout_restarts_after_each_64_kib(void **state)
{
    struct connection *connection = &scene.http1->connection;

    (void)state;
    begin_body(BODY_MAX);
    for (unsigned i = 1; i <= 2; i++) {
        uint64_t before_ns = connection->deadline_from_ns;

        scene.loop.context.loop_now_ns += NS_PER_S;
        assert_false(receive(RESTART_BYTES - 1));
        assert_int_equal(connection->deadline_from_ns, before_ns);
        assert_false(receive(1));
        assert_int_equal(connection->deadline_from_ns, SCENE_NOW_NS + i * NS_PER_S);
    }
}

/* --- 100 (Continue) --- */

/* Begins a body of a client that waits for it, as far as BODY. Returns the result of the check. */
static int begin_expecting(enum http_method method, const char *body)
{
    struct request request = request_of(10);

    request.method = method;
    request.expect_continue = true;
    return check(&request, body);
}

static void continue_is_sent_once(void **state)
{
    (void)state;
    assert_int_equal(begin_expecting(METHOD_GET, ""), 0);
    scene.room = 0;
    assert_int_equal(request_body_send_continue(scene.http1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(scene_metric(METRIC_bytes_sent), 0);
    scene.room = SIZE_MAX;
    assert_int_equal(request_body_send_continue(scene.http1), strlen(CONTINUE));
    assert_false(scene.more);
    assert_int_equal(request_body_send_continue(scene.http1), 1);
    assert_int_equal(scene.length, strlen(CONTINUE));
    assert_memory_equal(scene.taken, CONTINUE, strlen(CONTINUE));
    assert_int_equal(scene_metric(METRIC_bytes_sent), strlen(CONTINUE));
}

static void continue_that_is_cut_ends_the_connection(void **state)
{
    (void)state;
    assert_int_equal(begin_expecting(METHOD_GET, ""), 0);
    scene.room = strlen(CONTINUE) - 1;
    assert_int_equal(request_body_send_continue(scene.http1), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(scene_metric(METRIC_bytes_sent), strlen(CONTINUE) - 1);
}

/* The client has not waited. */
static void body_that_has_begun_needs_no_continue(void **state)
{
    (void)state;
    assert_int_equal(begin_expecting(METHOD_GET, "x"), 0);
    assert_int_equal(request_body_send_continue(scene.http1), 1);
    request_body_free(scene.http1);
    begin_body(10);
    assert_int_equal(request_body_send_continue(scene.http1), 1);
    request_body_free(scene.http1);
    assert_int_equal(begin_expecting(METHOD_GET, ""), 0);
    assert_false(receive(1));
    assert_int_equal(request_body_send_continue(scene.http1), 1);
    assert_int_equal(scene.writes, 0);
}

/* The final status follows at once, and the client may send the body or not. */
static void method_without_support_gets_no_continue(void **state)
{
    const struct client *client = &scene.http1->connection.client;
    struct request request = request_of(10);

    (void)state;
    assert_int_equal(begin_expecting(METHOD_POST, "x"), 0);
    request_body_free(scene.http1);
    request.method = METHOD_POST;
    assert_int_equal(check(&request, ""), 0);
    request_body_free(scene.http1);
    assert_int_equal(begin_expecting(METHOD_POST, "0123456789"), HEAD_LEN + 10);
    assert_false(client->closing);
    assert_int_equal(begin_expecting(METHOD_POST, ""), HEAD_LEN);
    assert_null(scene.http1->body);
    assert_true(client->closing);
    assert_true(client->linger_wanted);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_open, scene_close)
    const struct CMUnitTest tests[] = {
        TEST(body_that_came_with_the_head_needs_no_state),
        TEST(too_large_body_is_rejected_at_once),
        TEST(duration_begins_with_an_incomplete_body),
        TEST(body_without_memory_is_503),
        TEST(bytes_after_a_body_in_pieces_are_kept),
        TEST(malformed_body_is_rejected_later),
        TEST(rest_without_memory_is_503),
        TEST(late_body_is_408),
        TEST(timeout_restarts_after_each_64_kib),
        TEST(continue_is_sent_once),
        TEST(continue_that_is_cut_ends_the_connection),
        TEST(body_that_has_begun_needs_no_continue),
        TEST(method_without_support_gets_no_continue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
