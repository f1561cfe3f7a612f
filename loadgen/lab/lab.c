#include "loadgen/lab/lab.h"

#include "common/clock.h"
#include "common/instance.h"
#include "common/units.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/run/run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The bare server ---- */

enum { EVENTS = 512, HEAD_MAX = 512, REQUEST_MAX = 4096, BACKLOG = 4096 };

struct bare_server {
    pid_t pid;
    uint16_t port;
    struct bare_way way;
    int listener, epoll;
    char *response; /* a head such as that of webserverd, and a body */
    size_t head_length, response_length;
};

/* ---- The process ---- */

static void watch_descriptor(const struct bare_server *server, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        close(fd);
}

/* Returns whether the response was sent. */
static bool send_response(const struct bare_server *server, int fd)
{
    size_t first =
        server->way.writes == BARE_ONE_WRITE ? server->response_length : server->head_length;
    int more = server->way.writes == BARE_TWO_CONTINUED ? MSG_MORE : 0;

    return send(fd, server->response, first, MSG_NOSIGNAL | more) >= 0 &&
           (first == server->response_length ||
            send(fd, server->response + first, server->response_length - first, MSG_NOSIGNAL) >= 0);
}

static void do_work(const struct bare_way *way)
{
    uint64_t end_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) + way->work_ns;
    const struct timespec time = {.tv_sec = (time_t)(way->work_ns / NS_PER_S),
                                  .tv_nsec = (long)(way->work_ns % NS_PER_S)};

    if (way->sleeps)
        nanosleep(&time, NULL);
    while (!way->sleeps && clock_read_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
        continue;
}

static void respond(const struct bare_server *server, int fd)
{
    static const char connection_close[] = "\r\nConnection: close\r\n", slow[] = "GET " LAB_SLOW;
    char request[REQUEST_MAX];
    ssize_t got = recv(fd, request, sizeof(request), 0);
    bool last = got <= 0 || memmem(request, (size_t)got, connection_close,
                                   sizeof(connection_close) - 1) != NULL;

    if (got >= (ssize_t)sizeof(slow) && memcmp(request, slow, sizeof(slow) - 1) == 0)
        do_work(&server->way);
    if (got > 0 && !send_response(server, fd))
        last = true;
    if (last)
        close(fd);
}

static _Noreturn void serve(const struct bare_server *server)
{
    struct epoll_event events[EVENTS];

    for (;;) {
        int count = epoll_wait(server->epoll, events, EVENTS, -1);

        for (int i = 0; i < count; i++) {
            int fd;

            if (events[i].data.fd != server->listener)
                respond(server, events[i].data.fd);
            else
                while ((fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
                    watch_descriptor(server, fd);
        }
    }
}

/* In its own process group: Ctrl-C reaches only the lab, which then kills the server. */
static _Noreturn void become_server(struct bare_server *server, pid_t parent)
{
    struct rlimit limit;

    setpgid(0, 0);
    prctl(PR_SET_NAME, "bare");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1UL); /* sleeps last as long as they should */
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch_descriptor(server, server->listener);
    serve(server);
}

/* ---- Starting and stopping ---- */

static bool make_response(struct bare_server *server, size_t body)
{
    int head;

    server->response = malloc(HEAD_MAX + body);
    if (server->response == NULL)
        return false;
    head = snprintf(server->response, HEAD_MAX,
                    "HTTP/1.1 200 OK\r\nServer: bare\r\nDate: Sat, 21 Nov 2026 06:18:30 GMT\r\n"
                    "Content-Length: %zu\r\nContent-Type: text/html; charset=utf-8\r\n"
                    "Last-Modified: Sat, 21 Nov 2026 06:18:30 GMT\r\n"
                    "ETag: \"400-6a0f0d16.1dcd6500-2f0a1b\"\r\nAccept-Ranges: bytes\r\n\r\n",
                    body);
    memset(server->response + head, '.', body);
    server->head_length = (size_t)head;
    server->response_length = (size_t)head + body;
    return true;
}

static bool listen_on_loopback(struct bare_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    const int no_delay = server->way.writes != BARE_TWO_WRITES;

    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->listener < 0 ||
        setsockopt(server->listener, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof(no_delay)) != 0 ||
        bind(server->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(server->listener, BACKLOG) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &length) != 0)
        return false;
    server->port = ntohs(address.sin_port);
    return true;
}

/* SERVER may be NULL. */
static void bare_server_destroy(struct bare_server *server)
{
    if (server == NULL)
        return;
    if (server->listener >= 0)
        close(server->listener);
    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    free(server->response);
    free(server);
}

/* The bodies have BODY bytes. Returns NULL with WHY. */
static struct bare_server *bare_server_create(struct bare_way way, size_t body, char *why,
                                              size_t size)
{
    struct bare_server *server = calloc(1, sizeof(*server));

    if (server != NULL) {
        server->listener = -1;
        server->way = way;
        if (make_response(server, body) && listen_on_loopback(server)) {
            pid_t parent = getpid();

            server->pid = fork();
            if (server->pid == 0)
                become_server(server, parent);
        }
        if (server->pid > 0) {
            close(server->listener);
            server->listener = -1;
            return server;
        }
    }
    snprintf(why, size, "cannot start the bare server: %s", strerror(errno));
    bare_server_destroy(server);
    return NULL;
}

pid_t bare_server_pid(const struct bare_server *server)
{
    return server->pid;
}

uint16_t bare_server_port(const struct bare_server *server)
{
    return server->port;
}

