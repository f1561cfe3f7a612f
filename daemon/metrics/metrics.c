#include "daemon/metrics/metrics.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/memory_file.h"
#include "daemon/base/network.h"
#include "daemon/base/process_title.h"
#include "daemon/base/service.h"
#include "daemon/metrics/answer.h"
#include "daemon/metrics/live.h"
#include "daemon/sandbox/sandbox.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CLIENTS_MAX = 64,         /* a further one takes the place of the oldest one */
    ADDRESS_CLIENTS_MAX = 24, /* the same for those of one address */
    STREAMS_MAX = 8,          /* clients that stay, which must not keep Prometheus out */
    REQUEST_SECONDS = 5,      /* limit for a whole request and its response, or an event */
};

/*
 * A connection: one request, perhaps a wait until its password has been verified, one response,
 * then the end of what the client sends; or events once a second as long as the client takes them.
 */
struct client {
    LIST_ENTRY(client) link;
    struct metrics *metrics;
    int fd;
    struct event *readable, *writable;
    uint32_t age_s; /* grows from the begin, the verdict on the password, or the last event taken */
    bool stream;
    struct login login;
    size_t received;
    char request[ANSWER_REQUEST_MAX];
    char *response; /* NULL: the request is not complete */
    size_t length, sent;
};

struct metrics {
    const struct metrics_setup *setup;
    struct event_base *base;
    struct event *listening[CONFIG_LIST_MAX];
    struct event *master, *second;
    LIST_HEAD(, client) clients;
    uint32_t client_count, stream_count;
    struct verifier *verifier; /* NULL: no password is needed */
    uint32_t failures;         /* failed logins that the master does not know yet */
    uint32_t finishing_s;      /* grows from 1 when the master has closed its end; 0: it has not */
};

/* Clients */

static void free_metrics_client(struct client *client)
{
    struct metrics *metrics = client->metrics;

    LIST_REMOVE(client, link);
    login_cancel(&client->login);
    loop_free_event(client->readable);
    loop_free_event(client->writable);
    close(client->fd);
    metrics->stream_count -= client->stream;
    free(client->response);
    free(client);
    metrics->client_count--;
}

static_assert(ADDRESS_CLIENTS_MAX > STREAMS_MAX + VERIFIER_WAITING_MAX, "one can be closed");

static bool may_be_closed(const struct client *client)
{
    return !client->stream && client->login.verification == NULL;
}

/*
 * For a new client with KEY closes the oldest one of this address or, if there are too many in all,
 * of any address. So slow clients, however many, keep no probe out.
 */
static void make_place(struct metrics *metrics, uint64_t key)
{
    struct client *client, *oldest = NULL, *oldest_of_address = NULL;
    uint32_t count = 0;

    LIST_FOREACH(client, &metrics->clients, link) /* from the newest */
    {
        bool same = key != 0 && client->login.client_key == key;

        count += same;
        if (may_be_closed(client))
            oldest = client;
        if (may_be_closed(client) && same)
            oldest_of_address = client;
    }
    if (count >= ADDRESS_CLIENTS_MAX)
        oldest = oldest_of_address;
    else if (metrics->client_count < CLIENTS_MAX)
        oldest = NULL;
    if (oldest != NULL)
        free_metrics_client(oldest);
}

static bool is_transient(int error)
{
    return error == EAGAIN || error == EINTR;
}

/*
 * Sends what the socket takes. After the last byte the connection stays until the client has closed
 * it, because a close with unread bytes would discard the response.
 */
static void send_response(struct client *client)
{
    ssize_t sent = send(client->fd, client->response + client->sent, client->length - client->sent,
                        MSG_NOSIGNAL);

    if (sent < 0 && !is_transient(errno)) {
        free_metrics_client(client);
        return;
    }
    client->sent += sent > 0 ? (size_t)sent : 0;
    if (client->sent < client->length) {
        event_add(client->writable, NULL);
        return;
    }
    event_del(client->writable);
    if (!client->stream)
        shutdown(client->fd, SHUT_WR);
}

static void on_client_writable(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    send_response(argument);
}

