#include "daemon/logger/internal.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "common/units.h"
#include "daemon/base/channel.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/process_title.h"
#include "daemon/base/service.h"
#include "daemon/sandbox/sandbox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BUSY_MS = 10,  /* pause after a pass that found lines */
    IDLE_MS = 100, /* longest pause */
    /* A new server waits 5 s for the lock, which an orphaned logger holds. */
    ORPHAN_WAIT_MS = 3000,
    ERROR_WAIT_MS = 500, /* for an error log that takes no lines, at the exit */
};

enum command { CONTINUE, FINISH, ORPHANED /* the master has died */ };

struct logger {
    struct segment *segment;
    struct segment_logger *block;
    const struct salvage *salvage;
    const struct config *config;
    const struct log_targets *targets;
    struct log_owner owner; /* of both logs */
    struct access_log *access;
    struct error_log *error;
    uint32_t *number; /* [LOG_KINDS + targets->count]: of the request that opened the log */
    struct event_base *base;
    struct channel *channel; /* to the master */
    int alive_fd;            /* see struct logger_setup */
    struct event *doorbell, *timer;
    enum command command;
    uint64_t finish_by_ns; /* monotonic clock; until then it tries to write all lines */
    bool last;             /* no other logger follows */
};

/* Messages to and from the master */

/* The master opens it again: the receiver may have been restarted. */
static void on_receiver_lost(void *context, uint32_t log)
{
    struct logger *logger = context;
    const struct message_log message = {log, logger->number[log]};

    channel_send(logger->channel, MESSAGE_LOG_LOST, &message, sizeof(message), -1, false);
}

/* The text that names the log. */
static const char *log_text(const struct logger *logger, uint32_t log)
{
    if (log >= LOG_KINDS)
        return logger->targets->path[log - LOG_KINDS];
    return log == LOG_ACCESS ? logger->config->log_access : logger->config->log_error;
}

/*
 * A log is opened, or opened again after a rotation. The error log comes last, the access log
 * before it.
 */
static void use_log_file(struct logger *logger, const struct message_log *message, int fd)
{
    uint32_t log = message->log;
    struct log_sink sink;

    if (log >= LOG_KINDS + logger->targets->count) {
        close(fd);
        return;
    }
    sink = log_sink_make(log_text(logger, log), fd, logger->config->server_name);
    logger->number[log] = message->number;
    if (log == LOG_ERROR)
        error_log_use(logger->error, &sink);
    else
        access_log_use(logger->access, log == LOG_ACCESS ? 0 : log - LOG_KINDS + 1, &sink);
    if (fd < 0)
        on_receiver_lost(logger, log); /* out of descriptors */
    if (log == LOG_ERROR)
        atomic_store_explicit(&logger->block->logs_done, message->number, memory_order_release);
}

/* A second MESSAGE_LOG_FINISH may shorten the time. */
static void on_message_of_master(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct logger *logger = owner;
    const struct message_log_finish *finish = data;

    (void)length;
    if (kind == MESSAGE_LOG_FILE) {
        use_log_file(logger, data, fd);
    } else if (kind == MESSAGE_LOG_FINISH) {
        logger->command = FINISH;
        logger->last = finish->last != 0;
        logger->finish_by_ns = clock_monotonic_ns() + finish->wait_ms * NS_PER_MS;
    }
}

static void on_death_of_master(void *owner)
{
    struct logger *logger = owner;

    logger->command = ORPHANED;
    logger->last = true;
}

static void on_fault_of_master(void *owner, const char *what)
{
    (void)owner;
    event_log(LEVEL_ERROR, "the master %s: exiting", what);
    _exit(EXIT_FAILURE);
}

/* The loop */

/* Only wakes the loop up. */
static void on_wake_up(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what, (void)argument;
}

/* Waits until a ring is half full, a message comes, or TIMEOUT_MS pass. */
static void wait_for_lines(struct logger *logger, int timeout_ms)
{
    const struct timeval timeout = {.tv_usec = timeout_ms * 1000};

    event_add(logger->timer, &timeout);
    atomic_store_explicit(&logger->block->asleep, 1, memory_order_release);
    event_base_loop(logger->base, EVLOOP_ONCE);
    atomic_store_explicit(&logger->block->asleep, 0, memory_order_release);
}

/* One pass: writes all that can be written now. */
static enum access_log_state write_logs(struct logger *logger)
{
    enum access_log_state state;

    atomic_store_explicit(&logger->block->heartbeat_ns, clock_monotonic_ns(), memory_order_relaxed);
    state = access_log_drain(logger->access);
    error_log_drain(logger->error);
    return state;
}

