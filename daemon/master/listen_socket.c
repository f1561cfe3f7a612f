#include "daemon/master/listeners.h"

#include "daemon/base/directory.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Initial limit of unsent bytes in a client's socket (TCP_NOTSENT_LOWAT, tcp(7)). Without it a
 * client that does not read would occupy a megabyte of kernel memory.
 */
enum { UNSENT_BYTES_MAX = 256 * 1024 };

in_port_t listen_socket_port(const struct config_address *address)
{
    if (address->address.ss_family == AF_UNIX)
        return 0;
    return ntohs(address->address.ss_family == AF_INET
                     ? ((const struct sockaddr_in *)&address->address)->sin_port
                     : ((const struct sockaddr_in6 *)&address->address)->sin6_port);
}

static int switch_on(int fd, int level, int option)
{
    const int on = 1;

    return setsockopt(fd, level, option, &on, sizeof(on));
}

/* Closes FD and keeps errno. Returns -1. */
static int close_failed(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
    return -1;
}

static int open_bound(const struct config_address *address, bool reuse_port)
{
    const int off = 0;
    int fd = socket(address->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    /* "*" is one dual-stack socket; a numeric IPv6 address is IPv6 only. */
    if (address->address.ss_family == AF_INET6) {
        if (address->text[0] == '*')
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        else
            switch_on(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    }
    if (switch_on(fd, SOL_SOCKET, SO_REUSEADDR) == 0 &&
        (!reuse_port || switch_on(fd, SOL_SOCKET, SO_REUSEPORT) == 0) &&
        bind(fd, (const struct sockaddr *)&address->address, address->length) == 0)
        return fd;
    return close_failed(fd);
}

/*
 * A bind without SO_REUSEPORT fails if any other process listens there. With it, two servers of one
 * user would silently share a port.
 */
static int probe(const struct config_address *address)
{
    int fd = open_bound(address, false);

    if (fd < 0)
        return -1;
    if (listen(fd, 1) != 0)
        return close_failed(fd);
    close(fd);
    return 0;
}

static bool is_unix_listening(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool listening;

    if (fd < 0)
        return false;
    /* EAGAIN: its queue is full. */
    listening =
        connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN;
    close(fd);
    return listening;
}

/*
 * The file of a UNIX socket remains after its process. Returns 0 if there is none, or a socket that
 * nobody listens on, which bind_unix() replaces, and one can be made; else -1 with WHY.
 */
static int check_unix(const struct sockaddr_un *address, char *why, size_t size)
{
    struct stat status;
    char directory[sizeof(address->sun_path)], *slash;
    const char *problem = NULL;

    snprintf(directory, sizeof(directory), "%s", address->sun_path);
    slash = strrchr(directory, '/');
    if (slash != NULL)
        slash[slash == directory] = '\0';
    if (lstat(address->sun_path, &status) == 0 && !S_ISSOCK(status.st_mode))
        problem = "the file exists and is not a socket";
    else if (is_unix_listening(address))
        problem = "another program listens there";
    else if (slash != NULL && faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) != 0)
        problem = strerror(errno);
    else
        return 0;
    snprintf(why, size, "cannot listen on unix:%s: %s", address->sun_path, problem);
    return -1;
}

/*
 * The socket is open to all users; the permissions of the directory limit access. Returns it, or -1
 * with errno.
 */
static int bind_unix(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct stat status;

    if (fd < 0)
        return -1;
    directory_remove(address->sun_path);
    return directory_bind(fd, address->sun_path, 0666, &status) == 0 ? fd : close_failed(fd);
}

int listen_socket_check(const struct config_address *address, const char *key, char *why,
                        size_t size)
{
    char advice[192] = "";

    if (address->address.ss_family == AF_UNIX)
        return check_unix((const struct sockaddr_un *)&address->address, why, size);
    if (listen_socket_port(address) == 0 || probe(address) == 0)
        return 0;
    if (errno == EADDRINUSE)
        snprintf(
            advice, sizeof(advice),
            " (another program listens there: find it with ss -ltnp, or set %s to another port)",
            key);
    else if (errno == EACCES)
        snprintf(advice, sizeof(advice),
                 " (ports below 1024 need root, CAP_NET_BIND_SERVICE, or a socket of the service "
                 "manager: "
                 "webserverd.socket; or set %s to another port)",
                 key);
    else if (errno == EADDRNOTAVAIL)
        snprintf(advice, sizeof(advice),
                 " (no interface has this address: set %s to one that ip address shows)", key);
    snprintf(why, size, "cannot listen on %s: %s%s", address->text, strerror(errno), advice);
    return -1;
}

/* A UNIX socket can have a name in /proc: directory_bind(). */
static int read_bound_address(int fd, struct config_address *address)
{
    if (address->address.ss_family == AF_UNIX)
        return 0;
    address->length = sizeof(address->address);
    return getsockname(fd, (struct sockaddr *)&address->address, &address->length);
}

int listen_socket_open(struct config_address *address, uint32_t backlog, bool defer)
{
    const unsigned int unsent_max = UNSENT_BYTES_MAX;
    int fd = address->address.ss_family == AF_UNIX
                 ? bind_unix((const struct sockaddr_un *)&address->address)
                 : open_bound(address, true);

    if (fd < 0)
        return -1;
    /* Accepted sockets inherit these options. */
    switch_on(fd, IPPROTO_TCP, TCP_NODELAY);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_max, sizeof(unsent_max));
    if (defer)
        switch_on(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT); /* for one second */
    if (listen(fd, (int)backlog) == 0 && read_bound_address(fd, address) == 0)
        return fd;
    return close_failed(fd);
}

