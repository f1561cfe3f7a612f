#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/tickets.h"
#include "daemon/worker/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* One worker */

/*
 * More than all listen sockets of one worker, or some thousand commands. A worker with so many
 * unread messages hangs.
 */
enum { QUEUED_BYTES_MAX = 8 * 1024 * 1024 };

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

/* Messages of a worker, each checked. One that breaks the protocol is compromised. */

static void on_worker_fault(void *owner, const char *what)
{
    struct worker_process *worker = owner;

    if (worker->state == WORKER_NONE || worker->killed_for != NULL)
        return;
    metric_add(segment_master(&worker->master->segment)->metrics, METRIC_protocol_errors, 1);
    event_log(LEVEL_ERROR, "worker %u (pid %d) %s: killing it", worker->slot, worker->pid, what);
    worker_process_kill(worker, "broke the message protocol");
}

static const char *take_completed_command(struct worker_process *worker,
                                          const struct message_command_done *message)
{
    struct workers *workers = &worker->master->workers;
    uint64_t place = message->number % BROADCASTS_REMEMBERED;

    if (message->number == 0 || message->number > workers->broadcasts)
        return "completed an unknown command";
    if (message->number > worker->broadcasts_done)
        worker->broadcasts_done = message->number;
    if (workers->broadcast[place].number == message->number)
        workers->broadcast[place].affected += message->affected;
    master_changed(worker->master);
    return NULL;
}

static const char *take_threads(struct worker_process *worker,
                                const struct message_threads_running *running)
{
    if (!worker->resizing || running->count == 0 || running->count > worker->threads_sent)
        return "reported threads that it was not sent";
    worker->threads_actual = running->count;
    supervisor_threads_reported(worker);
    return NULL;
}

static const char *take_certificates(struct worker_process *worker,
                                     const struct message_certificates_done *report)
{
    if (worker->certificates_sent == 0 || report->number > worker->certificates_sent)
        return "reported certificates that it was not sent";
    if (report->number == worker->certificates_sent)
        worker->certificates_sent = 0;
    if (!report->done)
        certificates_refused(worker);
    master_changed(worker->master);
    return NULL;
}

/* Each report answers a message to the worker, so a worker cannot flood the master. */
static void on_worker_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker_process *worker = owner;
    const char *fault = NULL;

    (void)length, (void)fd;
    if (channel_received(worker->commands) > channel_sent(worker->commands)) {
        fault = "sent more reports than it received commands";
    } else if (kind == MESSAGE_LISTEN_SOCKET_LOST) {
        const struct message_listen_socket *lost = data;

        if (!supervisor_socket_lost(worker, lost->id))
            fault = "reported an unknown listen socket";
    } else if (kind == MESSAGE_COMMAND_DONE) {
        fault = take_completed_command(worker, data);
    } else if (kind == MESSAGE_THREADS_RUNNING) {
        fault = take_threads(worker, data);
    } else if (kind == MESSAGE_CERTIFICATES_DONE) {
        fault = take_certificates(worker, data);
    } else if (kind == MESSAGE_LEFT && !supervisor_worker_left(worker)) {
        fault = "reported that it left, which it was not asked to do";
    }
    if (fault != NULL)
        channel_fail(worker->commands, fault);
}

static void on_worker_connection(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker_process *worker = owner;
    struct master *master = worker->master;
    const char *fault = NULL;

    if (kind == MESSAGE_CONNECTION) /* the worker has not received it */
        dispatch_again(master, data, length, fd);
    else if (kind == MESSAGE_CONNECTION_RETURNED)
        fault =
            dispatch_returned(master, worker, rebalance_returned(master, worker), data, length, fd);
    else if (kind == MESSAGE_GIVEN)
        fault = rebalance_given(&master->rebalance, worker);
    if (fault != NULL)
        channel_fail(worker->connections, fault);
}

static void on_worker_drained(void *owner)
{
    const struct worker_process *worker = owner;

    dispatch_resume(worker->master);
}

/*
 * The worker's end of `connections` also stays open here, unread. After the worker's death it
 * contains the connections that the worker never received.
 */