/* Answers, or waits without reading until the password has been verified. */
static void answer_client(struct client *client)
{
    struct metrics *metrics = client->metrics;
    const struct config *config = metrics->setup->config;
    const struct answer_setup setup = {.segment = metrics->setup->segment,
                                       .hosts = config->metrics_hosts,
                                       .streams_full = metrics->stream_count == STREAMS_MAX,
                                       .verifier = metrics->verifier,
                                       .login = &client->login,
                                       .realm = config->metrics_realm};

    switch (answer_request(&setup, client->request, client->received, &client->response,
                           &client->length)) {
    case ANSWER_FAILED:
        free_metrics_client(client);
        return;
    case ANSWER_INCOMPLETE:
        return;
    case ANSWER_WAITING:
        event_del(client->readable);
        return;
    case ANSWER_STREAM:
        client->stream = true;
        metrics->stream_count++;
        break;
    case ANSWER_WHOLE:
        break;
    }
    send_response(client);
}

static void on_verified(struct login *login)
{
    struct client *client = CONTAINER_OF(login, struct client, login);

    client->age_s = 0;
    if (event_add(client->readable, NULL) == 0)
        answer_client(client);
    else
        free_metrics_client(client);
}

/* With a response, what else the client sends is discarded. */
static void on_client_readable(evutil_socket_t fd, short what, void *argument)
{
    struct client *client = argument;
    bool complete = client->response != NULL;
    size_t begin = complete ? 0 : client->received;
    ssize_t got = recv(fd, client->request + begin, sizeof(client->request) - begin, 0);

    (void)what;
    if (got <= 0) {
        if (got == 0 || !is_transient(errno))
            free_metrics_client(client);
        return;
    }
    if (complete)
        return;
    client->received += (size_t)got;
    answer_client(client);
}

