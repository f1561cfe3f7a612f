#include "daemon/master/workers.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/messages.h"
#include "daemon/master/slots.h"
#include "daemon/worker/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The two socket pairs of one worker: [0] is the master's end, [1] the worker's. */
struct pairs {
    int commands[2], connections[2];
};

static void close_both(const int fds[2])
{
    close(fds[0]);
    close(fds[1]);
}

static int open_pairs(struct pairs *pairs)
{
    if (channel_pair(pairs->commands) != 0)
        return -1;
    if (channel_pair(pairs->connections) == 0)
        return 0;
    close_both(pairs->commands);
    return -1;
}

static struct channel *open_channel(struct master *master, int fd,
                                    const struct channel_owner *calls,
                                    struct worker_process *worker)
{
    struct channel_owner owner = *calls;

    owner.owner = worker;
    return channel_open(master->base, fd, &owner);
}

/* The worker's end of `connections` stays open here, unread: what a worker leaves in it when it dies
 * are connections that it never saw. */
static int open_channels(struct worker_process *worker, struct master *master,
                         const struct pairs *pairs, const struct worker_process_owner *owner)
{
    worker->commands = open_channel(master, pairs->commands[0], &owner->commands, worker);
    worker->connections = open_channel(master, pairs->connections[0], &owner->connections, worker);
    worker->unread = open_channel(master, pairs->connections[1], &owner->unread, worker);
    if (worker->commands == NULL || worker->connections == NULL || worker->unread == NULL)
        return -1;
    channel_set_reading(worker->unread, false);
    return 0;
}

static pid_t fork_worker(const struct worker_process *worker, struct master *master,
                         const struct pairs *pairs, const struct worker_process_owner *owner)
{
    struct worker_setup setup = {.config = master->config,
                                 .segment = &master->segment,
                                 .slot = worker->slot,
                                 .command_fd = pairs->commands[1],
                                 .connection_fd = pairs->connections[1],
                                 .doorbell = master->doorbell,
                                 .lock_fd = master->runtime.lock_fd};
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    close(pairs->commands[0]);
    close(pairs->connections[0]);
    owner->child(owner->context);
    exit(worker_run(&setup));
}

int worker_process_start(struct worker_process *worker, struct master *master,
                         const struct worker_process_owner *owner)
{
    struct pairs pairs;

    if (open_pairs(&pairs) != 0)
        return -1;
    worker->pid = fork_worker(worker, master, &pairs, owner);
    if (worker->pid < 0) {
        close_both(pairs.commands);
        close_both(pairs.connections);
        return -1;
    }
    close(pairs.commands[1]);
    if (open_channels(worker, master, &pairs, owner) != 0) {
        kill(worker->pid, SIGKILL);
        worker_process_ended(worker);
        return -1;
    }
    worker->started_ns = clock_monotonic_ns();
    return 0;
}

void worker_process_ended(struct worker_process *worker)
{
    channel_close(worker->commands);
    channel_close(worker->connections);
    channel_close(worker->unread);
    worker->commands = worker->connections = worker->unread = NULL;
    worker->pid = 0;
    worker->leaving_ns = 0;
    worker->leave_told = worker->killed = false;
    worker->resizing = false; /* it may have gone before it could report */
}

void worker_process_take_unread(struct worker_process *worker, channel_taker *take)
{
    channel_set_reading(worker->unread, true);
    channel_read_all(worker->unread);
    channel_take_unsent(worker->connections, take);
}

/*
 * While others leave there may be too few slots for a moment: the worker gets what there is, and the
 * next reconciliation asks again.
 */
void worker_process_tell_threads(struct worker_process *worker, struct master *master)
{
    _Alignas(struct message_threads) char
        buffer[sizeof(struct message_threads) + THREADS_MOST * sizeof(uint32_t)];
    struct message_threads *message = (struct message_threads *)buffer;
    struct segment_worker *block = segment_worker(&master->segment, worker->slot);
    uint32_t wanted = master->config->workers_threads;
    int failed;

    if (worker->resizing || worker->threads_sent == wanted)
        return;
    message->count = slots_let(&master->segment, worker->slot, worker->threads_actual, wanted,
                               message->slot, &failed);
    if (failed != 0 && failed != ENOBUFS)
        event_log(LEVEL_ERROR, "no shared memory for another serving thread: %s", strerror(failed));
    if (message->count == worker->threads_sent)
        return;
    worker->threads_sent = message->count;
    worker->resizing = true;
    atomic_store_explicit(&block->threads_wanted, wanted, memory_order_relaxed);
    channel_send(worker->commands, MESSAGE_THREADS, message,
                 sizeof(*message) + message->count * sizeof(uint32_t), -1, false);
}

void worker_process_tell_offload(struct worker_process *worker, struct master *master)
{
    const struct config_range *wanted = &master->config->workers_offload_threads;
    const struct message_offload message = {wanted->least, wanted->most};

    channel_send(worker->commands, MESSAGE_OFFLOAD, &message, sizeof(message), -1, false);
}
