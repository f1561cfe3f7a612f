/*
 * A web server that forks a process for each connection:
 *
 *     fork [-p PORT] [-n NAME] DIRECTORY
 *
 * Each child takes a worker slot of the board at its first call and frees it when it exits. There
 * are WSBOARD_WORKERS slots; further children at the same time serve, but are not shown.
 */
#define WSBOARD_IMPLEMENTATION
#define WSBOARD_WORKERS 64
#define WSBOARD_THREADS 1
#include "wsboard.h"

#include <arpa/inet.h>
#include <sys/wait.h>

static const char *root;

static void send_text(int socket, const char *text)
{
    if (send(socket, text, strlen(text), MSG_NOSIGNAL) < 0)
        exit(1); /* the client has gone */
}

static void send_file(int socket, const char *path)
{
    char bytes[16384];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t sent = 0;
    ssize_t got;

    if (fd < 0) {
        send_text(socket, "HTTP/1.0 404 Not Found\r\n\r\nnot found\n");
        board_end(404, 10);
        return;
    }
    send_text(socket, "HTTP/1.0 200 OK\r\n\r\n");
    while ((got = read(fd, bytes, sizeof(bytes))) > 0 &&
           send(socket, bytes, (size_t)got, MSG_NOSIGNAL) == got)
        sent += (uint64_t)got;
    close(fd);
    board_end(200, sent);
}

static void serve(int socket)
{
    char head[4096], target[256], path[768];
    ssize_t length;

    board_state(BOARD_READ);
    length = recv(socket, head, sizeof(head) - 1, 0); /* a short request comes at once */
    if (length <= 0)
        return;
    head[length] = '\0';
    board_begin(head, (size_t)length);
    if (sscanf(head, "GET %255s", target) == 1 && strstr(target, "..") == NULL) {
        snprintf(path, sizeof(path), "%s%s%s", root, target,
                 target[strlen(target) - 1] == '/' ? "index.html" : "");
        send_file(socket, path);
    } else {
        send_text(socket, "HTTP/1.0 400 Bad Request\r\n\r\nbad request\n");
        board_end(400, 12);
    }
}

static void stop(int signal)
{
    (void)signal;
    board_close();
    _exit(0);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *name = "fork";
    int option, port = 8082, on = 1, listener, socket_;

    while ((option = getopt(argc, argv, "p:n:")) != -1) {
        if (option == 'p')
            port = atoi(optarg);
        else if (option == 'n')
            name = optarg;
    }
    if (optind != argc - 1) {
        fprintf(stderr, "usage: fork [-p PORT] [-n NAME] DIRECTORY\n");
        return 2;
    }
    root = argv[optind];
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    address.sin_port = htons((uint16_t)port);
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 128) != 0) {
        perror("fork: cannot listen");
        return 1;
    }
    if (board_open(name, port) != 0)
        perror("fork: no board");
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    board_name("acceptor");
    for (;;) {
        board_state(BOARD_ACCEPT);
        socket_ = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (socket_ >= 0 && fork() == 0) {
            board_connection(1);
            serve(socket_);
            board_connection(-1);
            exit(0);
        }
        close(socket_);
    }
}
