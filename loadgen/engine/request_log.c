#include "loadgen/engine/request_log.h"

#include "common/clock.h"
#include "common/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_BUFFER_BYTES = 256 * 1024, LOG_LINE_MAX = 256 };

#define LOG_HEAD                                                                                   \
    "due_us,begun_us,first_byte_us,end_us,status,bytes,thread,connection,connected,error\n"

/* Writes all LENGTH bytes. Returns 0 or an errno. */
static int write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);

        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0) {
            bytes += n;
            length -= (size_t)n;
        }
    }
    return 0;
}

int request_log_open(const char *file)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    int error = fd >= 0 ? write_all(fd, LOG_HEAD, strlen(LOG_HEAD)) : errno;

    if (error == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

struct request_log *request_log_create(int fd)
{
    struct request_log *log = calloc(1, sizeof(*log));

    if (log == NULL)
        return NULL;
    log->fd = fd;
    log->buffer = malloc(LOG_BUFFER_BYTES);
    if (log->buffer != NULL)
        return log;
    free(log);
    return NULL;
}

static void flush_request_log(struct request_log *log)
{
    int error = write_all(log->fd, log->buffer, log->used);

    if (log->error == 0)
        log->error = error;
    log->used = 0;
}

static char *put_number(char *to, uint64_t number)
{
    to = decimal_put(to, number);
    *to++ = ',';
    return to;
}

static char *put_word(char *to, const char *word)
{
    size_t length = strlen(word);

    memcpy(to, word, length);
    return to + length;
}

void request_log_add(struct request_log *log, const struct request_log_entry *entry,
                     const struct transaction *transaction)
{
    bool complete = !entry->unanswered && transaction->error == ERROR_KIND_NONE;
    char *to;

    if (log->used + LOG_LINE_MAX > LOG_BUFFER_BYTES)
        flush_request_log(log);
    to = log->buffer + log->used;
    to = put_number(to, entry->due_ns / NS_PER_US);
    to = put_number(to, entry->begun_ns / NS_PER_US);
    if (transaction->first_byte_ns > 0)
        to = decimal_put(to, (entry->begun_ns + transaction->first_byte_ns) / NS_PER_US);
    *to++ = ',';
    to = put_number(to, entry->end_ns / NS_PER_US);
    if (complete)
        to = decimal_put(to, transaction->status);
    *to++ = ',';
    to = put_number(to, transaction->head_bytes + transaction->body_bytes);
    to = put_number(to, entry->thread);
    to = put_number(to, entry->connection);
    to = put_number(to, transaction->connected);
    if (!complete)
        to = put_word(to, entry->unanswered ? "unanswered" : error_kind_names[transaction->error]);
    else if (transaction->bad_status || transaction->bad_content)
        to = put_word(to, transaction->bad_status ? "bad_status" : "bad_content");
    *to++ = '\n';
    log->used = (size_t)(to - log->buffer);
}

int request_log_end(struct request_log *log)
{
    int error;

    if (log == NULL)
        return 0;
    flush_request_log(log);
    error = log->error;
    free(log->buffer);
    free(log);
    return error;
}