/* Returns false if the queue of the listen socket is empty, or without memory. */
static bool accept_metrics_client(struct metrics *metrics, int listen_fd)
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof(peer);
    uint8_t address[NETWORK_ADDRESS_BYTES];
    int fd = accept4(listen_fd, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct client *client = fd >= 0 ? calloc(1, sizeof(*client)) : NULL;

    if (client == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    client->metrics = metrics;
    client->fd = fd;
    network_socket_address(&peer, address);
    client->login = (struct login){.client_key = client_key(address), .resume = on_verified};
    make_place(metrics, client->login.client_key);
    client->readable =
        event_new(metrics->base, fd, EV_READ | EV_PERSIST, on_client_readable, client);
    client->writable =
        event_new(metrics->base, fd, EV_WRITE | EV_PERSIST, on_client_writable, client);
    LIST_INSERT_HEAD(&metrics->clients, client, link);
    metrics->client_count++;
    if (client->readable == NULL || client->writable == NULL ||
        event_add(client->readable, NULL) != 0)
        free_metrics_client(client);
    return true;
}

static void on_metrics_connection(evutil_socket_t listen_fd, short what, void *argument)
{
    (void)what;
    accept_metrics_client(argument, listen_fd);
}

/* Time, and the master */

/* A client whose password is being verified stays. */
static void free_old_clients(struct metrics *metrics)
{
    struct client *client = LIST_FIRST(&metrics->clients), *next;

    for (; client != NULL; client = next) {
        bool answered = client->response != NULL && client->sent == client->length;

        next = LIST_NEXT(client, link);
        if (client->login.verification == NULL &&
            (client->age_s > REQUEST_SECONDS || (metrics->finishing_s > 0 && answered)))
            free_metrics_client(client);
    }
}

/* The next event, for a client that has taken the last one. */
static void send_event(struct client *client)
{
    FILE *out;

    if (client->sent < client->length)
        return;
    free(client->response);
    client->response = NULL;
    out = open_memstream(&client->response, &client->length);
    if (out != NULL)
        live_write(out, client->metrics->setup->segment);
    if (out == NULL || memstream_close(out, &client->response) != 0) {
        free_metrics_client(client);
        return;
    }
    client->sent = 0;
    client->age_s = 0;
    send_response(client);
}

/*
 * When the last process closes a listen socket, the kernel resets the connections that wait in it.
 */
static void stop_listening(struct metrics *metrics)
{
    for (size_t i = 0; i < metrics->setup->listen_count; i++) {
        int fd = metrics->setup->listen_fd[i];

        while (metrics->client_count < CLIENTS_MAX && accept_metrics_client(metrics, fd))
            ;
        loop_free_event(metrics->listening[i]);
        metrics->listening[i] = NULL;
        close(fd);
    }
}

static void finish_if_idle(struct metrics *metrics)
{
    free_old_clients(metrics);
    if (metrics->client_count == 0 || metrics->finishing_s > REQUEST_SECONDS)
        event_base_loopbreak(metrics->base);
}

/*
 * The byte is a sign of life; without room for it the master has enough of them. Its value is a
 * number of failed logins.
 */
static void report_to_master(struct metrics *metrics)
{
    uint8_t failures = metrics->failures < UINT8_MAX ? (uint8_t)metrics->failures : UINT8_MAX;

    if (send(metrics->setup->master_fd, &failures, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
        metrics->failures -= failures;
}

static void on_metrics_second(evutil_socket_t fd, short what, void *argument)
{
    struct metrics *metrics = argument;
    struct client *client, *next;

    (void)fd, (void)what;
    report_to_master(metrics);
    for (client = LIST_FIRST(&metrics->clients); client != NULL; client = next) {
        next = LIST_NEXT(client, link);
        client->age_s++;
        if (client->stream && metrics->finishing_s == 0)
            send_event(client);
    }
    free_old_clients(metrics);
    if (metrics->finishing_s > 0) {
        metrics->finishing_s++;
        finish_if_idle(metrics);
    }
}

/* The master sends nothing: the socket is readable at its end. */
static void on_master_closed(evutil_socket_t fd, short what, void *argument)
{
    struct metrics *metrics = argument;

    (void)fd, (void)what;
    event_del(metrics->master);
    metrics->finishing_s = 1;
    stop_listening(metrics);
    finish_if_idle(metrics);
}

/* The process */

static int enter_metrics_sandbox(const struct metrics_setup *setup)
{
    int keep[CONFIG_LIST_MAX + 1];
    size_t count = 0;
    const struct sandbox_setup sandbox = {.role = SANDBOX_METRICS,
                                          .config = setup->config,
                                          .keep = keep,
                                          .keep_count = setup->listen_count + 1};

    for (size_t i = 0; i < setup->listen_count; i++)
        keep[count++] = setup->listen_fd[i];
    keep[count++] = setup->master_fd;
    return segment_restrict_reader(setup->segment) == 0 ? sandbox_enter(&sandbox) : -1;
}

static int add_events(struct metrics *metrics)
{
    static const struct timeval second = {.tv_sec = 1};
    const struct metrics_setup *setup = metrics->setup;
    const struct config *config = setup->config;
    const struct verifier_setup verifier = {.users = &config->metrics_logins,
                                            .failures_a_minute = config->limits_failed_logins,
                                            .failures = &metrics->failures,
                                            .base = metrics->base};

    metrics->master =
        event_new(metrics->base, setup->master_fd, EV_READ | EV_PERSIST, on_master_closed, metrics);
    metrics->second = event_new(metrics->base, -1, EV_PERSIST, on_metrics_second, metrics);
    if (metrics->master == NULL || event_add(metrics->master, NULL) != 0 ||
        metrics->second == NULL || event_add(metrics->second, &second) != 0)
        return -1;
    if (config->metrics_logins.count > 0 && (metrics->verifier = verifier_start(&verifier)) == NULL)
        return -1;
    for (size_t i = 0; i < setup->listen_count; i++) {
        metrics->listening[i] = event_new(metrics->base, setup->listen_fd[i], EV_READ | EV_PERSIST,
                                          on_metrics_connection, metrics);
        if (metrics->listening[i] == NULL || event_add(metrics->listening[i], NULL) != 0)
            return -1;
    }
    return 0;
}

static void free_all(struct metrics *metrics)
{
    while (!LIST_EMPTY(&metrics->clients))
        free_metrics_client(LIST_FIRST(&metrics->clients));
    for (size_t i = 0; i < metrics->setup->listen_count; i++)
        loop_free_event(metrics->listening[i]);
    if (metrics->verifier != NULL)
        verifier_stop(metrics->verifier);
    loop_free_event(metrics->master);
    loop_free_event(metrics->second);
    event_base_free(metrics->base);
}

/*
 * Runs until the master closes its end of master_fd; then clients that have connected are answered
 * for at most five seconds. Returns the exit status.
 */
static int run_metrics(void *argument)
{
    const struct metrics_setup *setup = argument;
    struct metrics metrics = {.setup = setup};
    int status = EXIT_FAILURE;

    events_set_role(ROLE_METRICS);
    process_title_set_child("metrics");
    events_attach(NULL, 0); /* it has no ring in the segment; the master reports its end */
    signals_ignore_in_child();
    if (enter_metrics_sandbox(setup) != 0)
        return EXIT_FAILURE;
    metrics.base = event_base_new();
    if (metrics.base == NULL)
        return EXIT_FAILURE;
    if (add_events(&metrics) == 0 && event_base_dispatch(metrics.base) == 0)
        status = EXIT_SUCCESS;
    metrics.finishing_s = 1; /* the listen sockets stay as they are */
    free_all(&metrics);
    return status;
}

/* The master's side */

#define LOG_INTERVAL_NS (60 * NS_PER_S)

void metrics_process_start(struct metrics_process *process, struct metrics_setup *setup,
                           void (*after_fork)(void *context), void *context)
{
    const struct child_program program = {run_metrics, setup, after_fork, context};
    int fds[2];

    if (!child_is_due(&process->child, clock_monotonic_ns()))
        return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
        child_report_failure(&process->child);
        return;
    }
    setup->master_fd = fds[1];
    process->fd = fds[0];
    if (child_fork(&process->child, &program) != 0)
        metrics_process_free(process);
    close(fds[1]);
}

void metrics_process_free(struct metrics_process *process)
{
    if (process->fd >= 0)
        close(process->fd);
    process->fd = -1;
}

void metrics_process_release(struct metrics_process *process)
{
    metrics_process_free(process);
    if (process->child.pid != 0) {
        metrics_process_kill(process); /* a process of an earlier release ends now */
        process->leaving = process->child.pid;
        child_forget(&process->child);
    }
    process->child.backoff = (struct backoff){0};
}

void metrics_process_kill(struct metrics_process *process)
{
    if (process->leaving == 0)
        return;
    kill(process->leaving, SIGKILL);
    while (waitpid(process->leaving, NULL, 0) < 0 && errno == EINTR)
        continue;
    process->leaving = 0;
}

/*
 * Each byte is a number of failed logins. Reads at most as much as a few seconds bring; a flood
 * fills only the socket.
 */
static bool hear_process(struct metrics_process *process)
{
    uint8_t bytes[64];
    ssize_t got = recv(process->fd, bytes, sizeof(bytes), 0);
    uint64_t failures = 0;

    for (ssize_t i = 0; i < got; i++)
        failures += bytes[i];
    process->failures += failures;
    metric_add(segment_master(process->segment)->metrics, METRIC_metrics_logins_failed, failures);
    return got > 0;
}

static void log_failed_logins(struct metrics_process *process, uint64_t now_ns)
{
    if (process->failures == 0 ||
        (process->logged_ns != 0 && now_ns - process->logged_ns < LOG_INTERVAL_NS))
        return;
    event_log(LEVEL_WARN, "failed logins on metrics.listen: %" PRIu64, process->failures);
    process->failures = 0;
    process->logged_ns = now_ns;
}

void metrics_process_check(struct metrics_process *process, uint64_t timeout_ms,
                           uint64_t resumed_ns, uint64_t now_ns)
{
    struct child *child = &process->child;

    log_failed_logins(process, now_ns);
    if (child->pid == 0)
        return;
    if (hear_process(process) ||
        child_kill_silent(child, child->heard_ns, timeout_ms, resumed_ns, now_ns))
        child->heard_ns = now_ns;
}

bool metrics_process_ended(struct metrics_process *process, pid_t pid, const char *how)
{
    if (pid == process->leaving) {
        process->leaving = 0;
        return true;
    }
    if (pid != process->child.pid)
        return false;
    metrics_process_free(process);
    child_count_end(&process->child, how);
    child_forget(&process->child);
    return true;
}
