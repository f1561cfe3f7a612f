/*
 * A connection of a loop that only the test runs. Its transport takes as many bytes as the test
 * allows.
 */
#ifndef TESTS_HTTP1_SCENE_H
#define TESTS_HTTP1_SCENE_H

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/transport.h"
#include "daemon/http1/connection.h"
#include "daemon/transaction/accounting.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { SCENE_RING_BYTES = 64 * 1024, TAKEN_MAX = 64 * 1024 };

#define SCENE_NOW_NS (1000 * NS_PER_S)

static struct {
    struct segment segment;
    struct config config;
    struct mailbox main;
    struct worker_shortages shortages;
    struct worker_context worker;
    struct segment_host_counts host_counts;
    struct log_ring ring;
    struct event_loop loop;
    struct http1_connection *http1;
    int peer; /* the other end of its socket */
    /* The transport takes ROOM bytes in all; then every call fails with ERROR. */
    size_t room;
    int error;
    /* Taken so far. */
    char taken[TAKEN_MAX];
    size_t length; /* of memory */
    size_t file_bytes;
    unsigned writes;
    int parts;            /* of the last write */
    enum write_next next; /* of the last write */
} scene;

static size_t scene_take(size_t length)
{
    size_t bytes = length < scene.room ? length : scene.room;

    scene.room -= bytes;
    return bytes;
}

static ssize_t scene_write(struct connection *connection, const struct iovec *parts, int count,
                           enum write_next next)
{
    size_t all = 0;

    assert_ptr_equal(connection, &scene.http1->connection);
    scene.writes++;
    scene.parts = count;
    scene.next = next;
    for (int i = 0; i < count && scene.room > 0; i++) {
        size_t bytes = scene_take(parts[i].iov_len);

        assert_true(scene.length + bytes <= TAKEN_MAX);
        memcpy(scene.taken + scene.length, parts[i].iov_base, bytes);
        scene.length += bytes;
        all += bytes;
    }
    if (all > 0)
        return (ssize_t)all;
    errno = scene.error;
    return -1;
}

/* ERROR 0: the file has ended. */
static ssize_t scene_send_file(struct connection *connection, int file, off_t *offset,
                               size_t length)
{
    size_t bytes = scene_take(length);

    (void)connection, (void)file;
    assert_int_equal(*offset, scene.file_bytes);
    scene.file_bytes += bytes;
    if (bytes > 0 || scene.error == 0)
        return (ssize_t)bytes;
    errno = scene.error;
    return -1;
}

static struct transport scene_transport = {.write = scene_write, .send_file = scene_send_file};

static inline uint64_t scene_metric(enum metric metric)
{
    return metric_get(scene.loop.context.metrics, metric);
}

static inline void scene_expect_taken(const char *text)
{
    if (scene.length != strlen(text) || memcmp(scene.taken, text, scene.length) != 0)
        fail_msg("'%.*s' was sent, not '%s'", (int)scene.length, scene.taken, text);
}

/* Packs the log record of a response. */
static inline void scene_pack(struct client *client, struct transaction_state *state,
                              const struct request *request, int status, uint64_t body_bytes)
{
    static const struct site site = {.logged = true};
    const struct transaction transaction = {.context = &scene.loop.context,
                                            .client = client,
                                            .address = client->address,
                                            .request = request,
                                            .site = &site,
                                            .state = state,
                                            .began_ns = SCENE_NOW_NS};

    accounting_pack(&transaction, status, OUTCOME_HIT, CODING_IDENTITY, body_bytes);
}

static inline int scene_open(void **state)
{
    int pair[2];

    (void)state;
    memset(&scene, 0, sizeof(scene));
    if (own_segment_create(&scene.segment, (struct segment_plan){.cache_entries = 64,
                                                                 .ring_bytes = SCENE_RING_BYTES}) !=
            0 ||
        segment_reserve_worker(&scene.segment, 0) != 0 ||
        segment_reserve_thread(&scene.segment, 0) != 0 || mailbox_open(&scene.main, 0, NULL) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    scene.peer = pair[1];
    scene.config.limits_body_bytes = 1024 * 1024;
    scene.config.limits_header_bytes = 1024;
    scene.config.limits_request_line = 256;
    scene.config.limits_header_count = 10;
    scene.config.connections_send_timeout = 1000;
    scene.config.log_when_full = WHEN_FULL_WAIT;
    scene.worker = (struct worker_context){.config = &scene.config,
                                           .segment = &scene.segment,
                                           .main = &scene.main,
                                           .shortages = &scene.shortages,
                                           .doorbell = -1};
    scene.ring = segment_ring(&scene.segment, 0);
    scene.loop.base = event_base_new();
    scene.loop.space = calloc(1, sizeof(*scene.loop.space));
    scene.loop.log_retry = event_new(scene.loop.base, -1, 0, NULL, NULL);
    scene.loop.protocol = &http1_protocol;
    scene.loop.context.worker = &scene.worker;
    scene.loop.context.loop_now_ns = SCENE_NOW_NS;
    scene.loop.context.activity = &segment_thread(&scene.segment, 0)->activity;
    scene.loop.context.metrics = segment_thread(&scene.segment, 0)->metrics;
    scene.loop.context.latency = segment_latency_of(&scene.segment, 0);
    scene.loop.context.host_counts = &scene.host_counts;
    scene.loop.context.ring = &scene.ring;
    for (int i = 0; i < DEADLINE_COUNT; i++)
        TAILQ_INIT(&scene.loop.connections[i]);
    scene.http1 = calloc(1, sizeof(*scene.http1));
    if (scene.loop.base == NULL || scene.loop.space == NULL || scene.http1 == NULL)
        return -1;
    scene.http1->connection = (struct connection){.loop = &scene.loop,
                                                  .protocol = &http1_protocol,
                                                  .transport = &scene_transport,
                                                  .fd = pair[0],
                                                  .deadline = DEADLINE_KEEPALIVE,
                                                  .deadline_from_ns = SCENE_NOW_NS};
    http1_protocol.init(&scene.http1->connection);
    TAILQ_INSERT_TAIL(&scene.loop.connections[DEADLINE_KEEPALIVE], &scene.http1->connection, link);
    scene.room = SIZE_MAX;
    scene.error = EAGAIN;
    return 0;
}

static inline int scene_close(void **state)
{
    (void)state;
    if (scene_metric(METRIC_connections_closed) == 0)
        connection_close(&scene.http1->connection);
    close(scene.peer);
    event_free(scene.loop.log_retry);
    event_base_free(scene.loop.base);
    free(scene.loop.space);
    mailbox_close(&scene.main);
    segment_destroy(&scene.segment);
    return 0;
}

#endif
