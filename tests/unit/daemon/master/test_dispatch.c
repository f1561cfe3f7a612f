/* Which worker gets a connection, and which one is asked for room, as the workers receive it. */
#include "daemon/master/dispatch.h"

#include "common/macros.h"
#include "daemon/config/load.h"
#include "tests/unit/own_segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORKERS = 2 };

/* A worker's ends of its channels, and what came through them. */
struct end {
    struct channel *commands, *connections;
    int requests_to_shed, connections_received;
    int returned; /* through the master's end */
};

static struct config config;
static struct server server = {.config = &config};
static struct worker_process processes[WORKERS];
static const struct workers workers = {.worker = processes, .count = WORKERS};
static struct end ends[WORKERS];
static struct dispatch *dispatch;

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct end *end = owner;

    (void)data, (void)length;
    end->requests_to_shed += kind == MESSAGE_SHED;
    end->connections_received += kind == MESSAGE_CONNECTION;
    end->returned += kind == MESSAGE_CONNECTION_RETURNED;
    if (fd >= 0)
        close(fd);
}

static void on_closed(void *owner)
{
    (void)owner;
}

static void on_fault(void *owner, const char *what)
{
    (void)owner;
    fail_msg("%s", what);
}

static void open_pair(struct end *end, enum message_route to_worker, struct channel **master,
                      struct channel **worker)
{
    const struct channel_owner owner = {
        .message = on_message, .closed = on_closed, .fault = on_fault, .owner = end};
    int fds[2];

    assert_int_equal(channel_pair(fds), 0);
    *master = channel_open(server.base, fds[0], message_route_back(to_worker), &owner);
    *worker = channel_open(server.base, fds[1], to_worker, &owner);
    assert_non_null(*master);
    assert_non_null(*worker);
}

static void create_segment(void)
{
    assert_int_equal(
        own_segment_create(&server.segment, (struct segment_plan){.max_workers = WORKERS}), 0);
}

static int set_up(void **state)
{
    static const char *const overrides[] = {"server.listen=127.0.0.1:0", "server.root=/",
                                            "workers.dispatch=master"};
    const struct config_sources sources = {.overrides = overrides,
                                           .override_count = ARRAY_LENGTH(overrides)};
    char why[256];

    (void)state;
    server.base = event_base_new();
    assert_int_equal(config_load(&config, &sources, stderr), 0);
    create_segment();
    server.listeners = listeners_open(&config, 1, NULL, why, sizeof(why));
    assert_non_null(server.listeners);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct worker_process *process = &processes[i];

        assert_int_equal(segment_reserve_worker(&server.segment, i), 0);
        *process = (struct worker_process){.slot = i, .state = WORKER_SERVING, .pid = 1};
        ends[i] = (struct end){.requests_to_shed = 0};
        open_pair(&ends[i], ROUTE_COMMANDS, &process->commands, &ends[i].commands);
        open_pair(&ends[i], ROUTE_DISPATCH, &process->connections, &ends[i].connections);
    }
    dispatch = dispatch_new(&server, &workers);
    assert_non_null(dispatch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dispatch_free(dispatch);
    for (int i = 0; i < WORKERS; i++) {
        channel_close(processes[i].commands);
        channel_close(processes[i].connections);
        channel_close(ends[i].commands);
        channel_close(ends[i].connections);
    }
    listeners_close(server.listeners);
    segment_destroy(&server.segment);
    config_free(&config);
    event_base_free(server.base);
    return 0;
}

/* What a full worker publishes, or one that lies. */
static void claim_no_room(uint32_t slot)
{
    atomic_store(&segment_worker(&server.segment, slot)->connections_open, UINT32_MAX);
}

static void claim_no_connection(uint32_t slot)
{
    atomic_store(&segment_worker(&server.segment, slot)->connections_open, 0);
}

