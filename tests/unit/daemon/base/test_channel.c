#include "common/macros.h"
#include "daemon/base/channel.h"
#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MANY = 3000, BYTES = 1000, DESCRIPTORS_MAX = 253 };

/* A channel from `here` to `there`, both in one event loop. Messages are numbered from 0. */
static struct ends {
    struct event_base *base;
    struct channel *here, *there;
    int raw;    /* instead of `here`: a hostile end */
    int shared; /* the socket of `there`, which a hostile end has, too */
    int received, descriptors, closed, drained, faults, without_descriptor;
    bool not_ready;
    size_t last_bytes;
    const char *fault;
} ends;

static int interruptions; /* of the next calls of recv() */

ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    if (interruptions > 0) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return recvfrom(fd, buf, n, flags, NULL, NULL);
}

static char byte_of(int number, size_t at)
{
    return (char)('a' + ((size_t)number + at) % 26);
}

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    const struct message_connection *message = data;
    char byte;

    (void)owner;
    assert_int_equal(kind, MESSAGE_CONNECTION);
    assert_int_equal(message->requests, ends.received); /* in order */
    assert_int_equal(length, sizeof(*message) + message->length);
    for (size_t i = 0; i < message->length; i++)
        assert_int_equal(message->bytes[i], byte_of(ends.received, i));
    ends.last_bytes = message->length;
    ends.received++;
    if (fd < 0)
        return;
    ends.descriptors++;
    assert_int_equal(read(fd, &byte, 1), 0); /* it is /dev/null, passed by the other end */
    close(fd);
}

static void on_closed(void *owner)
{
    (void)owner;
    ends.closed++;
}

static void on_drained(void *owner)
{
    (void)owner;
    ends.drained++;
}

static void on_fault(void *owner, const char *what)
{
    (void)owner;
    ends.faults++;
    ends.fault = what;
}

static bool is_ready(void *owner)
{
    (void)owner;
    return !ends.not_ready;
}

static void on_no_descriptor(void *owner)
{
    (void)owner;
    ends.without_descriptor++;
}

static const struct channel_owner usual = {.message = on_message,
                                           .closed = on_closed,
                                           .drained = on_drained,
                                           .fault = on_fault,
                                           .owner = &ends};

static void open_ends_with(const struct channel_owner *owner)
{
    int fds[2];

    assert_int_equal(channel_pair(fds), 0);
    ends = (struct ends){.base = event_base_new(), .raw = -1, .shared = fds[1]};
    ends.here = channel_open(ends.base, fds[0], ROUTE_RETURNS, owner);
    ends.there = channel_open(ends.base, fds[1], ROUTE_DISPATCH, owner);
    assert_non_null(ends.here);
    assert_non_null(ends.there);
}

static void open_ends(void)
{
    open_ends_with(&usual);
}

/* The test itself is the other end of `there`. */
static void open_hostile(void)
{
    int fds[2];

    assert_int_equal(channel_pair(fds), 0);
    ends = (struct ends){.base = event_base_new(), .raw = fds[0], .shared = fds[1]};
    ends.there = channel_open(ends.base, fds[1], ROUTE_DISPATCH, &usual);
    assert_non_null(ends.there);
}

static int close_ends(void **state)
{
    (void)state;
    if (ends.base == NULL)
        return 0;
    channel_close(ends.here);
    channel_close(ends.there);
    if (ends.raw >= 0)
        close(ends.raw);
    event_base_free(ends.base);
    ends.base = NULL;
    return 0;
}

const struct test_fixture test_fixture = {NULL, close_ends};

