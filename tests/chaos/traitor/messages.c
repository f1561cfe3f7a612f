/* Attacks on the master by messages. */
#include "traitor.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/base/messages.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 8, LENGTH_MAX = 66000 };

struct forged {
    int64_t kind;
    unsigned char data[LENGTH_MAX];
};

static const struct {
    enum message_route route;
    size_t descriptors, data_bytes;
} forms[] = {
#define NO_DATA char[0]
#define MESSAGE(kind, route, descriptors, data, tail, purpose)                                     \
    {ROUTE_##route, descriptors, sizeof(data)},
#include "daemon/base/messages.def"
#undef MESSAGE
};

static int pick_channel(const struct traitor *traitor, struct chance *chance)
{
    return chance_below(chance, 2) == 0 ? traitor->commands : traitor->connections;
}

/* A descriptor of any sort that the worker has. */
static int pick_descriptor(const struct traitor *traitor, struct chance *chance)
{
    const int own[] = {traitor->commands, traitor->connections, traitor->doorbell,
                       traitor->context->sites.site[0].root.fd, STDERR_FILENO};
    uint64_t pick = chance_below(chance, 2 * ARRAY_LENGTH(own));

    return pick < ARRAY_LENGTH(own) ? own[pick] : (int)chance_below(chance, 40);
}

/* Does not wait: a full channel loses the message. */
static void send_forged(int channel, const struct forged *message, size_t length, const int *fds,
                        size_t count)
{
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec body = {(void *)(uintptr_t)message, length};
    struct msghdr header = {.msg_iov = &body, .msg_iovlen = 1};

    if (count > 0) {
        struct cmsghdr *rights;

        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
    }
    sendmsg(channel, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static size_t fill_descriptors(const struct traitor *traitor, struct chance *chance, int *fds,
                               size_t count)
{
    for (size_t i = 0; i < count; i++)
        fds[i] = pick_descriptor(traitor, chance);
    return count;
}

static void fill_data(struct forged *message, struct chance *chance, size_t length)
{
    bool edges = chance_below(chance, 2) == 0;

    for (size_t i = 0; i < length; i += sizeof(uint32_t)) {
        uint32_t word = (uint32_t)(edges ? chance_edge(chance) : chance_below(chance, 8));

        memcpy(message->data + i, &word, sizeof(word));
    }
}

const char *attack_random_messages(const struct traitor *traitor, struct chance *chance)
{
    static struct forged message;

    for (int i = 0; i < 100; i++) {
        int fds[DESCRIPTORS_MAX];
        size_t count = chance_below(chance, DESCRIPTORS_MAX + 1);
        size_t length = chance_below(chance, chance_below(chance, 8) == 0 ? LENGTH_MAX : 128);

        message.kind = chance_below(chance, 2) == 0 ? (int64_t)chance_edge(chance)
                                                    : (int64_t)chance_below(chance, MESSAGE_COUNT);
        fill_data(&message, chance, length);
        fill_descriptors(traitor, chance, fds, count);
        send_forged(pick_channel(traitor, chance), &message, length, fds, count);
    }
    return NULL;
}

/* One message, valid but for one property. */
const char *attack_wrong_messages(const struct traitor *traitor, struct chance *chance)
{
    static struct forged message;
    size_t kind = chance_below(chance, ARRAY_LENGTH(forms));
    size_t length = forms[kind].data_bytes, count = forms[kind].descriptors;
    bool on_commands = forms[kind].route == ROUTE_COMMANDS || forms[kind].route == ROUTE_REPORTS;
    int fds[DESCRIPTORS_MAX];

    message.kind = (int64_t)kind;
    memset(message.data, 0, length);
    switch (chance_below(chance, 4)) {
    case 0:
        length += chance_below(chance, 2) == 0 ? 1 : LENGTH_MAX - length;
        break;
    case 1:
        length -= length > 0;
        break;
    case 2:
        count = 1 + chance_below(chance, DESCRIPTORS_MAX - 1);
        break;
    default:
        fill_data(&message, chance, length);
        break;
    }
    fill_descriptors(traitor, chance, fds, count);
    send_forged(on_commands ? traitor->commands : traitor->connections, &message,
                sizeof(message.kind) + length, fds, count);
    return NULL;
}

/* A report or a returned connection that nobody asked for. */
const char *attack_unasked_messages(const struct traitor *traitor, struct chance *chance)
{
    static struct forged message;

    for (size_t kind = 0; kind < ARRAY_LENGTH(forms); kind++) {
        int fds[DESCRIPTORS_MAX];

        if (forms[kind].route != ROUTE_REPORTS && forms[kind].route != ROUTE_RETURNS)
            continue;
        if (chance_below(chance, 3) == 0)
            continue;
        message.kind = (int64_t)kind;
        memset(message.data, 0, forms[kind].data_bytes);
        message.data[0] = (unsigned char)chance_below(chance, 4);
        fill_descriptors(traitor, chance, fds, forms[kind].descriptors);
        send_forged(forms[kind].route == ROUTE_REPORTS ? traitor->commands : traitor->connections,
                    &message, sizeof(message.kind) + forms[kind].data_bytes, fds,
                    forms[kind].descriptors);
    }
    return NULL;
}

const char *attack_message_flood(const struct traitor *traitor, struct chance *chance)
{
    static struct forged message = {.kind = MESSAGE_THREADS_RUNNING};
    uint64_t end = attack_end_ns();

    message.data[0] = (unsigned char)chance_below(chance, 4);
    while (clock_monotonic_ns() < end)
        send_forged(traitor->commands, &message,
                    sizeof(message.kind) + sizeof(struct message_threads_running), NULL, 0);
    return NULL;
}

static void drop_descriptor(const struct traitor *traitor, struct msghdr *header)
{
    const struct cmsghdr *rights = CMSG_FIRSTHDR(header);
    int fd;

    if (rights == NULL || rights->cmsg_type != SCM_RIGHTS)
        return;
    memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
    report_connection(traitor, fd);
    close(fd);
}

/* Like a worker that reads commands and connections, and does nothing with them. */
const char *attack_stolen_messages(const struct traitor *traitor, struct chance *chance)
{
    static struct forged message;
    uint64_t end = attack_end_ns() + NS_PER_S;

    while (clock_monotonic_ns() < end) {
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
        struct iovec body = {&message, sizeof(message)};
        struct msghdr header = {.msg_iov = &body,
                                .msg_iovlen = 1,
                                .msg_control = control,
                                .msg_controllen = sizeof(control)};

        if (recvmsg(pick_channel(traitor, chance), &header, MSG_DONTWAIT) > 0)
            drop_descriptor(traitor, &header);
    }
    return NULL;
}

/* shutdown() leaves the descriptor to the event loop of the worker; close() takes it away. */
const char *attack_closed_channel(const struct traitor *traitor, struct chance *chance)
{
    if (chance_below(chance, 2) == 0)
        shutdown(pick_channel(traitor, chance), SHUT_WR);
    else
        close(pick_channel(traitor, chance));
    return NULL;
}
