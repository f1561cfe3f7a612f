#include "load.h"

#include "patience.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { CLIENTS_MAX = 64, REQUEST_MAX = 512, HEAD_MAX = 4096 };

/*
 * After BURST requests a client pauses, so that all clients together send at most plan.rate a second.
 */
enum { BURST = 2, RATE = 1000 };

struct load {
    struct load_plan plan;
    char request[REQUEST_MAX];
    _Atomic bool finish;
    _Atomic unsigned running;
    _Atomic uint64_t responses, wrong, lost, not_connected, connections;
    pthread_t thread[CLIENTS_MAX];
};

enum outcome_of_request { RIGHT, WRONG, LOST };

static int connect_to(uint16_t port)
{
    static const struct timeval patience = {.tv_sec = PATIENCE_S};
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        /* Not before: see http_client.c. */
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        return fd;
    }
    close(fd);
    return -1;
}

/*
 * Reads one response: its head and exactly the expected body. *CLOSES is set by "Connection:
 * close".
 */
static enum outcome_of_request read_response(int fd, const struct load_plan *plan, char *buffer,
                                             bool *closes)
{
    size_t room = HEAD_MAX + plan->body_length, length = 0;
    const char *end = NULL, *announced;

    while (end == NULL || length < (size_t)(end + 4 - buffer) + plan->body_length) {
        ssize_t got =
            length < room ? TEMP_FAILURE_RETRY(recv(fd, buffer + length, room - length, 0)) : 0;

        if (got <= 0)
            return length < room ? LOST : WRONG;
        length += (size_t)got;
        if (end == NULL)
            end = memmem(buffer, length, "\r\n\r\n", 4);
    }
    announced = memmem(buffer, (size_t)(end + 2 - buffer), "Content-Length: ", 16);
    *closes = memmem(buffer, (size_t)(end + 2 - buffer), "Connection: close\r\n", 19) != NULL;
    if (strncmp(buffer, "HTTP/1.1 200 ", 13) != 0 || announced == NULL ||
        strtoull(announced + 16, NULL, 10) != plan->body_length)
        return WRONG;
    if (length != (size_t)(end + 4 - buffer) + plan->body_length ||
        memcmp(end + 4, plan->body, plan->body_length) != 0)
        return WRONG;
    return RIGHT;
}

/* After "Connection: close" the connection must close without more bytes. */
static bool ends_in_order(int fd)
{
    char byte;

    return TEMP_FAILURE_RETRY(recv(fd, &byte, 1, 0)) == 0;
}

static enum outcome_of_request ask(int fd, struct load *load, char *buffer, bool *closes)
{
    size_t length = strlen(load->request);
    enum outcome_of_request outcome;

    *closes = true;
    if (TEMP_FAILURE_RETRY(send(fd, load->request, length, MSG_NOSIGNAL)) != (ssize_t)length)
        return LOST;
    outcome = read_response(fd, &load->plan, buffer, closes);
    if (outcome == RIGHT && *closes && !ends_in_order(fd))
        return WRONG;
    return outcome;
}

static void count(struct load *load, enum outcome_of_request outcome)
{
    if (outcome == RIGHT)
        atomic_fetch_add(&load->responses, 1);
    else if (outcome == WRONG)
        atomic_fetch_add(&load->wrong, 1);
    else
        atomic_fetch_add(&load->lost, 1);
}

/* Pauses after each burst. SENT is the number of requests of the client. */
static void pace(const struct load *load, unsigned *sent)
{
    if (++*sent % BURST == 0)
        usleep(load->plan.clients * BURST * (1000000U / load->plan.rate));
}

/* Sends requests on one connection until it closes. Returns false if the client should stop. */
static bool use_connection(struct load *load, int fd, char *buffer, unsigned *sent)
{
    enum outcome_of_request outcome = RIGHT;
    bool closes = false;

    while (outcome == RIGHT && !closes && !atomic_load(&load->finish)) {
        outcome = ask(fd, load, buffer, &closes);
        count(load, outcome);
        pace(load, sent);
    }
    return outcome == RIGHT || !load->plan.until_failure;
}

static void *client(void *argument)
{
    struct load *load = argument;
    char *buffer = malloc(HEAD_MAX + load->plan.body_length);
    bool goes_on = buffer != NULL;
    unsigned sent = 0;

    while (goes_on && !atomic_load(&load->finish)) {
        int fd = connect_to(load->plan.port);

        if (fd < 0) {
            atomic_fetch_add(&load->not_connected, 1);
            goes_on = !load->plan.until_failure;
            usleep(1000);
            continue;
        }
        atomic_fetch_add(&load->connections, 1);
        goes_on = use_connection(load, fd, buffer, &sent);
        close(fd);
    }
    free(buffer);
    atomic_fetch_sub(&load->running, 1);
    return NULL;
}

struct load *load_start(const struct load_plan *plan)
{
    struct load *load = calloc(1, sizeof(*load));

    assert_non_null(load);
    assert_in_range(plan->clients, 1, CLIENTS_MAX);
    load->plan = *plan;
    if (plan->rate == 0)
        load->plan.rate = RATE;
    snprintf(load->request, sizeof(load->request), "GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n",
             plan->target, plan->each_connects ? "Connection: close\r\n" : "");
    load->running = plan->clients;
    for (unsigned i = 0; i < plan->clients; i++)
        assert_int_equal(pthread_create(&load->thread[i], NULL, client, load), 0);
    return load;
}

void load_pass(struct load *load, uint64_t responses)
{
    uint64_t wanted = atomic_load(&load->responses) + responses;

    WAIT_UNTIL(atomic_load(&load->responses) >= wanted || atomic_load(&load->running) == 0);
}

struct load_result load_finish(struct load *load)
{
    struct load_result result;

    atomic_store(&load->finish, true);
    for (unsigned i = 0; i < load->plan.clients; i++)
        pthread_join(load->thread[i], NULL);
    result = (struct load_result){load->responses, load->wrong, load->lost, load->not_connected,
                                  load->connections};
    free(load);
    return result;
}

void load_check(const struct load_result *result)
{
    if (result->wrong + result->lost + result->not_connected > 0 || result->responses == 0)
        fail_msg("of the load %" PRIu64 " responses were right, %" PRIu64 " wrong, %" PRIu64
                 " lost; %" PRIu64 " connections failed",
                 result->responses, result->wrong, result->lost, result->not_connected);
}