static int open_null(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Returns what channel_send() returns. */
static int try_send(struct channel *channel, int number, size_t bytes)
{
    static _Alignas(struct message_connection) char
        buffer[sizeof(struct message_connection) + PASSED_BYTES_MAX];
    struct message_connection *message = (struct message_connection *)buffer;
    int fd = open_null();

    *message = (struct message_connection){.requests = (uint32_t)number, .length = (uint32_t)bytes};
    for (size_t i = 0; i < bytes; i++)
        message->bytes[i] = byte_of(number, i);
    assert_true(fd >= 0);
    if (channel_send(channel, MESSAGE_CONNECTION, message, sizeof(*message) + bytes, fd, true) == 0)
        return 0;
    close(fd);
    return -1;
}

static void send_one(struct channel *channel, int number, size_t bytes)
{
    assert_int_equal(try_send(channel, number, bytes), 0);
}

static void run_until_received(int count)
{
    for (int turns = 0; ends.received < count && turns < 100000; turns++)
        event_base_loop(ends.base, EVLOOP_ONCE);
    assert_int_equal(ends.received, count);
}

/* Number of the next free descriptor: unchanged if all others were closed. */
static int next_descriptor(void)
{
    int fd = open_null();

    close(fd);
    return fd;
}

static void allow_descriptors(rlim_t count)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static int prepare_program(void **state)
{
    (void)state;
    allow_descriptors(MANY + 200);
    return 0;
}

const struct test_fixture test_group_fixture = {prepare_program, NULL};

TEST(messages_of_all_sizes_arrive_unchanged)
{
    static const size_t sizes[] = {0, 1, 7, 100, 4096, PASSED_BYTES_MAX};

    open_ends();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        send_one(ends.here, (int)i, sizes[i]);
        run_until_received((int)i + 1);
        assert_int_equal(ends.last_bytes, sizes[i]);
    }
    assert_int_equal(ends.descriptors, ARRAY_LENGTH(sizes));
    assert_int_equal(channel_sent(ends.here), ARRAY_LENGTH(sizes));
    assert_int_equal(channel_received(ends.there), ARRAY_LENGTH(sizes));
}

/*
 * More than fits the socket: the rest is queued, in order, and the callback reports timeout it was
 * sent.
 */
TEST(full_socket_queues_and_reports_drained)
{
    open_ends();
    for (int i = 0; i < MANY; i++)
        send_one(ends.here, i, BYTES);
    assert_true(channel_backlog(ends.here) > 0);
    run_until_received(MANY);
    assert_int_equal(channel_backlog(ends.here), 0);
    assert_int_equal(ends.descriptors, MANY);
    assert_int_equal(ends.drained, 1);
}

TEST(queue_over_its_maximum_is_a_fault)
{
    struct channel_owner owner = usual;
    int before = next_descriptor(), sent = 0;

    owner.queue_max = 100 * BYTES;
    open_ends_with(&owner);
    while (sent < MANY && try_send(ends.here, sent, BYTES) == 0)
        sent++;
    assert_true(sent < MANY);
    assert_true(channel_backlog(ends.here) > 0 && channel_backlog(ends.here) < 100);
    assert_int_equal(ends.faults, 1);
    assert_string_equal(ends.fault, "does not read its messages");
    assert_true(channel_is_broken(ends.here));
    assert_int_equal(try_send(ends.here, sent, BYTES), -1);
    assert_int_equal(ends.faults, 1);
    close_ends(NULL);
    assert_int_equal(next_descriptor(), before);
}

TEST(more_messages_than_the_rate_are_a_fault)
{
    struct channel_owner owner = usual;
    int before = next_descriptor();

    owner.rate_max = 50;
    open_ends_with(&owner);
    for (int i = 0; i < MANY; i++)
        send_one(ends.here, i, BYTES);
    while (ends.faults == 0)
        event_base_loop(ends.base, EVLOOP_ONCE);
    assert_string_equal(ends.fault, "sends too many messages");
    assert_in_range(ends.received, 50, MANY - 1);
    close_ends(NULL);
    assert_int_equal(next_descriptor(), before);
}

TEST(paused_reading_resumes)
{
    open_ends();
    channel_set_reading(ends.there, false);
    send_one(ends.here, 0, 10);
    event_base_loop(ends.base, EVLOOP_NONBLOCK);
    assert_int_equal(ends.received, 0);
    channel_set_reading(ends.there, true);
    run_until_received(1);
}

/* Linked in place of event_add(): it has no memory for descriptors while failures remain. */
static int failures;

int __wrap_event_add(struct event *event, const struct timeval *timeout)
{
    if (timeout != NULL || failures == 0)
        return __real_event_add(event, timeout);
    failures--;
    return -1;
}

TEST(lack_of_memory_for_events_only_delays)
{
    open_ends();
    channel_set_reading(ends.there, false);
    for (int i = 0; i < MANY; i++)
        send_one(ends.here, i, BYTES);
    failures = 3;
    channel_set_reading(ends.there, true);
    run_until_received(MANY);
    assert_int_equal(failures, 0);
}

TEST(messages_before_close_are_delivered)
{
    open_ends();
    for (int i = 0; i < 100; i++)
        send_one(ends.here, i, 10);
    channel_close(ends.here);
    ends.here = NULL;
    channel_read_all(ends.there);
    assert_int_equal(ends.received, 100);
    assert_int_equal(ends.descriptors, 100);
    assert_int_equal(ends.closed, 1);
}

