/* Which worker gets a connection, and which one is asked for room, as the workers receive it. */
#include "tests/unit/daemon/master/scene.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { WORKERS = 2 }; /* those that serve */

static int set_up(void **state)
{
    (void)state;
    if (scene_begin(WORKER_SERVING) != 0)
        return -1;
    master.workers.worker[2].state = WORKER_NONE;
    return 0;
}

const struct test_fixture test_fixture = {set_up, scene_end};

/* What a full worker publishes, or one that lies. */
static void claim_no_room(uint32_t slot)
{
    atomic_store(&segment_worker(&master.segment, slot)->connections_open, UINT32_MAX);
}

static void claim_no_connection(uint32_t slot)
{
    atomic_store(&segment_worker(&master.segment, slot)->connections_open, 0);
}

static void dispatch_one(void)
{
    struct message_connection message = {.requests = 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    dispatch_again(&master, &message, sizeof(message), fd);
}

/* The master notices at the next connection. */
static void close_connection_channel(uint32_t slot)
{
    channel_close(ends[slot].connections);
    ends[slot].connections = NULL;
}

static void expect(uint32_t slot, int requests_to_shed, int connections_received)
{
    const struct scene_end *end = scene_read(slot);

    assert_int_equal(end->received[MESSAGE_SHED], requests_to_shed);
    assert_int_equal(end->received[MESSAGE_CONNECTION], connections_received);
}

TEST(no_worker_is_asked_for_room_while_another_has_some)
{
    claim_no_room(0);
    for (int i = 0; i < 3; i++)
        dispatch_one();
    expect(0, 0, 0);
    expect(1, 0, 3);
}

/* Worker 0 can take no connection, but not because of its idle ones. */
TEST(only_a_worker_without_room_is_asked_for_some)
{
    close_connection_channel(0);
    claim_no_room(1);
    dispatch_one();
    assert_true(channel_is_broken(master.workers.worker[0].connections));
    expect(0, 0, 0);
    expect(1, 1, 0);
}

static void accept_at_most(uint32_t max)
{
    master.config->connections_max = max;
    master.config->workers_processes = WORKERS;
    assert_int_equal(dispatch_update_listeners(&master), 0);
}

static int connect_client(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char text[256];

    listeners_describe(master.listeners, text, sizeof(text));
    address.sin_port = htons((uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10));
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, "G", 1, 0), 1); /* wakes a socket with TCP_DEFER_ACCEPT */
    return fd;
}

