/*
 * The floor: the lower bound for the cost of a request. An epoll loop that answers each read with
 * fixed bytes. It does not parse, count, log or read the clock. No epoll server that uses read and
 * write can cost less.
 *
 *     bench_floor [-b BODY_BYTES] [-n ANSWERS_A_READ] [-c] [-s] [-t THREADS] [-p PORT]
 *
 * -c closes after each answer; -s sends only a head with status 304; -t gives the same number of
 * connections to each of several threads. Prints its port.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 512, HEAD_MAX = 512, WRITE_MAX = 1024 * 1024, BACKLOG = 4096, THREADS_MAX = 64 };

struct floor {
    int epoll, listener;         /* the thread's; -1: another thread accepts */
    int *epolls;                 /* of all threads */
    int threads, next;           /* number of threads; the one that gets the next connection */
    size_t body, answer, copies; /* bytes in a body; in head and body; answers per read */
    bool close_after, head_only;
    int connections;
    size_t *left; /* indexed by descriptor: unsent bytes of the answer */
    char *bytes;  /* the answers to one read, or the part written by one call */
    size_t written_at_once;
};

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

static size_t write_head(const struct floor *floor, char *to)
{
    int length = snprintf(to, HEAD_MAX,
                          "HTTP/1.1 %s\r\nServer: webserverd\r\nDate: Sat, 21 Nov 2026 06:18:30 "
                          "GMT\r\n%sContent-Length: %zu\r\nContent-Type: text/html; charset=utf-8"
                          "\r\nLast-Modified: Sat, 21 Nov 2026 06:18:30 GMT\r\nETag: "
                          "\"400-6a0f0d16.1dcd6500-2f0a1b\"\r\nAccept-Ranges: bytes\r\n\r\n",
                          floor->head_only ? "304 Not Modified" : "200 OK",
                          floor->close_after ? "Connection: close\r\n" : "", floor->body);

    return (size_t)length;
}

static void prepare(struct floor *floor)
{
    char head[HEAD_MAX];
    size_t length = write_head(floor, head);

    floor->answer = length + (floor->head_only ? 0 : floor->body);
    floor->written_at_once = floor->answer * floor->copies;
    if (floor->written_at_once > WRITE_MAX)
        floor->written_at_once = WRITE_MAX;
    floor->bytes = malloc(floor->written_at_once + HEAD_MAX);
    if (floor->bytes == NULL)
        die("malloc");
    memset(floor->bytes, 'x', floor->written_at_once);
    for (size_t at = 0; at < floor->written_at_once; at += floor->answer)
        memcpy(floor->bytes + at, head, length);
}

static void watch(int epoll, int how, int fd, uint32_t what)
{
    struct epoll_event event = {.events = what, .data.fd = fd};

    if (epoll_ctl(epoll, how, fd, &event) != 0)
        die("epoll_ctl");
}