static void close_there(void *owner)
{
    (void)owner;
    ends.closed++;
    channel_close(ends.there);
    ends.there = NULL;
}

/* AddressSanitizer reports a use of the channel afterwards. */
TEST(owner_may_close_a_closed_channel)
{
    struct channel_owner owner = usual;

    owner.closed = close_there;
    open_ends_with(&owner);
    channel_close(ends.here);
    ends.here = NULL;
    event_base_loop(ends.base, EVLOOP_ONCE);
    assert_int_equal(ends.closed, 1);
}

/* An end that can no longer send is not heard of otherwise: it is still open. */
TEST(failed_send_ends_both_ends)
{
    const struct message_connection message = {.requests = 1};

    open_ends();
    send_one(ends.here, 0, 10);
    assert_int_equal(
        channel_send(ends.here, MESSAGE_CONNECTION, &message, sizeof(message), INT_MAX, false), -1);
    assert_int_equal(errno, EPIPE);
    assert_true(channel_is_broken(ends.here));
    for (int turns = 0; ends.closed < 2 && turns < 100; turns++)
        event_base_loop(ends.base, EVLOOP_NONBLOCK);
    assert_int_equal(ends.received, 1);
    assert_int_equal(ends.closed, 2);
}

TEST(closed_channel_closes_given_descriptors)
{
    int before = next_descriptor();

    open_ends();
    for (int i = 0; i < MANY; i++)
        send_one(ends.here, i, BYTES);
    close_ends(NULL);
    assert_int_equal(next_descriptor(), before);
}

/* The messages that a closed end did not take can be taken back. */
TEST(unsent_messages_survive_the_other_end)
{
    size_t unsent;

    open_ends();
    for (int i = 0; i < MANY; i++)
        send_one(ends.here, i, BYTES);
    unsent = channel_backlog(ends.here);
    assert_true(unsent > 0);
    channel_close(ends.there);
    ends.there = NULL;
    event_base_loop(ends.base, EVLOOP_NONBLOCK);
    assert_int_equal(channel_backlog(ends.here), unsent);
    ends.received = MANY - (int)unsent;
    channel_take_unsent(ends.here, on_message);
    assert_int_equal(ends.received, MANY);
    assert_int_equal(ends.descriptors, unsent);
}

/* A hostile end */

/* Sends the kind and LENGTH bytes of DATA, with COUNT descriptors of /dev/null. */
static void send_raw(const void *bytes, size_t length, size_t count)
{
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec body = {(void *)(uintptr_t)bytes, length};
    struct msghdr header = {.msg_iov = &body, .msg_iovlen = 1};
    int fd = open_null();

    if (count > 0) {
        struct cmsghdr *rights;

        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (size_t i = 0; i < count; i++)
            memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof(fd));
    }
    assert_int_equal(sendmsg(ends.raw, &header, MSG_NOSIGNAL), length);
    close(fd);
}

struct raw_message {
    int64_t kind;
    char data[sizeof(struct message_connection)]; /* all zero */
    char more[CHANNEL_PAYLOAD_MAX];
};

TEST(invalid_message_stops_channel_and_leaks_no_descriptor)
{
    static const struct {
        int64_t kind;
        size_t length; /* of all bytes */
        size_t descriptors;
        const char *fault;
    } examples[] = {
        {MESSAGE_CONNECTION, 8 + sizeof(struct message_connection), 2, "unexpected descriptors"},
        {MESSAGE_CONNECTION, 8 + sizeof(struct message_connection), DESCRIPTORS_MAX,
         "unexpected descriptors"},
        {MESSAGE_CONNECTION, 8 + sizeof(struct message_connection), 0, "without its descriptor"},
        {MESSAGE_CONNECTION, 8, 1, "wrong length"},
        {MESSAGE_CONNECTION, 8 + sizeof(struct message_connection) + 1, 1, "wrong length"},
        {MESSAGE_CONNECTION, sizeof(struct raw_message), 1, "wrong length"},
        {MESSAGE_LEAVE, 8, 1, "unexpected descriptors"},
        {MESSAGE_CONNECTION_RETURNED, 8, 1, "wrong direction"},
        {77, 8, 3, "unknown kind"},
        {INT64_MIN, 8, 0, "unknown kind"},
    };
    static struct raw_message message;
    int before = next_descriptor();

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        open_hostile();
        message.kind = examples[i].kind;
        send_raw(&message, examples[i].length, examples[i].descriptors);
        message.kind = MESSAGE_CONNECTION; /* valid, but too late */
        send_raw(&message, 8 + sizeof(struct message_connection), 1);
        channel_read_all(ends.there);
        assert_int_equal(ends.faults, 1);
        assert_non_null(strstr(ends.fault, examples[i].fault));
        channel_set_reading(ends.there, true);
        channel_read_all(ends.there);
        assert_int_equal(ends.received, 0);
        assert_int_equal(ends.faults, 1);
        close_ends(NULL);
        assert_int_equal(next_descriptor(), before);
    }
}

