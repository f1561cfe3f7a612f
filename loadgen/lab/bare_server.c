#include "loadgen/lab/bare_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVENTS = 512, HEAD_MAX = 512, REQUEST_MAX = 4096, BACKLOG = 4096 };

struct bare_server {
    pid_t pid;
    uint16_t port;
    int listener, epoll;
    size_t length; /* of the response: a head such as that of webserverd, and a body */
    char *response;
};

/* ---- The process ---- */

static void watch(const struct bare_server *server, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        close(fd);
}

static void accept_all(const struct bare_server *server)
{
    int fd;

    while ((fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
        watch(server, fd);
}

static void respond(const struct bare_server *server, int fd)
{
    static const char connection_close[] = "\r\nConnection: close\r\n";
    char request[REQUEST_MAX];
    ssize_t got = recv(fd, request, sizeof(request), 0);
    bool last = got <= 0 || memmem(request, (size_t)got, connection_close,
                                   sizeof(connection_close) - 1) != NULL;

    if (got > 0 && send(fd, server->response, server->length, MSG_NOSIGNAL) < 0)
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
            if (events[i].data.fd == server->listener)
                accept_all(server);
            else
                respond(server, events[i].data.fd);
        }
    }
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* In its own process group: Ctrl-C reaches only the lab, which then kills the server. */
static _Noreturn void become_server(struct bare_server *server, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_NAME, "bare");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    raise_descriptor_limit();
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(server, server->listener);
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
    server->length = (size_t)head + body;
    return true;
}

static bool listen_on_loopback(struct bare_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    const int on = 1;

    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->listener < 0 ||
        setsockopt(server->listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        bind(server->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(server->listener, BACKLOG) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &length) != 0)
        return false;
    server->port = ntohs(address.sin_port);
    return true;
}

static bool start(struct bare_server *server)
{
    pid_t parent = getpid();

    server->pid = fork();
    if (server->pid == 0)
        become_server(server, parent);
    return server->pid > 0;
}

struct bare_server *bare_server_create(size_t body, char *why, size_t size)
{
    struct bare_server *server = calloc(1, sizeof(*server));

    if (server != NULL) {
        server->listener = -1;
        if (make_response(server, body) && listen_on_loopback(server) && start(server)) {
            close(server->listener);
            server->listener = -1;
            return server;
        }
    }
    snprintf(why, size, "cannot start the bare server: %s", strerror(errno));
    bare_server_destroy(server);
    return NULL;
}

void bare_server_destroy(struct bare_server *server)
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

pid_t bare_server_pid(const struct bare_server *server)
{
    return server->pid;
}

uint16_t bare_server_port(const struct bare_server *server)
{
    return server->port;
}