static int open_channels_to_worker(struct worker_process *worker, struct event_base *base,
                                   const struct pairs *pairs)
{
    const struct channel_owner commands = {.message = on_worker_report,
                                           .closed = child_ignore_closed,
                                           .drained = on_worker_drained,
                                           .fault = on_worker_fault,
                                           .owner = worker,
                                           .queue_max = QUEUED_BYTES_MAX};
    struct channel_owner connections = commands;

    connections.message = on_worker_connection;
    worker->commands = channel_open(base, pairs->commands[0], ROUTE_REPORTS, &commands);
    worker->connections = channel_open(base, pairs->connections[0], ROUTE_RETURNS, &connections);
    worker->unread = channel_open(base, pairs->connections[1], ROUTE_DISPATCH, &connections);
    if (worker->commands == NULL || worker->connections == NULL || worker->unread == NULL)
        return -1;
    channel_set_reading(worker->unread, false);
    return 0;
}

/* Starting and ending */

static pid_t fork_worker(const struct worker_process *worker, const struct pairs *pairs)
{
    struct master *master = worker->master;
    struct worker_setup setup = {.config = master->config,
                                 .certificates = master->certificates.set,
                                 .tickets = master->certificates.tickets,
                                 .segment = &master->segment,
                                 .slot = worker->slot,
                                 .host_places = master->hosts.place,
                                 .roots = master->roots.fd,
                                 .command_fd = pairs->commands[1],
                                 .connection_fd = pairs->connections[1],
                                 .doorbell = master->auxiliary.doorbell,
                                 .alive_fd = master->auxiliary.alive[1]};
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    close(pairs->commands[0]);
    close(pairs->connections[0]);
    /* Before its first event: readers take the pid from there. */
    atomic_store(&segment_worker_slot(&master->segment, worker->slot)->pid, getpid());
    master_after_fork(master);
    exit(worker_run(&setup));
}

int worker_process_start(struct worker_process *worker)
{
    struct pairs pairs;

    if (open_pairs(&pairs) != 0)
        return -1;
    totals_remember(worker);
    atomic_store_explicit(&segment_worker_slot(&worker->master->segment, worker->slot)->started_ns,
                          clock_wall_ns(), memory_order_relaxed);
    worker->pid = fork_worker(worker, &pairs);
    if (worker->pid < 0) {
        close_both(pairs.commands);
        close_both(pairs.connections);
        return -1;
    }
    close(pairs.commands[1]);
    if (open_channels_to_worker(worker, worker->master->base, &pairs) != 0) {
        kill(worker->pid, SIGKILL);
        worker_process_ended(worker);
        return -1;
    }
    worker->started_ns = worker->answered_ns = clock_monotonic_ns();
    worker->certificates = certificate_set_hold(worker->master->certificates.set);
    worker->keys_links = worker->certificates_sent = 0;
    return 0;
}

void worker_process_kill(struct worker_process *worker, const char *reason)
{
    worker->killed_for = reason;
    channel_set_reading(worker->commands, false);
    channel_set_reading(worker->connections, false);
    kill(worker->pid, SIGKILL);
}

void worker_process_ended(struct worker_process *worker)
{
    channel_close(worker->commands);
    channel_close(worker->connections);
    channel_close(worker->unread);
    worker->commands = worker->connections = worker->unread = NULL;
    worker->pid = 0;
    worker->leaving_ns = worker->broken_ns = 0;
    worker->leave_sent = worker->left = worker->finishing = worker->reported_late = false;
    free(worker->returned_sockets);
    worker->returned_sockets = NULL;
    worker->returned_count = worker->returned_room = 0;
    worker->killed_for = NULL;
    worker->resizing = false; /* the worker may have died before its report */
    certificate_set_free(worker->certificates);
    worker->certificates = NULL;
}

void worker_process_take_connections(struct worker_process *worker)
{
    channel_set_reading(worker->connections, true);
    channel_read_all(worker->connections);
    channel_set_reading(worker->unread, true);
    channel_read_all(worker->unread);
    channel_take_unsent(worker->connections, on_worker_connection);
}

void worker_process_send_threads(struct worker_process *worker)
{
    struct segment *segment = &worker->master->segment;
    const struct message_threads message = {worker->master->config->workers_threads +
                                            MODEL_ACCEPTORS(worker->model)};
    int failed;

    if (worker->resizing || worker->threads_sent == message.count)
        return;
    failed = segment_reserve(segment, worker->slot, message.count);
    if (failed != 0) {
        event_log(LEVEL_ERROR, "no shared memory for another serving thread: %s", strerror(failed));
        return;
    }
    if (message.count > worker->threads_actual)
        segment_use_threads(segment, worker->slot, message.count);
    worker->threads_sent = message.count;
    worker->resizing = true;
    atomic_store_explicit(&segment_worker_slot(segment, worker->slot)->threads_wanted,
                          worker->master->config->workers_threads, memory_order_relaxed);
    channel_send(worker->commands, MESSAGE_THREADS, &message, sizeof(message), -1, false);
}

