#include "daemon/logger/logger.h"

#include "common/clock.h"
#include "common/log_record.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/signals.h"
#include "daemon/logger/sink.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BATCH_BYTES = 512 * 1024, /* size at which a batch is written; its last line may exceed it */
    BUSY_MS = 10,             /* pause after a pass that found lines */
    IDLE_MS = 100,            /* longest pause */
    QUIET_PASSES = 20,        /* passes without lines after which an orphaned logger exits */
};

struct logger {
    struct segment *segment;
    struct segment_logger *block;
    const struct config *config;
    enum log_format format;
    bool writes_access; /* log.access is not off */
    struct log_sink access, error;
    uint64_t retry_ns; /* when to try to open the access log again, monotonic clock */
    int doorbell, command_fd;
    bool failing; /* the last write or open failed and was logged */
    size_t used, lines;
    size_t done; /* bytes of the batch already written */
    char batch[BATCH_BYTES + LOG_LINE_MAX];
};

/* Cursors */

static uint32_t ring_count(const struct logger *logger)
{
    return segment_count(logger->segment, SEGMENT_RINGS);
}

/* The ring of a reserved slot, else NULL. */
static struct log_ring *ring_at(const struct logger *logger, uint32_t slot)
{
    return segment_slot_reserved(segment_thread_slot(logger->segment, slot))
               ? segment_ring(logger->segment, slot)
               : NULL;
}

static void set_after(struct log_ring *ring, uint64_t position)
{
    atomic_store_explicit(&ring->cursor_after, position, memory_order_relaxed);
}

static uint64_t cursor_of(const struct log_ring *ring)
{
    return atomic_load_explicit(&ring->cursor, memory_order_relaxed);
}

/* Moves each ring's cursor to the end of the batch; if DISCARDED, back to its start. */
static void move_cursors(struct logger *logger, bool discarded)
{
    for (uint32_t i = 0; i < ring_count(logger); i++) {
        struct log_ring *ring = ring_at(logger, i);
        uint64_t after;

        if (ring == NULL)
            continue;
        after = atomic_load_explicit(&ring->cursor_after, memory_order_relaxed);
        if (discarded)
            set_after(ring, cursor_of(ring));
        else
            atomic_store_explicit(&ring->cursor, after, memory_order_release);
    }
}

/* Idempotent: a logger that replaces a dead one may repeat it. */
static void close_batch(struct logger *logger, bool written)
{
    struct segment_logger *block = logger->block;

    if (written) {
        metric_set(block->metrics, METRIC_log_lines,
                   atomic_load_explicit(&block->lines_after, memory_order_relaxed));
        metric_set(block->metrics, METRIC_log_bytes,
                   atomic_load_explicit(&block->bytes_after, memory_order_relaxed));
    }
    move_cursors(logger, !written);
    atomic_store_explicit(&block->batch_open, 0, memory_order_release);
}

/* Writing a batch */

static void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static void record_batch(struct logger *logger, const struct stat *file)
{
    struct segment_logger *block = logger->block;

    store(&block->batch_device, file->st_dev);
    store(&block->batch_inode, file->st_ino);
    store(&block->batch_size_before, (uint64_t)file->st_size);
    store(&block->batch_bytes, logger->used);
    store(&block->lines_after, metric_get(block->metrics, METRIC_log_lines) + logger->lines);
    store(&block->bytes_after, metric_get(block->metrics, METRIC_log_bytes) + logger->used);
    atomic_store_explicit(&block->batch_open, 1, memory_order_release);
}

static void reset_batch(struct logger *logger)
{
    logger->used = logger->lines = logger->done = 0;
}

/*
 * A file is truncated to its size before, and its lines stay in the rings. Bytes sent to a pipe or
 * socket cannot be removed, so the rest of the batch stays here. Logs once per series of failures.
 */
static void write_failed(struct logger *logger, const struct stat *before, int error)
{
    metric_add(logger->block->metrics, METRIC_log_write_errors, 1);
    if (S_ISREG(before->st_mode)) {
        if (ftruncate(logger->access.fd, before->st_size) != 0)
            error = errno;
        close_batch(logger, false);
        reset_batch(logger);
    } else {
        log_sink_close(&logger->access); /* connect again: the receiver may have been restarted */
        logger->retry_ns = clock_monotonic_ns() + NS_PER_S;
    }
    if (!logger->failing)
        event_log(LEVEL_ERROR, "cannot write the access log: %s; its lines stay in memory",
                  strerror(error));
    logger->failing = true;
}