const struct bare_server *lab_bare_server(struct lab *lab, struct bare_way way)
{
    struct bare_server *server;

    if (lab->bare_count == LAB_BARE_SERVERS) {
        lab_fail(lab, "too many bare servers (at most %d)", LAB_BARE_SERVERS);
        return NULL;
    }
    server = bare_server_create(way, LAB_SMALL_BYTES, lab->why, sizeof(lab->why));
    if (server != NULL)
        lab->bare[lab->bare_count++] = server;
    return server;
}

/* ---- Experiments ---- */

static void clear_lab(struct lab *lab)
{
    while (lab->servers > 0)
        private_server_destroy(lab->server[--lab->servers]);
    while (lab->bare_count > 0)
        bare_server_destroy(lab->bare[--lab->bare_count]);
    while (lab->series > 0)
        trials_free(lab->trials[--lab->series]);
    while (lab->allocation_count > 0)
        free(lab->allocation[--lab->allocation_count]);
    if (lab->shows_progress)
        fputs("\r\033[K", stderr);
}

int lab_conduct(struct lab *lab, const struct experiment *experiment, struct document *findings)
{
    uint64_t begun_ns = clock_monotonic_ns();
    char took[UNITS_TEXT];
    int result;

    lab->experiment = experiment->name;
    lab->own = (struct published_own){.count = 0};
    lab->until_ns = 0;
    result = experiment->conduct(lab, findings);
    document_legend(findings, "Took %s.",
                    units_format_age(took, sizeof(took), clock_monotonic_ns() - begun_ns));
    clear_lab(lab);
    return result;
}

int lab_fail(struct lab *lab, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(lab->why, sizeof(lab->why), format, arguments);
    va_end(arguments);
    return -1;
}

bool lab_is_interrupted(struct lab *lab)
{
    if (interrupts_take() > 0)
        lab->interrupted = true;
    return lab->interrupted;
}

void *lab_allocate(struct lab *lab, size_t count, size_t bytes)
{
    void *memory = lab->allocation_count < LAB_ALLOCATIONS ? calloc(count, bytes) : NULL;

    if (memory == NULL) {
        lab_fail(lab, "out of memory");
        return NULL;
    }
    lab->allocation[lab->allocation_count++] = memory;
    return memory;
}

/* ---- Servers ---- */

struct private_server *lab_create_server(struct lab *lab)
{
    struct private_server *server;
    char page[LAB_SMALL_BYTES];

    if (lab->servers == LAB_SERVERS) {
        lab_fail(lab, "too many servers (at most %d)", LAB_SERVERS);
        return NULL;
    }
    server = private_server_create(lab->program, lab->why, sizeof(lab->why));
    if (server == NULL)
        return NULL;
    lab->server[lab->servers++] = server;
    memset(page, '.', sizeof(page));
    return private_server_put(server, LAB_SMALL, page, sizeof(page), lab->why, sizeof(lab->why)) ==
                   0
               ? server
               : NULL;
}

int lab_start(struct lab *lab, struct private_server *server, const char *const *options)
{
    if (lab_is_interrupted(lab))
        return -1;
    return private_server_start(server, options, lab->why, sizeof(lab->why));
}

struct private_server *lab_server(struct lab *lab, const char *const *options)
{
    struct private_server *server = lab_create_server(lab);

    return server != NULL && lab_start(lab, server, options) == 0 ? server : NULL;
}

uint64_t lab_requests(const struct lab *lab, uint64_t whole, uint64_t least)
{
    uint64_t usual_ms = lab->quick ? LAB_TRIAL_QUICK_MS : LAB_TRIAL_MS;
    uint64_t requests = lab->trial_ms < usual_ms ? whole * lab->trial_ms / usual_ms : whole;

    return requests > least ? requests : least;
}

void lab_truncate_log(const struct private_server *server)
{
    char path[PRIVATE_SERVER_PATH + 16];

    snprintf(path, sizeof(path), "%s/access.log", private_server_directory(server));
    if (truncate(path, 0) != 0)
        return; /* the server has no access log, or it was just renamed */
}

int lab_command(struct lab *lab, const struct private_server *server, const char *line)
{
    json_t *answer = private_server_command(server, line, lab->why, sizeof(lab->why));

    json_decref(answer);
    return answer != NULL ? 0 : -1;
}

uint64_t lab_memory(const struct private_server *server)
{
    uint64_t memory = usage_of(private_server_pid(server)).anonymous;
    char segment[INSTANCE_PATH_MAX], path[sizeof(INSTANCE_SHARED_MEMORY) + sizeof(segment)], why[8];
    struct stat file;

    if (instance_find_segment(private_server_name(server), segment, sizeof(segment), why,
                              sizeof(why)) != 0)
        return memory;
    snprintf(path, sizeof(path), "%s%s", INSTANCE_SHARED_MEMORY, segment);
    return stat(path, &file) == 0 ? memory + (uint64_t)file.st_blocks * S_BLKSIZE : memory;
}

void lab_record_value(struct lab *lab, const char *point, const char *label, double value)
{
    struct published_own *own = &lab->own;

    if (own->value_count == PUBLISHED_VALUES_MAX)
        return;
    own->values[own->value_count].point = point;
    own->values[own->value_count].label = label;
    own->values[own->value_count++].value = value;
}

void lab_record_measure(struct lab *lab, const char *point, enum measure measure, double value)
{
    struct published_own *own = &lab->own;

    if (own->count == PUBLISHED_OWN_MAX)
        return;
    snprintf(own->of[own->count].point, PUBLISHED_POINT, "%s", point);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        own->of[own->count].medians.value[i] = i == measure ? value : NAN;
    own->count++;
}

void lab_progress(const struct lab *lab, const char *format, ...)
{
    va_list arguments;

    if (!lab->shows_progress)
        return;
    fprintf(stderr, "\r\033[K%s: ", lab->experiment);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
}
