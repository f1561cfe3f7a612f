#include "console/data/check.h"

#include "common/clock.h"
#include "common/units.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* The first address without TLS. Returns false if there is none. */
static bool find_plain_address(const struct segment *map, char *address, size_t size)
{
    char text[sizeof(map->header.listening)], *rest = text, *one;

    segment_listening(map, text, sizeof(text));
    while ((one = strsep(&rest, " ")) != NULL)
        if (*one != '\0' && strncmp(one, "https://", strlen("https://")) != 0) {
            snprintf(address, size, "%s", one);
            return true;
        }
    return false;
}

static int connect_to_path(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void set_limits(int fd, int timeout_ms)
{
    const struct timeval limit = {.tv_sec = timeout_ms / 1000,
                                  .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* also of connect() */
}

/* Connects to HOST:PORT; "*" and "[::]" are loopback. Returns -1 with errno. */
static int connect_to_port(const char *address, int timeout_ms)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(address, ':');
    char host[64] = "";
    struct addrinfo *found;
    int fd = -1, error;

    errno = EINVAL;
    if (colon == NULL || (size_t)(colon - address) >= sizeof(host))
        return -1;
    memcpy(host, address, (size_t)(colon - address));
    if (host[0] == '[') { /* of an IPv6 address */
        memmove(host, host + 1, strlen(host));
        host[strcspn(host, "]")] = '\0';
    }
    if (strcmp(host, "*") == 0 || strcmp(host, "0.0.0.0") == 0)
        snprintf(host, sizeof(host), "127.0.0.1");
    else if (strcmp(host, "::") == 0)
        snprintf(host, sizeof(host), "::1");
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -1;
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        set_limits(fd, timeout_ms);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* Returns the status of the response; 0: no HTTP. */
static int exchange(int fd)
{
    static const char request[] =
        "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nUser-Agent: wsctl\r\nConnection: close\r\n\r\n";
    char answer[64] = "";
    size_t length = 0;
    ssize_t got = 1;
    int status = 0;

    if (send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
        return 0;
    while (got > 0 && length < sizeof(answer) - 1) {
        got = recv(fd, answer + length, sizeof(answer) - 1 - length, 0);
        length += got > 0 ? (size_t)got : 0;
    }
    return sscanf(answer, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

int check_request(struct check *check, const struct segment_reader *reader, int timeout_ms,
                  char *why, size_t size)
{
    uint64_t began_ns = clock_monotonic_ns();
    char time[UNITS_TEXT];
    bool local;
    int fd;

    if (!find_plain_address(&reader->map, check->address, sizeof(check->address))) {
        snprintf(why, size, "no listen address without TLS to check: use wsload -n 1 URL");
        return -1;
    }
    local = strncmp(check->address, "unix:", strlen("unix:")) == 0;
    fd = local ? connect_to_path(check->address + strlen("unix:"))
               : connect_to_port(check->address, timeout_ms);
    if (fd < 0) {
        snprintf(why, size, "cannot connect to %s: %s", check->address,
                 errno == EINPROGRESS ? "timed out" : strerror(errno));
        return -1;
    }
    set_limits(fd, timeout_ms);
    check->status = exchange(fd);
    check->ns = clock_monotonic_ns() - began_ns;
    close(fd);
    if (check->status != 0)
        return 0;
    snprintf(why, size, "%s does not answer a request within %s", check->address,
             units_format_time_ms(time, sizeof(time), (uint64_t)timeout_ms));
    return -1;
}