/* Writes the rest of the recorded batch. */
static bool write_rest(struct logger *logger, const struct stat *before)
{
    logger->done += log_sink_write(&logger->access, LEVEL_INFO, logger->batch + logger->done,
                                   logger->used - logger->done);
    if (logger->done < logger->used) {
        write_failed(logger, before, errno);
        return false;
    }
    close_batch(logger, true);
    reset_batch(logger);
    if (logger->failing)
        event_log(LEVEL_INFO, "the access log is writable again");
    logger->failing = false;
    return true;
}

static bool write_batch(struct logger *logger)
{
    struct stat before = {0};

    if (logger->used == 0) { /* no records, or only unreadable ones */
        move_cursors(logger, false);
        return true;
    }
    if (fstat(logger->access.fd, &before) != 0)
        before.st_size = 0;
    record_batch(logger, &before);
    return write_rest(logger, &before);
}

static bool finish_batch(struct logger *logger)
{
    struct stat now = {0};

    if (logger->used == 0)
        return true;
    fstat(logger->access.fd, &now);
    return write_rest(logger, &now);
}

/* Collecting a batch */

static void add_line(struct logger *logger, const uint64_t *words)
{
    struct log_record record;

    if (log_record_unpack(words, &record) != 0)
        return;
    logger->used += log_record_format(logger->format, &record, logger->batch + logger->used);
    logger->lines++;
}

/* Adds the lines of one ring to the batch. Returns false if the batch is full. */
static bool drain_ring(struct logger *logger, struct log_ring *ring)
{
    uint64_t words[LOG_RECORD_WORDS_MAX];
    uint64_t position = cursor_of(ring);
    enum log_ring_result result = LOG_RING_RECORD;

    while (logger->used < BATCH_BYTES && result != LOG_RING_EMPTY) {
        result = log_ring_read(ring, &position, words, LOG_RECORD_WORDS_MAX);
        if (result == LOG_RING_RECORD)
            add_line(logger, words);
        else if (result == LOG_RING_OVERRUN)
            event_log(LEVEL_ERROR, "a log ring is corrupt: access log lines are lost");
    }
    set_after(ring, position);
    return result == LOG_RING_EMPTY;
}

/* Writes the lines of all rings. Returns true if there were any. */
static bool drain_rings(struct logger *logger)
{
    bool some = logger->used > 0, all = false;

    if (!finish_batch(logger))
        return false;
    while (!all) {
        all = true;
        for (uint32_t i = 0; i < ring_count(logger); i++) {
            struct log_ring *ring = ring_at(logger, i);

            if (ring != NULL && all)
                all = drain_ring(logger, ring);
            else if (ring != NULL)
                set_after(ring, cursor_of(ring));
        }
        some = some || logger->lines > 0;
        if (!write_batch(logger))
            return false;
    }
    return some;
}

/* syslog and journald add time and level themselves. */
static void write_event(struct logger *logger, const struct event_record *event)
{
    char line[EVENT_TEXT_BYTES + 80];
    size_t length;

    if (logger->error.kind == LOG_TARGET_FILE)
        length = event_line(event, line, sizeof(line));
    else
        length = event_line_short(event, line, sizeof(line));
    log_sink_write(&logger->error, (enum level)event->level, line, length);
}

static void drain_events(struct logger *logger)
{
    struct event_ring *events = segment_events(logger->segment);
    uint64_t next = atomic_load_explicit(&logger->block->events_next, memory_order_relaxed);
    struct event_record event;
    int result;

    while ((result = event_ring_read(events, &next, clock_wall_ns(), &event)) != 0)
        if (result > 0)
            write_event(logger, &event);
    atomic_store_explicit(&logger->block->events_next, next, memory_order_relaxed);
}

/*
 * Completes the batch that a dead logger recorded. The size of the file shows how much was written;
 * a partial batch is truncated and written again.
 */
