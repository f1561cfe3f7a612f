#include "daemon/logger/sink.h"

#include "common/macros.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

static const char program[] = "webserverd";

static const int priorities[] = {
    [LEVEL_DEBUG] = LOG_DEBUG,
    [LEVEL_INFO] = LOG_INFO,
    [LEVEL_WARN] = LOG_WARNING,
    [LEVEL_ERROR] = LOG_ERR,
};

/* Opening */

static int open_file(const char *path, int fallback)
{
    int fd;

    if (strcmp(path, "-") == 0)
        return fcntl(fallback, F_DUPFD_CLOEXEC, 0);
    /* O_NONBLOCK: the open of a FIFO without a reader fails instead of blocking. */
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    if (fd >= 0)
        fcntl(fd, F_SETFL, O_APPEND);
    return fd;
}

static int open_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, path, strlen(path));
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

int log_sink_open(struct log_sink *sink, const char *text, int fallback, const char *name)
{
    struct log_target target;

    *sink = (struct log_sink){.fd = -1, .name = name};
    if (log_target_parse(text, &target) != NULL) {
        errno = EINVAL;
        return -1;
    }
    sink->kind = target.kind;
    sink->facility = target.facility;
    if (target.kind == LOG_TARGET_OFF)
        return 0;
    sink->fd = target.kind == LOG_TARGET_FILE ? open_file(target.path, fallback)
                                              : open_socket(target.path);
    return sink->fd >= 0 ? 0 : -1;
}

void log_sink_close(struct log_sink *sink)
{
    if (sink->fd >= 0)
        close(sink->fd);
    sink->fd = -1;
}

/* Writing */

/*
 * True if the call can be repeated. Waits for space, because an inherited descriptor may be
 * non-blocking.
 */
static bool wait_for_space(int fd)
{
    struct pollfd space = {.fd = fd, .events = POLLOUT};

    if (errno == EINTR)
        return true;
    return (errno == EAGAIN || errno == EWOULDBLOCK) && poll(&space, 1, -1) >= 0;
}

static size_t write_stream(int fd, const char *bytes, size_t length)
{
    size_t done = 0;

    while (done < length) {
        ssize_t written = write(fd, bytes + done, length - done);

        if (written > 0)
            done += (size_t)written;
        else if (written == 0 || !wait_for_space(fd))
            break;
    }
    return done;
}

static bool send_message(int fd, const struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = count};

    while (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
        if (!wait_for_space(fd))
            return false;
    return true;
}

static struct iovec piece(const char *text, size_t length)
{
    return (struct iovec){(void *)(uintptr_t)text, length};
}

/* RFC 3164 sections 4.1.1 to 4.1.3; without the host name, as usual for a local socket. */
static bool send_syslog(const struct log_sink *sink, enum level level, const char *line,
                        size_t length)
{
    char head[64], when[32];
    time_t now = time(NULL);
    struct tm parts;
    int written;
    struct iovec pieces[2];

    localtime_r(&now, &parts);
    strftime(when, sizeof(when), "%b %e %H:%M:%S", &parts);
    written = snprintf(head, sizeof(head), "<%d>%s %s[%d]: ", sink->facility | priorities[level],
                       when, program, getpid());
    pieces[0] = piece(head, (size_t)written);
    pieces[1] = piece(line, length);
    return send_message(sink->fd, pieces, ARRAY_LENGTH(pieces));
}

/* journald's native protocol: one NAME=value per line. Our values contain no newline. */
static bool send_journald(const struct log_sink *sink, enum level level, const char *line,
                          size_t length)
{
    char head[192];
    int written = snprintf(head, sizeof(head),
                           "PRIORITY=%d\nSYSLOG_IDENTIFIER=%s\nWEBSERVERD_INSTANCE=%s\nMESSAGE=",
                           priorities[level], program, sink->name);
    const struct iovec pieces[] = {piece(head, (size_t)written), piece(line, length),
                                   piece("\n", 1)};

    return send_message(sink->fd, pieces, ARRAY_LENGTH(pieces));
}

static size_t send_lines(const struct log_sink *sink, enum level level, const char *lines,
                         size_t length)
{
    size_t done = 0;

    while (done < length) {
        const char *line = lines + done, *end = memchr(line, '\n', length - done);
        size_t bytes = end != NULL ? (size_t)(end - line) : length - done;
        bool sent = sink->kind == LOG_TARGET_SYSLOG ? send_syslog(sink, level, line, bytes)
                                                    : send_journald(sink, level, line, bytes);

        if (!sent)
            break;
        done += bytes + (end != NULL);
    }
    return done;
}

size_t log_sink_write(struct log_sink *sink, enum level level, const char *lines, size_t length)
{
    switch (sink->kind) {
    case LOG_TARGET_OFF:
        return length;
    case LOG_TARGET_FILE:
        return write_stream(sink->fd, lines, length);
    case LOG_TARGET_SYSLOG:
    case LOG_TARGET_JOURNALD:
        break;
    }
    return send_lines(sink, level, lines, length);
}

static int check_one(const struct config *config, const char *what, const char *target, char *why,
                     size_t size)
{
    struct log_sink sink;

    if (log_sink_open(&sink, target, STDERR_FILENO, config->server_name) == 0) {
        log_sink_close(&sink);
        return 0;
    }
    snprintf(why, size, "cannot open the %s log %s: %s", what, target, strerror(errno));
    return -1;
}

int log_sink_check(const struct config *config, char *why, size_t size)
{
    if (check_one(config, "access", config->log_access, why, size) != 0)
        return -1;
    return check_one(config, "error", config->log_error, why, size);
}