static void listen_on(struct floor *floor, uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int on = 1;

    floor->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(floor->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(floor->listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* inherited */
    if (bind(floor->listener, (struct sockaddr *)&address, sizeof(address)) != 0)
        die("bind");
    if (listen(floor->listener, BACKLOG) != 0)
        die("listen");
    getsockname(floor->listener, (struct sockaddr *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
}

static void accept_all(struct floor *floor)
{
    int fd;

    while ((fd = accept4(floor->listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= floor->connections)
            close(fd);
        else
            watch(floor->epolls[floor->next++ % floor->threads], EPOLL_CTL_ADD, fd, EPOLLIN);
    }
}

/* Writes the unsent rest of the answers. The content of a long answer does not matter. */
static void answer(const struct floor *floor, int fd, bool waiting)
{
    size_t *left = &floor->left[fd];

    while (*left > 0) {
        size_t most = *left < floor->written_at_once ? *left : floor->written_at_once;
        size_t from = *left == floor->answer * floor->copies ? 0 : floor->written_at_once - most;
        ssize_t sent = send(fd, floor->bytes + from, most, MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN) {
            *left = 0;
            close(fd);
            return;
        }
        if (sent < 0) {
            if (!waiting)
                watch(floor->epoll, EPOLL_CTL_MOD, fd, EPOLLOUT);
            return;
        }
        *left -= (size_t)sent;
    }
    if (floor->close_after)
        close(fd);
    else if (waiting)
        watch(floor->epoll, EPOLL_CTL_MOD, fd, EPOLLIN);
}

static void read_and_answer(const struct floor *floor, int fd)
{
    char buffer[16 * 1024];
    ssize_t got = recv(fd, buffer, sizeof(buffer), 0);

    if (got <= 0) {
        close(fd);
        return;
    }
    floor->left[fd] = floor->answer * floor->copies;
    answer(floor, fd, false);
}

static _Noreturn void serve(struct floor *floor)
{
    struct epoll_event events[EVENTS];

    for (;;) {
        int count = epoll_wait(floor->epoll, events, EVENTS, -1);

        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;

            if (fd == floor->listener)
                accept_all(floor);
            else if (floor->left[fd] > 0)
                answer(floor, fd, true);
            else
                read_and_answer(floor, fd);
        }
    }
}

static void *thread_main(void *argument)
{
    struct floor *floor = argument;

    serve(floor);
}

/* As in webserverd: no thread preempts another. */
static void use_batch_scheduling(void)
{
    static const struct sched_param none = {0};

    sched_setscheduler(0, SCHED_BATCH, &none);
}

/* The first thread is the main thread, and accepts. */
static void start_threads(const struct floor *floor)
{
    static struct floor copies[THREADS_MAX];

    if (floor->threads > 1)
        use_batch_scheduling(); /* inherited */
    for (int i = 1; i < floor->threads; i++) {
        pthread_t id;

        copies[i] = *floor;
        copies[i].epoll = floor->epolls[i];
        copies[i].listener = -1;
        if (pthread_create(&id, NULL, thread_main, &copies[i]) != 0)
            die("pthread_create");
    }
}

/* Allocates an entry for each possible descriptor. */
static void make_table(struct floor *floor)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    floor->connections = limit.rlim_max < 1000000 ? (int)limit.rlim_max : 1000000;
    floor->left = calloc((size_t)floor->connections, sizeof(*floor->left));
    if (floor->left == NULL)
        die("calloc");
}

int main(int argc, char **argv)
{
    static int epolls[THREADS_MAX];
    struct floor floor = {.body = 1024, .copies = 1, .epolls = epolls, .threads = 1};
    uint16_t port = 0;
    int option;

    while ((option = getopt(argc, argv, "b:n:cst:p:")) >= 0) {
        switch (option) {
        case 'b':
            floor.body = strtoul(optarg, NULL, 10);
            break;
        case 'n':
            floor.copies = strtoul(optarg, NULL, 10);
            break;
        case 'c':
            floor.close_after = true;
            break;
        case 's':
            floor.head_only = true;
            break;
        case 't':
            floor.threads = atoi(optarg);
            if (floor.threads < 1 || floor.threads > THREADS_MAX)
                return EXIT_FAILURE;
            break;
        case 'p':
            port = (uint16_t)strtoul(optarg, NULL, 10);
            break;
        default:
            fprintf(stderr,
                    "usage: bench_floor [-b BODY] [-n ANSWERS] [-c] [-s] [-t THREADS] [-p PORT]\n");
            return EXIT_FAILURE;
        }
    }
    make_table(&floor);
    prepare(&floor);
    listen_on(&floor, port);
    for (int i = 0; i < floor.threads; i++)
        epolls[i] = epoll_create1(0);
    floor.epoll = epolls[0];
    watch(floor.epoll, EPOLL_CTL_ADD, floor.listener, EPOLLIN);
    start_threads(&floor);
    serve(&floor);
}