void listen_socket_update(int fd, uint32_t backlog, bool defer)
{
    const int seconds = defer ? 1 : 0;

    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
    listen(fd, (int)backlog);
}

/* In the state LISTEN, tcpi_unacked is the length of the accept queue. */
uint32_t listen_socket_waiting(int fd)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 ? info.tcpi_unacked : 0;
}

void listen_socket_set_text(struct config_address *address)
{
    char host[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->address;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->address;

    if (address->address.ss_family == AF_UNIX)
        snprintf(address->text, sizeof(address->text), "unix:%.107s",
                 ((const struct sockaddr_un *)&address->address)->sun_path);
    else if (address->address.ss_family == AF_INET6)
        snprintf(address->text, sizeof(address->text), "[%s]:%u",
                 inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host)),
                 listen_socket_port(address));
    else
        snprintf(address->text, sizeof(address->text), "%s:%u",
                 inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host)),
                 listen_socket_port(address));
}

void listen_socket_set_configured(struct config_address *address, const char *text)
{
    struct sockaddr_un *path = (struct sockaddr_un *)&address->address;

    snprintf(address->text, sizeof(address->text), "%s", text);
    if (address->address.ss_family == AF_UNIX && strncmp(text, "unix:", 5) == 0)
        snprintf(path->sun_path, sizeof(path->sun_path), "%s", text + 5);
}

void listen_socket_describe(const struct config_address *address, char *text, size_t size)
{
    const char *colon = strrchr(address->text, ':'), *scheme = address->tls ? "https://" : "";

    if (address->address.ss_family == AF_UNIX)
        snprintf(text, size, "%s%s", scheme, address->text);
    else
        snprintf(text, size, "%s%.*s:%u", scheme, (int)(colon - address->text), address->text,
                 listen_socket_port(address));
}

/*
 * A TCP client repeats a dropped SYN after a second. Then the socket is closed and the client gets
 * a reset, or another server listens there.
 */
static void drop_syns(int fd)
{
    enum { FLAGS_OFFSET = 13, SYN = 0x02, SYN_OR_ACK = 0x12 }; /* RFC 9293 section 3.1 */
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_OFFSET),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN_OR_ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

void listen_socket_refuse(const struct config_address *address, int fd)
{
    if (address->address.ss_family == AF_UNIX)
        shutdown(fd, SHUT_RD);
    else
        drop_syns(fd);
}
