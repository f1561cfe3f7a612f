/* Jobs of the offload threads, and a full queue. */
#include "http_client.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"
#include "common/segment_reader.h"
#include "tests/test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { CLIENTS = 12 };

SERVER_TEST(full_queue_is_503)
{
    static const char request[] =
        "GET /arithmetic/square?n=3&work=100ms HTTP/1.1\r\nHost: h\r\n\r\n";
    struct http_client clients[CLIENTS];
    int done = 0, rejected = 0;

    server_start(server, "arithmetic.enabled=on", "workers.processes=1", "workers.threads=1",
                 "workers.offload_threads=1", "workers.offload_queue=1", NULL);
    for (int i = 0; i < CLIENTS; i++)
        http_open(&clients[i], server_port(server));
    for (int i = 0; i < CLIENTS; i++)
        http_send(&clients[i], request);
    for (int i = 0; i < CLIENTS; i++) {
        struct http_response response;

        http_receive(&clients[i], HTTP_WITH_BODY, &response);
        if (response.status == 200) {
            assert_string_equal(response.body, "9\n");
            done++;
        } else {
            assert_int_equal(response.status, 503);
            assert_string_equal(http_field(&response, "Retry-After"), "1");
            rejected++;
        }
        http_response_free(&response);
        http_close(&clients[i]);
    }
    assert_true(done >= 1 && rejected >= 1);
    server_expect_metric(server, "offload_rejected", (uint64_t)rejected);
    server_stop(server);
}

SERVER_TEST(arithmetic_is_off_by_default)
{
    server_start(server, NULL);
    http_expect(server_port(server), "/arithmetic/square?n=3", 404);
    server_stop(server);
}

/* The client disconnects before the job is done. */
SERVER_TEST(job_of_disconnected_client_is_harmless)
{
    static const char request[] = "GET /arithmetic/cube?n=3&work=50ms HTTP/1.1\r\nHost: h\r\n\r\n";

    server_start(server, "arithmetic.enabled=on", NULL);
    for (int i = 0; i < 8; i++) {
        struct http_client client;

        http_open(&client, server_port(server));
        http_send(&client, request);
        http_close(&client);
    }
    server_expect_metric(server, "connections_closed", 8);
    server_stop(server);
}

static bool some_thread_computes(const struct segment_reader *reader, const char *path)
{
    for (uint32_t i = 0; i < segment_count(&reader->map, SEGMENT_WORKERS); i++)
        for (size_t j = 0; j < SEGMENT_OFFLOAD_THREADS; j++) {
            struct activity_copy copy;

            if (segment_worker_reserved(&reader->map, i) &&
                segment_read_activity(&segment_worker(&reader->map, i)->offload[j], &copy) &&
                copy.state == THREAD_STATE_COMPUTE) {
                assert_string_equal(copy.work, path);
                return true;
            }
        }
    return false;
}

static bool has_bytes(const struct http_client *client, int patience_ms)
{
    struct pollfd socket = {.fd = client->fd, .events = POLLIN};

    return poll(&socket, 1, patience_ms) > 0;
}

/* A busy machine may hide a job from this process for all of its time, so that one of several must be seen. */
SERVER_TEST(running_job_is_published)
{
    enum { TIMES = 100 };
    static const char request[] = "GET /arithmetic/cube?n=3&work=100ms HTTP/1.1\r\nHost: h\r\n\r\n";
    struct segment_reader reader;
    struct http_client client;
    bool seen = false;

    server_start(server, "arithmetic.enabled=on", NULL);
    server_attach(server, &reader);
    http_open(&client, server_port(server));
    for (int i = 0; i < TIMES && !seen; i++) {
        struct http_response response;

        http_send(&client, request);
        do
            seen = some_thread_computes(&reader, "/arithmetic/cube");
        while (!seen && !has_bytes(&client, 1));
        http_receive(&client, HTTP_WITH_BODY, &response);
        assert_string_equal(response.body, "27\n");
        http_response_free(&response);
    }
    assert_true(seen);
    http_close(&client);
    segment_detach(&reader);
    server_stop(server);
}