int worker_process_send_links(struct worker_process *worker)
{
    const struct keys_process *keys = &worker->master->auxiliary.keys;

    if (!certificate_set_is_remote(worker->certificates) || keys->child.pid == 0)
        return 0;
    while (worker->keys_links < worker->threads_sent) {
        const struct message_keys_link message = {worker->keys_links,
                                                  certificate_set_number(worker->certificates)};
        int link = keys_process_link(keys, worker->certificates, worker->slot, worker->pid);

        if (link < 0)
            return -1;
        if (channel_send(worker->commands, MESSAGE_KEYS_LINK, &message, sizeof(message), link,
                         true) != 0) {
            close(link);
            return -1;
        }
        worker->keys_links++;
    }
    return 0;
}

int worker_process_send_certificates(struct worker_process *worker, struct certificate_set *set)
{
    struct message_certificates message;
    int copy = fcntl(certificate_set_file(set, &message), F_DUPFD_CLOEXEC, 0);

    if (copy < 0)
        return -1;
    certificate_set_free(worker->certificates);
    worker->certificates = certificate_set_hold(set);
    worker->keys_links = 0;
    worker_process_send_links(worker); /* what fails is tried again */
    if (channel_send(worker->commands, MESSAGE_CERTIFICATES, &message, sizeof(message), copy,
                     true) != 0) {
        close(copy);
        return -1;
    }
    worker->certificates_sent = message.number;
    return 0;
}

void worker_process_send_memory(const struct worker_process *worker)
{
    const struct message_memory *memory = &worker->master->workers.memory;

    channel_send(worker->commands, MESSAGE_MEMORY, memory, sizeof(*memory), -1, false);
}

void worker_process_send_offload(const struct worker_process *worker)
{
    const struct config_range *wanted = &worker->master->config->workers_offload_threads;
    const struct message_offload message = {wanted->min, wanted->max};

    channel_send(worker->commands, MESSAGE_OFFLOAD, &message, sizeof(message), -1, false);
}

void worker_process_send_give(struct worker_process *worker, const struct message_give *order)
{
    worker->returns_allowed += (uint64_t)order->active + order->idle;
    channel_send(worker->commands, MESSAGE_GIVE, order, sizeof(*order), -1, false);
}

/* It may then return all connections that it has open or that are in its channel. */
void worker_process_send_leave(struct worker_process *worker, enum message_kind kind)
{
    struct rlimit descriptors = {0, 0};

    if (channel_send(worker->connections, (int)kind, NULL, 0, -1, false) != 0)
        return;
    getrlimit(RLIMIT_NOFILE, &descriptors);
    worker->returns_allowed += descriptors.rlim_cur + worker->dispatched;
    worker->leave_sent = true;
}

uint64_t worker_process_in_transit(const struct worker_process *worker,
                                   const struct segment *segment)
{
    const struct segment_worker *block = segment_worker(segment, worker->slot);
    uint64_t received =
        metric_get(block->metrics, METRIC_connections_received) - worker->received_before;

    return received < worker->dispatched ? worker->dispatched - received : 0;
}

uint64_t worker_process_load(const struct worker_process *worker, const struct segment *segment)
{
    const struct segment_worker *block = segment_worker(segment, worker->slot);

    return worker_process_in_transit(worker, segment) +
           atomic_load_explicit(&block->connections_open, memory_order_relaxed);
}

/* The table */

int workers_init(struct master *master)
{
    uint32_t count = segment_count(&master->segment, SEGMENT_WORKERS);
    struct worker_process *worker = calloc(count, sizeof(*worker));

    if (worker == NULL)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        worker[i].master = master;
        worker[i].slot = i;
    }
    master->workers =
        (struct workers){.worker = worker, .count = count, .generation = 1, .generations = 1};
    return totals_init(master);
}