static void recover(struct logger *logger)
{
    const struct segment_logger *block = logger->block;
    uint64_t before = atomic_load_explicit(&block->batch_size_before, memory_order_relaxed);
    uint64_t after = before + atomic_load_explicit(&block->batch_bytes, memory_order_relaxed);
    struct stat file;
    bool written, same;

    if (atomic_load_explicit(&block->batch_open, memory_order_acquire) == 0)
        return;
    if (fstat(logger->access.fd, &file) != 0)
        return;
    same = S_ISREG(file.st_mode) &&
           file.st_dev == atomic_load_explicit(&block->batch_device, memory_order_relaxed) &&
           file.st_ino == atomic_load_explicit(&block->batch_inode, memory_order_relaxed);
    written = !S_ISREG(file.st_mode) || (same && (uint64_t)file.st_size >= after);
    if (same && !written && (uint64_t)file.st_size > before &&
        ftruncate(logger->access.fd, (off_t)before) != 0)
        event_log(LEVEL_ERROR, "cannot truncate a partial batch of the access log: %s",
                  strerror(errno));
    close_batch(logger, written);
    event_log(LEVEL_WARN, "the logger died while it wrote a batch of the access log: %s",
              written ? "the batch is complete" : "writing it again");
}

/* The loop */

enum command { CONTINUE, FINISH, ORPHANED /* the master has died */ };

/* Waits until a ring is half full, the master sends its byte, or TIMEOUT_MS pass. */
static enum command wait_for_work(struct logger *logger, int timeout_ms)
{
    struct pollfd watched[] = {{.fd = logger->command_fd, .events = POLLIN},
                               {.fd = logger->doorbell, .events = POLLIN}};
    enum command command = CONTINUE;
    eventfd_t rings;
    char byte;

    atomic_store_explicit(&logger->block->asleep, 1, memory_order_release);
    if (poll(watched, 2, timeout_ms) > 0) {
        if (watched[1].revents & POLLIN)
            eventfd_read(logger->doorbell, &rings);
        if (watched[0].revents != 0)
            command = read(logger->command_fd, &byte, 1) > 0 ? FINISH : ORPHANED;
    }
    atomic_store_explicit(&logger->block->asleep, 0, memory_order_release);
    return command;
}

/* Opens the access log if it is closed, at most once a second. Returns false if it stays closed. */
static bool access_is_open(struct logger *logger)
{
    const struct config *config = logger->config;
    uint64_t now = clock_monotonic_ns();

    if (logger->access.fd >= 0)
        return true;
    if (now < logger->retry_ns)
        return false;
    if (log_sink_open(&logger->access, config->log_access, STDOUT_FILENO, config->server_name) ==
        0) {
        if (logger->used == 0)
            recover(logger);
        return true;
    }
    if (!logger->failing)
        event_log(LEVEL_ERROR, "cannot open the access log %s: %s; its lines stay in memory",
                  config->log_access, strerror(errno));
    logger->failing = true;
    logger->retry_ns = now + NS_PER_S;
    return false;
}

/* Falls back to standard error. */
static void open_error_log(struct logger *logger)
{
    const struct config *config = logger->config;

    if (log_sink_open(&logger->error, config->log_error, STDERR_FILENO, config->server_name) == 0)
        return;
    event_log(LEVEL_ERROR, "cannot open the error log %s: %s; using standard error",
              config->log_error, strerror(errno));
    if (log_sink_open(&logger->error, "-", STDERR_FILENO, config->server_name) != 0)
        logger->error.kind = LOG_TARGET_OFF;
}

/*
 * Reopens the files after a rotation. No line is lost, because lines stay in the rings until they
 * are in a file.
 */
static void reopen_if_wanted(struct logger *logger)
{
    uint32_t wanted =
        atomic_load_explicit(&segment_master(logger->segment)->logs_wanted, memory_order_acquire);

    if (wanted == atomic_load_explicit(&logger->block->logs_done, memory_order_relaxed))
        return;
    log_sink_close(&logger->access);
    logger->retry_ns = 0;
    if (logger->writes_access)
        access_is_open(logger);
    log_sink_close(&logger->error);
    open_error_log(logger);
    atomic_store_explicit(&logger->block->logs_done, wanted, memory_order_release);
}