static void accept_waiting(void)
{
    event_base_loop(master.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* The first connection shows that the server is not full, the last one that it can be. */
TEST(liar_cannot_make_the_server_full)
{
    enum { MAX = 6, CONNECTIONS = 5 };
    int fds[CONNECTIONS];

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
TEST(last_free_place_is_used_without_asking_for_room)
{
    int fds[WORKERS + 1];

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

/* Workers of which one lies */

/* Gives each worker in turn the connections that the others have; it has closed none. */
static void serve_with_connections(uint32_t slot, uint32_t open)
{
    struct worker_process *worker = &master.workers.worker[slot];

    worker->state = WORKER_SERVING;
    worker->dispatched = open;
    metric_set(segment_worker(&master.segment, slot)->metrics, METRIC_connections_received, open);
    atomic_store(&segment_worker(&master.segment, slot)->connections_open, open);
}

static void take_dispatched(uint32_t slot, bool honest)
{
    struct segment_worker *block = segment_worker(&master.segment, slot);
    uint64_t dispatched = master.workers.worker[slot].dispatched;

    scene_read(slot);
    metric_set(block->metrics, METRIC_connections_received, dispatched);
    if (honest)
        atomic_store(&block->connections_open, (uint32_t)dispatched);
}

/* The first of three workers; all others claim what they have. */
TEST(worker_gets_no_more_than_an_equal_share_for_its_claim)
{
    enum { ROUNDS = 300 };
    static const struct {
        const char *name;
        uint32_t has[SCENE_WORKERS];
        uint32_t open;     /* claimed */
        uint64_t received; /* claimed above what was sent to it */
        int least, most;   /* of all rounds */
    } cases[] = {
        {"claims none", {100, 100, 100}, 0, 0, ROUNDS / 3 - 2, ROUNDS / 3 + 2},
        {"claims none of many", {900, 100, 100}, 0, 0, ROUNDS / 3 - 2, ROUNDS / 3 + 2},
        {"claims none, others differ", {100, 100, 300}, 0, 0, 0, ROUNDS / 3 + 50},
        {"received more than was sent",
         {100, 100, 100},
         0,
         1 << 20,
         ROUNDS / 3 - 2,
         ROUNDS / 3 + 2},
        {"received no end", {100, 100, 100}, 0, UINT64_MAX / 2, ROUNDS / 3 - 2, ROUNDS / 3 + 2},
        {"claims many", {0, 100, 100}, 100000, 0, 0, 0},
        {"is new", {0, 100, 100}, 0, 0, 100 + 200 / 3 - 2, 100 + 200 / 3 + 2},
    };

    master.config->workers_balance = BALANCE_LEAST_CONNECTIONS;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct segment_worker *block = segment_worker(&master.segment, 0);
        int got;

        for (uint32_t slot = 0; slot < SCENE_WORKERS; slot++)
            serve_with_connections(slot, cases[i].has[slot]);
        for (int round = 0; round < ROUNDS; round++) {
            atomic_store(&block->connections_open, cases[i].open);
            metric_add(block->metrics, METRIC_connections_received, cases[i].received);
            dispatch_one();
            for (uint32_t slot = 0; slot < SCENE_WORKERS; slot++)
                take_dispatched(slot, slot != 0);
        }
        got = (int)master.workers.worker[0].dispatched - (int)cases[i].has[0];
        if (got < cases[i].least || got > cases[i].most)
            fail_msg("%s: %d of %d", cases[i].name, got, ROUNDS);
    }
}

/* The queue */

enum { QUEUE_MAX = 1024 };

static uint64_t queue_length(void)
{
    return metric_get(segment_master(&master.segment)->metrics, METRIC_dispatch_pending);
}

static void return_one(uint32_t slot)
{
    struct message_connection message = {.requests = 0};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(channel_send(ends[slot].connections, MESSAGE_CONNECTION_RETURNED, &message,
                                  sizeof(message), fd, true),
                     0);
    event_base_loop(master.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
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

TEST(connections_wait_for_a_worker_with_room)
{
    claim_no_room(0);
    claim_no_room(1);
    dispatch_one();
    dispatch_one();
    assert_int_equal(queue_length(), 2);
    dispatch_resume(&master);
    assert_int_equal(queue_length(), 2);
    claim_no_connection(1);
    dispatch_resume(&master);
    assert_int_equal(queue_length(), 0);
    expect(0, 1, 0);
    expect(1, 0, 2);
}

TEST(full_queue_leaves_returned_connections_to_the_workers)
{
    allow_descriptors(2 * QUEUE_MAX);
    claim_no_room(0);
    claim_no_room(1);
    while (queue_length() < QUEUE_MAX - 1)
        dispatch_one();
    return_one(0);
    assert_int_equal(ends[0].received[MESSAGE_CONNECTION_RETURNED], 1);
    dispatch_one();
    assert_int_equal(queue_length(), QUEUE_MAX);
    return_one(0);
    assert_int_equal(ends[0].received[MESSAGE_CONNECTION_RETURNED], 1);
    claim_no_connection(0);
    claim_no_connection(1);
    while (queue_length() > 0) {
        dispatch_resume(&master);
        for (uint32_t i = 0; i < WORKERS; i++)
            channel_read_all(ends[i].connections);
    }
    event_base_loop(master.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    assert_int_equal(ends[0].received[MESSAGE_CONNECTION_RETURNED], 2);
    assert_int_equal(ends[0].received[MESSAGE_CONNECTION] + ends[1].received[MESSAGE_CONNECTION],
                     QUEUE_MAX);
}

/* What a worker may return as a connection */

static const uint8_t loopback[CLIENT_ADDRESS_BYTES] = {0, 0, 0,    0,    0,   0, 0, 0,
                                                       0, 0, 0xff, 0xff, 127, 0, 0, 1};
static const uint8_t other[CLIENT_ADDRESS_BYTES] = {0, 0, 0,    0,    0,  0, 0, 0,
                                                    0, 0, 0xff, 0xff, 10, 1, 2, 3};
static const uint8_t none[CLIENT_ADDRESS_BYTES];

static int listen_on_loopback(struct sockaddr_in *address)
{
    socklen_t length = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)address, length), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &length), 0);
    return fd;
}

/* *CLIENT and *SERVER are the ends of a connection over loopback. */
static void connect_ends(int *client, int *server)
{
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address);

    *client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(*client, (struct sockaddr *)&address, sizeof(address)), 0);
    *server = accept(listener, NULL, NULL);
    assert_true(*server >= 0);
    close(listener);
}

