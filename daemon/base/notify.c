#include "daemon/base/notify.h"

#include "common/clock.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Returns the length of the address, 0 if there is none. "@name" is an abstract socket. */
static socklen_t find_socket(struct sockaddr_un *address)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path != NULL ? strlen(path) : 0;

    if (length < 2 || length >= sizeof(address->sun_path) || (path[0] != '/' && path[0] != '@'))
        return 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, path, length);
    if (path[0] == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

void notify_send(const char *format, ...)
{
    struct sockaddr_un address;
    socklen_t length = find_socket(&address);
    char text[512];
    va_list arguments;
    int fd, used;

    if (length == 0)
        return;
    va_start(arguments, format);
    used = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (used > 0 && (size_t)used < sizeof(text))
        sendto(fd, text, (size_t)used, MSG_NOSIGNAL, (struct sockaddr *)&address, length);
    close(fd);
}

void notify_reloading(void)
{
    notify_send("RELOADING=1\nMONOTONIC_USEC=%llu",
                (unsigned long long)(clock_monotonic_ns() / NS_PER_US));
}

void notify_alive(void)
{
    const char *pid = getenv("WATCHDOG_PID");

    if (getenv("WATCHDOG_USEC") != NULL && (pid == NULL || atoi(pid) == getpid()))
        notify_send("WATCHDOG=1");
}