void workers_free(struct workers *workers)
{
    for (uint32_t i = 0; workers->worker != NULL && i < workers->count; i++) {
        channel_close(workers->worker[i].commands);
        channel_close(workers->worker[i].connections);
        channel_close(workers->worker[i].unread);
        free(workers->worker[i].returned_sockets);
        certificate_set_free(workers->worker[i].certificates);
    }
    free(workers->worker);
    free(workers->totals);
    workers->worker = NULL;
    workers->totals = NULL;
    loop_free_event(workers->retry);
    listener_assign_free(&workers->assign);
}

void workers_kill(const struct workers *workers)
{
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].pid > 0)
            kill(workers->worker[i].pid, SIGKILL);
}

/* Which workers */

bool worker_is_serving(const struct worker_process *worker)
{
    return worker->state == WORKER_SERVING;
}

bool worker_is_leaving(const struct worker_process *worker)
{
    return worker->state == WORKER_LEAVING;
}

bool worker_may_accept(const struct worker_process *worker)
{
    return worker->state == WORKER_LEAVING && !worker->left;
}

/* The same, but does not wait for one that hangs. */
static bool is_handing_over(const struct worker_process *worker)
{
    return worker_may_accept(worker) &&
           clock_monotonic_ns() - worker->leaving_ns < HAND_OVER_MS * NS_PER_MS;
}

static bool is_active_worker(const struct worker_process *worker)
{
    return worker->state == WORKER_STARTING || worker->state == WORKER_SERVING;
}

bool worker_is_current(const struct worker_process *worker)
{
    return is_active_worker(worker) && worker->generation == worker->master->workers.generation;
}

bool worker_is_old(const struct worker_process *worker)
{
    return is_active_worker(worker) && worker->generation != worker->master->workers.generation;
}

bool worker_is_old_serving(const struct worker_process *worker)
{
    return worker_is_old(worker) && worker->state == WORKER_SERVING;
}

static bool is_current_serving(const struct worker_process *worker)
{
    return worker_is_current(worker) && worker->state == WORKER_SERVING;
}

static bool is_changing(const struct worker_process *worker)
{
    return worker->state == WORKER_STARTING || worker_is_old(worker) ||
           (worker->resizing && worker->state == WORKER_SERVING);
}

static bool is_alive(const struct worker_process *worker)
{
    return worker->state != WORKER_NONE;
}

uint32_t workers_count(const struct workers *workers, worker_test *test)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < workers->count; i++)
        found += test(&workers->worker[i]);
    return found;
}

struct worker_process *workers_highest(const struct workers *workers, worker_test *test)
{
    for (uint32_t i = workers->count; i-- > 0;)
        if (test(&workers->worker[i]))
            return &workers->worker[i];
    return NULL;
}

/* What is in force */

uint32_t workers_alive(const struct workers *workers)
{
    return workers_count(workers, is_alive);
}

uint32_t workers_threads(const struct workers *workers)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < workers->count; i++)
        if (is_current_serving(&workers->worker[i]) &&
            worker_process_threads(&workers->worker[i]) < least)
            least = worker_process_threads(&workers->worker[i]);
    return least == UINT32_MAX ? 0 : least;
}

bool workers_are_complete(const struct master *master)
{
    const struct workers *workers = &master->workers;

    return workers_count(workers, is_current_serving) >= master->config->workers_processes;
}

bool workers_are_renewed(const struct master *master)
{
    const struct workers *workers = &master->workers;

    return workers_count(workers, is_changing) == 0 &&
           workers_count(workers, is_current_serving) == master->config->workers_processes;
}

static bool awaits_certificates(const struct worker_process *worker)
{
    return worker_is_current(worker) && worker->certificates_sent != 0;
}

bool workers_use_certificates(const struct workers *workers)
{
    return workers_count(workers, awaits_certificates) == 0;
}

bool worker_is_about_to_exit(const struct master *master, const struct worker_process *worker)
{
    const struct segment_worker *block = segment_worker(&master->segment, worker->slot);

    return worker->state == WORKER_LEAVING &&
           (!worker->left ||
            atomic_load_explicit(&block->connections_open, memory_order_relaxed) == 0);
}

bool workers_are_settled(const struct master *master)
{
    for (uint32_t i = 0; i < master->workers.count; i++)
        if (worker_is_about_to_exit(master, &master->workers.worker[i]))
            return false;
    return workers_are_renewed(master);
}