/* Writes the lines that are left while there is time, and reports those that are lost. */
static void finish_logs(struct logger *logger)
{
    uint64_t lost, until_ns;

    while (write_logs(logger), access_log_unwritten(logger->segment, logger->salvage) > 0 &&
                                   clock_monotonic_ns() < logger->finish_by_ns)
        wait_for_lines(logger, BUSY_MS);
    access_log_finish(logger->access);
    lost = access_log_unwritten(logger->segment, logger->salvage);
    if (lost > 0 && logger->last) {
        metric_add(logger->block->metrics, METRIC_log_lost, lost);
        event_log(LEVEL_ERROR, "%" PRIu64 " %s lost: %s", lost,
                  units_plural(lost, "line of the access log is", "lines of the access log are"),
                  access_log_fault(logger->access));
    }
    error_log_report_suppressed(logger->error);
    until_ns = clock_monotonic_ns() + ERROR_WAIT_MS * NS_PER_MS;
    while (!error_log_drain(logger->error) && clock_monotonic_ns() < until_ns)
        wait_for_lines(logger, BUSY_MS);
}

static void write_until_end(struct logger *logger)
{
    int pause_ms = BUSY_MS;
    char byte;

    while (logger->command == CONTINUE) {
        if (write_logs(logger) != ACCESS_LOG_IDLE)
            pause_ms = BUSY_MS;
        else
            pause_ms = pause_ms * 2 < IDLE_MS ? pause_ms * 2 : IDLE_MS;
        wait_for_lines(logger, pause_ms);
    }
    if (logger->command == ORPHANED) {
        /* The workers exit at once when the master has died, but log their last requests. */
        while (write_logs(logger), read(logger->alive_fd, &byte, sizeof(byte)) != 0)
            usleep(BUSY_MS * 1000);
        logger->finish_by_ns = clock_monotonic_ns() + ORPHAN_WAIT_MS * NS_PER_MS;
    }
    finish_logs(logger);
}

/* Start */

/*
 * The doorbell is edge-triggered and never read: workers share its flags, so that one of them could
 * make a read block.
 */
static int open_logger_loop(struct logger *logger, const struct logger_setup *setup)
{
    const struct channel_owner owner = {.message = on_message_of_master,
                                        .closed = on_death_of_master,
                                        .fault = on_fault_of_master,
                                        .owner = logger};

    logger->base = event_base_new();
    if (logger->base == NULL)
        return -1;
    logger->channel = channel_open(logger->base, setup->command_fd, ROUTE_LOGGING, &owner);
    logger->doorbell =
        event_new(logger->base, setup->doorbell, EV_READ | EV_ET | EV_PERSIST, on_wake_up, logger);
    logger->timer = event_new(logger->base, -1, 0, on_wake_up, logger);
    if (logger->channel == NULL || logger->doorbell == NULL || logger->timer == NULL)
        return -1;
    return event_add(logger->doorbell, NULL);
}

static int set_up_logger(struct logger *logger, const struct logger_setup *setup)
{
    const struct access_log_setup access = {.segment = setup->segment,
                                            .salvage = setup->salvage,
                                            .targets = setup->targets,
                                            .owner = &logger->owner,
                                            .format = (enum log_format)setup->config->log_format,
                                            .sample = setup->config->log_sample};
    const int keep[] = {setup->command_fd, setup->doorbell, setup->alive_fd};
    const struct sandbox_setup sandbox = {.role = SANDBOX_LOGGER,
                                          .config = setup->config,
                                          .keep = keep,
                                          .keep_count = ARRAY_LENGTH(keep)};

    logger->segment = setup->segment;
    logger->block = segment_logger(setup->segment);
    logger->salvage = setup->salvage;
    logger->targets = setup->targets;
    logger->config = setup->config;
    logger->alive_fd = setup->alive_fd;
    logger->owner = (struct log_owner){on_receiver_lost, logger};
    if (segment_restrict_logger(setup->segment) != 0)
        return -1;
    logger->number = calloc(LOG_KINDS + setup->targets->count, sizeof(*logger->number));
    logger->access = access_log_new(&access);
    logger->error = error_log_new(setup->segment, &logger->owner);
    if (logger->number == NULL || logger->access == NULL || logger->error == NULL)
        return -1;
    tzset(); /* the C library reads the time zone once; afterwards no file can be opened */
    if (sandbox_enter(&sandbox) != 0)
        return -1;
    return open_logger_loop(logger, setup);
}

static void free_logger(struct logger *logger)
{
    access_log_free(logger->access);
    error_log_free(logger->error);
    channel_close(logger->channel);
    loop_free_event(logger->doorbell);
    loop_free_event(logger->timer);
    if (logger->base != NULL)
        event_base_free(logger->base);
    free(logger->number);
    free(logger);
}

int logger_run(void *argument)
{
    const struct logger_setup *setup = argument;
    struct logger *logger = calloc(1, sizeof(*logger));
    int failed;

    events_set_role(ROLE_LOGGER);
    events_set_json(setup->config->log_error_format == ERROR_FORMAT_JSON);
    process_title_set_child("logger");
    events_attach(setup->segment, SEGMENT_RING_LOGGER);
    signals_ignore_in_child();
    if (logger == NULL)
        return EXIT_FAILURE;
    failed = set_up_logger(logger, setup);
    if (failed == 0)
        write_until_end(logger);
    else
        event_log(LEVEL_ERROR, "cannot start the logger: %s", strerror(errno));
    free_logger(logger);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