static const struct network_set nobody;

/* What the master says to a worker that returns FD with ADDRESS. */
static const char *fault_of(int fd, const uint8_t *address, bool *open)
{
    struct message_connection message = {.requests = 0};

    memcpy(message.address, address, sizeof(message.address));
    return dispatch_fault(fd, &message, &nobody, open);
}

static void expect_forged(int fd, const uint8_t *address, const char *words)
{
    bool open = true;
    const char *fault = fault_of(fd, address, &open);

    assert_true(fd >= 0);
    assert_non_null(fault);
    assert_non_null(strstr(fault, words));
    assert_false(open);
    close(fd);
}

TEST(connection_is_taken_only_with_its_address)
{
    int client, server;
    bool open = false;

    connect_ends(&client, &server);
    assert_null(fault_of(server, loopback, &open));
    assert_true(open);
    expect_forged(dup(server), other, "wrong address");
    expect_forged(dup(server), none, "wrong address");
    close(client);
    assert_null(fault_of(server, loopback, &open)); /* half closed: it may have requests */
    assert_true(open);
    close(server);
}

TEST(proxied_connection_of_trusted_peer_has_any_address)
{
    struct network item[1];
    const struct network_set trusted = {item, 1};
    struct message_connection message = {.proxied = 1};
    int client, server;
    bool open = false;

    memcpy(message.address, other, sizeof(message.address));
    connect_ends(&client, &server);
    assert_int_equal(network_parse("127.0.0.0/8", &item[0]), NETWORK_GOOD);
    assert_null(dispatch_fault(server, &message, &trusted, &open));
    assert_true(open);
    assert_int_equal(network_parse("10.0.0.0/8", &item[0]), NETWORK_GOOD);
    assert_null(dispatch_fault(server, &message, &trusted, &open)); /* a reload has removed it */
    assert_false(open);
    message.proxied = 0;
    assert_int_equal(network_parse("127.0.0.0/8", &item[0]), NETWORK_GOOD);
    assert_non_null(dispatch_fault(server, &message, &trusted, &open));
    assert_false(open);
    close(client);
    close(server);
}

TEST(connection_over_unix_socket_has_no_address)
{
    int fds[2];
    bool open = false;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_null(fault_of(fds[0], none, &open));
    assert_true(open);
    expect_forged(fds[0], loopback, "wrong address");
    close(fds[1]);
}

TEST(connection_reset_by_the_client_is_dropped_without_fault)
{
    const struct linger reset = {.l_onoff = 1};
    int client, server;
    bool open = true;
    char byte;

    connect_ends(&client, &server);
    setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(client);
    assert_int_equal(read(server, &byte, 1), -1); /* waits for the reset */
    assert_null(fault_of(server, loopback, &open));
    assert_false(open);
    close(server);
}

TEST(other_descriptors_are_forged)
{
    static const char words[] = "not a connection";
    struct sockaddr_in address;
    int pair[2], pipes[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    assert_int_equal(pipe(pipes), 0);
    expect_forged(pair[0], none, words); /* like the channel itself */
    expect_forged(pair[1], none, words);
    expect_forged(pipes[0], none, words);
    expect_forged(pipes[1], none, words);
    expect_forged(listen_on_loopback(&address), none, words);
    expect_forged(socket(AF_INET, SOCK_DGRAM, 0), none, words);
    expect_forged(open("/dev/null", O_RDONLY), none, words);
    expect_forged(open("/", O_PATH), none, words);
    expect_forged(eventfd(0, 0), none, words);
    expect_forged(memfd_create("memory", 0), none, words);
}
