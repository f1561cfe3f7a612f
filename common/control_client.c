#include "common/control_client.h"

#include "common/clock.h"
#include "common/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Another user may have created a socket in the place of the server's. */
static enum control_result check_peer(struct control_client *client, const char *path, char *why,
                                      size_t size)
{
    struct ucred server = {.uid = (uid_t)-1};
    socklen_t length = sizeof(server);
    char what[INSTANCE_PATH_MAX + 64];

    snprintf(what, sizeof(what), "the server at the control socket %s", path);
    getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &server, &length);
    if (instance_owner_trusted(server.uid, what, why, size))
        return CONTROL_PENDING;
    control_close(client);
    return CONTROL_DENIED;
}

enum control_result control_connect(struct control_client *client, const char *path, char *why,
                                    size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error;

    *client = (struct control_client){.fd = -1};
    if (strlen(path) >= sizeof(address.sun_path)) {
        snprintf(why, size, "the path of the control socket '%s' is longer than %zu bytes", path,
                 sizeof(address.sun_path) - 1);
        return CONTROL_NO_DAEMON;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client->fd >= 0 && connect(client->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return check_peer(client, path, why, size);
    error = errno;
    control_close(client);
    if (error == EACCES || error == EPERM) {
        char needs[128];

        instance_describe_access(path, S_IWGRP, needs, sizeof(needs));
        snprintf(why, size, "cannot connect to the control socket %s: %s (%s)", path,
                 strerror(error), needs);
        return CONTROL_DENIED;
    }
    snprintf(why, size, "no webserverd listens on %s: %s", path, strerror(error));
    return error == EAGAIN ? CONTROL_FAILED : CONTROL_NO_DAEMON;
}

enum control_result control_send(struct control_client *client, const char *line, char *why,
                                 size_t size)
{
    char text[CONTROL_LINE_MAX];
    int length = snprintf(text, sizeof(text), "%s\n", line);

    if (length < 0 || (size_t)length >= sizeof(text) || strchr(line, '\n') != NULL) {
        snprintf(why, size, "the command is longer than %d bytes or contains a newline",
                 CONTROL_LINE_MAX - 2);
        return CONTROL_FAILED;
    }
    client->length = 0;
    if (send(client->fd, text, (size_t)length, MSG_NOSIGNAL) == length)
        return CONTROL_PENDING;
    if (errno == EPIPE || errno == ECONNRESET) /* the server may have sent why it closed */
        return CONTROL_PENDING;
    snprintf(why, size, "cannot send the command: %s", strerror(errno));
    return CONTROL_FAILED;
}

static bool grow_if_full(struct control_client *client)
{
    size_t capacity = client->capacity == 0 ? 16 * 1024 : client->capacity * 2;
    char *larger;

    if (client->length < client->capacity)
        return true;
    if (capacity > CONTROL_REPLY_MAX || (larger = realloc(client->reply, capacity)) == NULL)
        return false;
    client->reply = larger;
    client->capacity = capacity;
    return true;
}

/* One read; CONTROL_PENDING unless it failed. */
static enum control_result read_reply_bytes(struct control_client *client, char *why, size_t size)
{
    ssize_t got;

    if (!grow_if_full(client)) {
        snprintf(why, size, "the server's reply is longer than %d bytes", CONTROL_REPLY_MAX);
        return CONTROL_FAILED;
    }
    got = recv(client->fd, client->reply + client->length, client->capacity - client->length, 0);
    if (got > 0) {
        client->length += (size_t)got;
        return CONTROL_PENDING;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return CONTROL_PENDING;
    snprintf(why, size, "the server closed the control connection%s%s", got < 0 ? ": " : "",
             got < 0 ? strerror(errno) : "");
    return CONTROL_FAILED;
}

enum control_result control_receive(struct control_client *client, int timeout_ms,
                                    const char **line, char *why, size_t size)
{
    uint64_t deadline = clock_monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;

    for (;;) {
        struct pollfd wait = {.fd = client->fd, .events = POLLIN};
        char *end = client->length > 0 ? memchr(client->reply, '\n', client->length) : NULL;
        uint64_t now = clock_monotonic_ns();
        int left = now < deadline ? (int)clock_ceil_ms(deadline - now) : 0;

        if (end != NULL) {
            *end = '\0';
            *line = client->reply;
            return CONTROL_REPLY;
        }
        if (poll(&wait, 1, left) > 0) {
            enum control_result result = read_reply_bytes(client, why, size);

            if (result != CONTROL_PENDING)
                return result;
        } else if (left == 0) {
            return CONTROL_PENDING;
        }
    }
}

void control_close(struct control_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    free(client->reply);
    *client = (struct control_client){.fd = -1};
}