/* Less than a kind is taken for the end: without bytes the two look the same. */
TEST(short_message_closes_and_leaks_no_descriptor)
{
    int before = next_descriptor();

    for (size_t length = 0; length < sizeof(int64_t); length++) {
        open_hostile();
        send_raw("1234567", length, 5);
        channel_read_all(ends.there);
        assert_int_equal(ends.closed, 1);
        assert_int_equal(ends.received, 0);
        close_ends(NULL);
        assert_int_equal(next_descriptor(), before);
    }
}

/* A descriptor that is lost here is not the sender's fault. */
TEST(lack_of_descriptors_delivers_message_without_one)
{
    struct raw_message message = {.kind = MESSAGE_CONNECTION};
    struct rlimit limit;

    open_hostile();
    send_raw(&message, 8 + sizeof(struct message_connection), 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    allow_descriptors((rlim_t)next_descriptor());
    channel_read_all(ends.there);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(ends.faults, 0);
    assert_int_equal(ends.received, 1);
    assert_int_equal(ends.descriptors, 0);
}

struct search {
    int fd;
    bool found;
};

static int find_reader(const struct event_base *base, const struct event *event, void *argument)
{
    struct search *search = argument;

    (void)base;
    search->found = event_get_fd(event) == search->fd && event_pending(event, EV_READ, NULL) != 0;
    return search->found;
}

static bool is_read(struct event_base *base, int fd)
{
    struct search search = {.fd = fd};

    event_base_foreach_event(base, find_reader, &search);
    return search.found;
}

/* An owner that can make room gets the message later, with its descriptor. */
TEST(message_waits_for_descriptor_and_for_owner)
{
    struct channel_owner owner = usual;
    struct rlimit limit;
    int before, null = open_null();

    owner.ready = is_ready;
    owner.no_descriptor = on_no_descriptor;
    open_ends_with(&owner);
    before = next_descriptor();
    send_one(ends.here, 0, BYTES);
    send_one(ends.here, 1, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    allow_descriptors((rlim_t)before);
    assert_true(is_read(ends.base, ends.shared));
    while (ends.without_descriptor < 1)
        event_base_loop(ends.base, EVLOOP_ONCE);
    assert_false(
        is_read(ends.base, ends.shared)); /* else it would try again at once, and forever */
    while (ends.without_descriptor < 2)
        event_base_loop(ends.base, EVLOOP_ONCE);
    assert_int_equal(ends.received, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ends.not_ready = true;
    event_base_loop(ends.base, EVLOOP_ONCE);
    assert_int_equal(ends.received, 0);
    ends.not_ready = false;
    run_until_received(2);
    assert_int_equal(ends.descriptors, 2);
    assert_int_equal(next_descriptor(), before);
    close(null);
}

/* A message that is looked at and then not dropped would be delivered twice. */
TEST(interrupted_call_delivers_message_once)
{
    struct channel_owner owner = usual;

    owner.no_descriptor = on_no_descriptor;
    open_ends_with(&owner);
    send_one(ends.here, 0, BYTES);
    send_one(ends.here, 1, 0);
    interruptions = 2;
    run_until_received(2);
    assert_int_equal(interruptions, 0);
    assert_int_equal(ends.descriptors, 2);
    event_base_loop(ends.base, EVLOOP_NONBLOCK);
    assert_int_equal(ends.received, 2);
}

/* A worker shares one of its sockets with the master, and can change its flags. */
TEST(blocking_socket_does_not_block)
{
    open_hostile();
    assert_int_equal(fcntl(ends.shared, F_SETFL, 0), 0);
    channel_read_all(ends.there);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(channel_send(ends.there, MESSAGE_CONNECTION_RETURNED,
                                      &(struct message_connection){0},
                                      sizeof(struct message_connection), ends.raw, false),
                         0);
    assert_true(channel_backlog(ends.there) > 0);
}
