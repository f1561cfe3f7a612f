#include "daemon/logger/internal.h"

#include "common/clock.h"
#include "common/macros.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
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

/* The level of an event is whatever its writer, perhaps a compromised worker, stored. */
static int priority_of(enum level level)
{
    return (unsigned)level < ARRAY_LENGTH(priorities) ? priorities[level] : LOG_ERR;
}

struct log_sink log_sink_make(const char *text, int fd, const char *name)
{
    struct log_sink sink = {.kind = LOG_TARGET_OFF, .fd = fd, .instance = name};
    struct log_target target;
    struct stat status = {0};

    if (log_target_parse(text, &target) == NULL) {
        sink.kind = target.kind;
        sink.syslog_facility = target.syslog_facility;
    }
    if (fd >= 0 && fstat(fd, &status) == 0) {
        sink.regular = S_ISREG(status.st_mode);
        sink.pipe = S_ISFIFO(status.st_mode);
        sink.socket = S_ISSOCK(status.st_mode);
    }
    return sink;
}

bool log_sink_is_open(const struct log_sink *sink)
{
    return sink->fd >= 0 && !sink->lost;
}

void log_sink_close(struct log_sink *sink)
{
    if (sink->fd >= 0)
        close(sink->fd);
    sink->fd = -1;
}

/* Writing */

bool log_sink_wait(int fd, uint64_t until_ns)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    uint64_t now = clock_monotonic_ns();

    if (errno == EINTR)
        return true;
    if (errno != EAGAIN)
        return false;
    if (now < until_ns && poll(&room, 1, (int)((until_ns - now) / NS_PER_MS) + 1) > 0)
        return true;
    errno = EAGAIN;
    return false;
}

/*
 * The flags of an inherited descriptor are shared with other processes, which rely on them, so it
 * may be a blocking one. A pipe or terminal that polls as writable takes PIPE_BUF bytes.
 */
static ssize_t write_some(const struct log_sink *sink, const char *bytes, size_t length)
{
    struct pollfd room = {.fd = sink->fd, .events = POLLOUT};

    if (sink->regular)
        return write(sink->fd, bytes, length);
    if (sink->socket)
        return send(sink->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (poll(&room, 1, 0) > 0)
        return write(sink->fd, bytes, length < PIPE_BUF ? length : PIPE_BUF);
    errno = EAGAIN;
    return -1;
}

static size_t write_stream(const struct log_sink *sink, const char *bytes, size_t length)
{
    size_t done = 0;

    while (done < length) {
        ssize_t written = write_some(sink, bytes + done, length - done);

        if (written > 0)
            done += (size_t)written;
        else if (written == 0 || errno != EINTR)
            break;
    }
    return done;
}

static bool send_message(int fd, const struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces, .msg_iovlen = count};

    while (sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return false;
    return true;
}

static struct iovec text_piece(const char *text, size_t length)
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
    written =
        snprintf(head, sizeof(head), "<%d>%s %s[%d]: ", sink->syslog_facility | priority_of(level),
                 when, program, getpid());
    pieces[0] = text_piece(head, (size_t)written);
    pieces[1] = text_piece(line, length);
    return send_message(sink->fd, pieces, ARRAY_LENGTH(pieces));
}

/* journald's native protocol: one NAME=value per line. Our values contain no newline. */
static bool send_journald(const struct log_sink *sink, enum level level, const char *line,
                          size_t length)
{
    char head[192];
    int written = snprintf(head, sizeof(head),
                           "PRIORITY=%d\nSYSLOG_IDENTIFIER=%s\nWEBSERVERD_INSTANCE=%s\nMESSAGE=",
                           priority_of(level), program, sink->instance);
    const struct iovec pieces[] = {text_piece(head, (size_t)written), text_piece(line, length),
                                   text_piece("\n", 1)};

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
        return write_stream(sink, lines, length);
    case LOG_TARGET_SYSLOG:
    case LOG_TARGET_JOURNALD:
        break;
    }
    return send_lines(sink, level, lines, length);
}