/* One pass: writes all that can be written now. Returns true if there were access log lines. */
static bool drain(struct logger *logger)
{
    bool some;

    atomic_store_explicit(&logger->block->heartbeat_ns, clock_monotonic_ns(), memory_order_relaxed);
    reopen_if_wanted(logger);
    some = logger->writes_access && access_is_open(logger) && drain_rings(logger);
    drain_events(logger);
    return some;
}

static void serve(struct logger *logger)
{
    int pause_ms = BUSY_MS, quiet = 0;
    enum command command = CONTINUE;

    while (command == CONTINUE) {
        bool some = drain(logger);

        pause_ms = some ? BUSY_MS : pause_ms * 2 < IDLE_MS ? pause_ms * 2 : IDLE_MS;
        command = wait_for_work(logger, pause_ms);
    }
    /* Workers may still log their last requests. */
    while (command == ORPHANED && quiet < QUIET_PASSES) {
        quiet = drain(logger) ? 0 : quiet + 1;
        usleep(BUSY_MS * 1000);
    }
    drain(logger);
}

/*
 * Runs until the master sends the byte, or until the master has died and no more lines come.
 * Returns the exit status.
 */
static int run(const struct logger_setup *setup)
{
    struct logger *logger = calloc(1, sizeof(*logger));

    events_set_role(ROLE_LOGGER);
    signals_ignore_in_child();
    if (logger == NULL)
        return EXIT_FAILURE;
    memset(
        logger->batch, 0,
        sizeof(
            logger
                ->batch)); /* allocates the pages now, so that memory does not grow with the load */
    logger->segment = setup->segment;
    logger->block = segment_logger(setup->segment);
    logger->doorbell = setup->doorbell;
    logger->command_fd = setup->command_fd;
    logger->access.fd = -1;
    logger->config = setup->config;
    logger->format = (enum log_format)setup->config->log_format;
    logger->writes_access = strcmp(setup->config->log_access, "off") != 0;
    open_error_log(logger);
    serve(logger);
    log_sink_close(&logger->access);
    log_sink_close(&logger->error);
    free(logger);
    return EXIT_SUCCESS;
}

/* The master's side */

/* FDS[1] is the child's end. Returns the child's pid, or -1 with errno. */
static pid_t fork_logger(struct logger_setup *setup, const int fds[2],
                         void (*after_fork)(void *context), void *context)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    close(fds[0]);
    after_fork(context);
    setup->command_fd = fds[1];
    exit(run(setup));
}

void logger_process_start(struct logger_process *process, struct logger_setup *setup,
                          void (*after_fork)(void *context), void *context)
{
    uint64_t now = clock_monotonic_ns();
    int fds[2];

    if (process->pid != 0 || process->stopped || !backoff_over(&process->backoff, now))
        return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        backoff_count(&process->backoff, 0, now);
        return;
    }
    process->pid = fork_logger(setup, fds, after_fork, context);
    close(fds[1]);
    if (process->pid > 0) {
        process->fd = fds[0];
        process->started_ns = now;
        atomic_store_explicit(&segment_logger(setup->segment)->pid, process->pid,
                              memory_order_relaxed);
        return;
    }
    event_log(LEVEL_ERROR, "cannot start the logger: %s", strerror(errno));
    close(fds[0]);
    process->pid = 0;
    backoff_count(&process->backoff, 0, now);
}

void logger_process_ended(struct logger_process *process, struct segment *segment, const char *how)
{
    uint64_t now = clock_monotonic_ns();

    close(process->fd);
    process->fd = -1;
    process->pid = 0;
    atomic_store_explicit(&segment_logger(segment)->pid, 0, memory_order_relaxed);
    if (process->stopped || process->restarting) {
        process->restarting = false;
        return;
    }
    backoff_count(&process->backoff, now - process->started_ns, now);
    event_log(LEVEL_ERROR, "the logger %s: starting another%s", how,
              process->backoff.failures > 1 ? " after a delay: it keeps failing" : "");
}

static void send_stop(struct logger_process *process)
{
    if (process->pid > 0 && send(process->fd, "s", 1, MSG_NOSIGNAL) != 1)
        kill(process->pid, SIGKILL);
}

void logger_process_restart(struct logger_process *process)
{
    process->restarting = process->pid > 0;
    send_stop(process);
}

void logger_process_stop(struct logger_process *process)
{
    process->stopped = true;
    send_stop(process);
}
