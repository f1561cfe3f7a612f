#include "common/control_client.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum control_result control_connect(struct control_client *client, const char *path, char *why,
                                    size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error;

    *client = (struct control_client){.fd = -1};
    if (strlen(path) >= sizeof(address.sun_path)) {
        snprintf(why, size, "the socket path '%s' is longer than %zu bytes", path,
                 sizeof(address.sun_path) - 1);
        return CONTROL_NO_DAEMON;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client->fd >= 0 && connect(client->fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return CONTROL_PENDING;
    error = errno;
    control_close(client);
    if (error == EACCES || error == EPERM) {
        snprintf(why, size, "may not use the control socket %s: %s", path, strerror(error));
        return CONTROL_DENIED;
    }
    snprintf(why, size, "no webserverd answers on %s: %s", path, strerror(error));
    return error == EAGAIN ? CONTROL_FAILED : CONTROL_NO_DAEMON;
}

enum control_result control_send(struct control_client *client, const char *line, char *why,
                                 size_t size)
{
    char text[CONTROL_LINE_MAX];
    int length = snprintf(text, sizeof(text), "%s\n", line);

    if (length < 0 || (size_t)length >= sizeof(text) || strchr(line, '\n') != NULL) {
        snprintf(why, size, "the command is longer than %d bytes or has a newline in it",
                 CONTROL_LINE_MAX - 2);
        return CONTROL_FAILED;
    }
    client->length = 0;
    if (send(client->fd, text, (size_t)length, MSG_NOSIGNAL) == length)
        return CONTROL_PENDING;
    snprintf(why, size, "the daemon does not take commands: %s", strerror(errno));
    return CONTROL_FAILED;
}

static bool make_room(struct control_client *client)
{
    size_t room = client->room == 0 ? 16 * 1024 : client->room * 2;
    char *larger;

    if (client->length < client->room)
        return true;
    if (room > CONTROL_REPLY_MAX || (larger = realloc(client->answer, room)) == NULL)
        return false;
    client->answer = larger;
    client->room = room;
    return true;
}

/* One read; CONTROL_PENDING when it brought something or there was nothing. */
static enum control_result take(struct control_client *client, char *why, size_t size)
{
    ssize_t got;

    if (!make_room(client)) {
        snprintf(why, size, "the daemon's answer is longer than %d bytes", CONTROL_REPLY_MAX);
        return CONTROL_FAILED;
    }
    got = recv(client->fd, client->answer + client->length, client->room - client->length, 0);
    if (got > 0) {
        client->length += (size_t)got;
        return CONTROL_PENDING;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return CONTROL_PENDING;
    snprintf(why, size, "the daemon closed the control connection%s%s", got < 0 ? ": " : "",
             got < 0 ? strerror(errno) : "");
    return CONTROL_FAILED;
}

enum control_result control_receive(struct control_client *client, int timeout_ms,
                                    const char **line, char *why, size_t size)
{
    uint64_t deadline = clock_monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;

    for (;;) {
        struct pollfd wait = {.fd = client->fd, .events = POLLIN};
        char *end = client->length > 0 ? memchr(client->answer, '\n', client->length) : NULL;
        uint64_t now = clock_monotonic_ns();
        int left = now < deadline ? (int)((deadline - now + NS_PER_MS - 1) / NS_PER_MS) : 0;

        if (end != NULL) {
            *end = '\0';
            *line = client->answer;
            return CONTROL_REPLY;
        }
        if (poll(&wait, 1, left) > 0) {
            enum control_result result = take(client, why, size);

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
    free(client->answer);
    *client = (struct control_client){.fd = -1};
}