bool workers_cannot_start(const struct master *master, char *why, size_t size)
{
    enum { DEATHS = 3 };
    const struct workers *workers = &master->workers;
    uint32_t wanted = master->config->workers_processes;

    if (workers_count(workers, worker_is_current) >= wanted)
        return false;
    if (workers->start_error == 0 && workers->start_backoff.failures < DEATHS)
        return false;
    snprintf(why, size, "%s%s; %u of %u workers run, and the server tries again",
             workers->start_error != 0 ? "cannot start a worker: "
                                       : "workers end soon after their start, see the error log",
             workers->start_error != 0 ? strerror(workers->start_error) : "",
             workers_alive(workers), wanted);
    return true;
}

bool workers_are_replacing(const struct workers *workers)
{
    return workers_count(workers, worker_is_old) + workers_count(workers, worker_may_accept) > 0;
}

static bool is_unlimited(const struct worker_process *worker)
{
    return worker->state == WORKER_LEAVING && !worker->finishing;
}

uint32_t workers_old_generations(const struct workers *workers)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < workers->count; i++) {
        bool first = is_unlimited(&workers->worker[i]) &&
                     workers->worker[i].generation != workers->generation;

        for (uint32_t j = 0; j < i && first; j++)
            first = !is_unlimited(&workers->worker[j]) ||
                    workers->worker[j].generation != workers->worker[i].generation;
        found += first;
    }
    return found;
}

bool workers_hold_back(const struct workers *workers)
{
    return workers->hold_sockets &&
           workers_count(workers, worker_is_old_serving) + workers_count(workers, is_handing_over) >
               0;
}

/* Commands to all workers */

static void send_to_all(const struct workers *workers, enum message_kind kind, const void *message,
                        size_t size)
{
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].state != WORKER_NONE)
            channel_send(workers->worker[i].commands, (int)kind, message, size, -1, false);
}

void workers_send_tickets(const struct master *master)
{
    struct message_ticket_keys keys;

    tls_tickets_export(master->certificates.tickets, &keys);
    send_to_all(&master->workers, MESSAGE_TICKET_KEYS, &keys, sizeof(keys));
    explicit_bzero(&keys, sizeof(keys));
}

void workers_send_memory(const struct workers *workers)
{
    send_to_all(workers, MESSAGE_MEMORY, &workers->memory, sizeof(workers->memory));
}

void workers_send_balance(const struct master *master)
{
    const struct message_balance message = {master->config->workers_balance_connections};

    send_to_all(&master->workers, MESSAGE_BALANCE, &message, sizeof(message));
}

void workers_send_queue(const struct master *master)
{
    const struct config *config = master->config;
    const struct message_queue message = {config->workers_queue_order, config->workers_queue_full,
                                          config->workers_connection_queue};

    send_to_all(&master->workers, MESSAGE_QUEUE, &message, sizeof(message));
}

void workers_send_offload(const struct workers *workers)
{
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].state != WORKER_NONE)
            worker_process_send_offload(&workers->worker[i]);
}

uint64_t workers_broadcast(struct workers *workers, enum worker_command what, uint64_t value,
                           const char *path)
{
    _Alignas(struct message_command) char buffer[sizeof(struct message_command) + CONTROL_LINE_MAX];
    struct message_command *message = (struct message_command *)buffer;
    size_t path_size = strlen(path) + 1;
    uint64_t number = ++workers->broadcasts;

    message->number = number;
    message->value = value;
    message->what = what;
    memcpy(message->path, path, path_size);
    workers->broadcast[number % BROADCASTS_REMEMBERED].number = number;
    workers->broadcast[number % BROADCASTS_REMEMBERED].affected = 0;
    send_to_all(workers, MESSAGE_COMMAND, message, sizeof(*message) + path_size);
    return number;
}

bool workers_broadcast_is_done(const struct workers *workers, uint64_t number)
{
    for (uint32_t i = 0; i < workers->count; i++)
        if (is_active_worker(&workers->worker[i]) && workers->worker[i].broadcasts_done < number)
            return false;
    return true;
}

uint64_t workers_broadcast_affected(const struct workers *workers, uint64_t number)
{
    return workers->broadcast[number % BROADCASTS_REMEMBERED].number == number
               ? workers->broadcast[number % BROADCASTS_REMEMBERED].affected
               : 0;
}