static void dispatch_one(void)
{
    struct message_connection message = {.requests = 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    dispatch_again(dispatch, &message, sizeof(message), fd);
}

/* The master notices at the next connection. */
static void close_connection_channel(uint32_t slot)
{
    channel_close(ends[slot].connections);
    ends[slot].connections = NULL;
}

static void expect(uint32_t slot, int requests_to_shed, int connections_received)
{
    channel_read_all(ends[slot].commands);
    if (ends[slot].connections != NULL)
        channel_read_all(ends[slot].connections);
    assert_int_equal(ends[slot].requests_to_shed, requests_to_shed);
    assert_int_equal(ends[slot].connections_received, connections_received);
}

static void no_worker_is_asked_for_room_while_another_has_some(void **state)
{
    (void)state;
    claim_no_room(0);
    for (int i = 0; i < 3; i++)
        dispatch_one();
    expect(0, 0, 0);
    expect(1, 0, 3);
}

/* Worker 0 can take no connection, but not because of its idle ones. */
static void only_a_worker_without_room_is_asked_for_some(void **state)
{
    (void)state;
    close_connection_channel(0);
    claim_no_room(1);
    dispatch_one();
    assert_true(channel_is_broken(processes[0].connections));
    expect(0, 0, 0);
    expect(1, 1, 0);
}

static void accept_at_most(uint32_t max)
{
    config.connections_max = max;
    config.workers_processes = WORKERS;
    assert_int_equal(dispatch_update_listeners(dispatch), 0);
}

static int connect_client(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char text[256];

    listeners_describe(server.listeners, text, sizeof(text));
    address.sin_port = htons((uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10));
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, "G", 1, 0), 1); /* wakes a socket with TCP_DEFER_ACCEPT */
    return fd;
}

static void accept_waiting(void)
{
    event_base_loop(server.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* The first connection shows that the server is not full, the last one that it can be. */
static void liar_cannot_make_the_server_full(void **state)
{
    enum { MAX = 6, CONNECTIONS = 5 };
    int fds[CONNECTIONS];

    (void)state;
    claim_no_room(0);
    accept_at_most(MAX);
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = connect_client();
        accept_waiting();
    }
    expect(1, 0, MAX / WORKERS);
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
}

/* Only for a connection that waits does a worker close another one. */
static void last_free_place_is_used_without_asking_for_room(void **state)
{
    int fds[WORKERS + 1];

    (void)state;
    accept_at_most(WORKERS);
    for (int i = 0; i < WORKERS; i++)
        fds[i] = connect_client();
    accept_waiting();
    for (uint32_t i = 0; i < WORKERS; i++)
        expect(i, 0, 1);
    fds[WORKERS] = connect_client();
    accept_waiting();
    expect(0, 1, 1);
    expect(1, 0, 1);
    for (int i = 0; i <= WORKERS; i++)
        close(fds[i]);
}

/* The queue */

enum { QUEUE_MAX = 1024 };

static uint64_t queue_length(void)
{
    return metric_get(segment_master(&server.segment)->metrics, METRIC_dispatch_pending);
}

static void return_one(uint32_t slot)
{
    struct message_connection message = {.requests = 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(channel_send(ends[slot].connections, MESSAGE_CONNECTION_RETURNED, &message,
                                  sizeof(message), fd, true),
                     0);
    event_base_loop(server.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* A connection in the queue has a descriptor. */
static void allow_descriptors(rlim_t count)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < count)
        skip();
    if (limit.rlim_cur < count)
        limit.rlim_cur = count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void connections_wait_for_a_worker_with_room(void **state)
{
    (void)state;
    claim_no_room(0);
    claim_no_room(1);
    dispatch_one();
    dispatch_one();
    assert_int_equal(queue_length(), 2);
    dispatch_resume(dispatch);
    assert_int_equal(queue_length(), 2);
    claim_no_connection(1);
    dispatch_resume(dispatch);
    assert_int_equal(queue_length(), 0);
    expect(0, 1, 0);
    expect(1, 0, 2);
}

static void full_queue_leaves_returned_connections_to_the_workers(void **state)
{
    (void)state;
    allow_descriptors(2 * QUEUE_MAX);
    claim_no_room(0);
    claim_no_room(1);
    while (queue_length() < QUEUE_MAX - 1)
        dispatch_one();
    return_one(0);
    assert_int_equal(ends[0].returned, 1);
    dispatch_one();
    assert_int_equal(queue_length(), QUEUE_MAX);
    return_one(0);
    assert_int_equal(ends[0].returned, 1);
    claim_no_connection(0);
    claim_no_connection(1);
    while (queue_length() > 0) {
        dispatch_resume(dispatch);
        for (uint32_t i = 0; i < WORKERS; i++)
            channel_read_all(ends[i].connections);
    }
    event_base_loop(server.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    assert_int_equal(ends[0].returned, 2);
    assert_int_equal(ends[0].connections_received + ends[1].connections_received, QUEUE_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_worker_is_asked_for_room_while_another_has_some),
        TEST(only_a_worker_without_room_is_asked_for_some),
        TEST(liar_cannot_make_the_server_full),
        TEST(last_free_place_is_used_without_asking_for_room),
        TEST(connections_wait_for_a_worker_with_room),
        TEST(full_queue_leaves_returned_connections_to_the_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
