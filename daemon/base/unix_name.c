#include "daemon/base/unix_name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static bool somebody_listens(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool yes;

    if (fd < 0)
        return false;
    /* A full queue is EAGAIN: there is somebody, too. */
    yes = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN;
    close(fd);
    return yes;
}

int unix_name_check(const struct sockaddr_un *address, char *why, size_t size)
{
    struct stat status;

    if (lstat(address->sun_path, &status) != 0)
        return 0;
    if (!S_ISSOCK(status.st_mode)) {
        snprintf(why, size, "cannot listen on unix:%s: a file that is no socket is in the way",
                 address->sun_path);
        return -1;
    }
    if (!somebody_listens(address))
        return 0;
    snprintf(why, size, "cannot listen on unix:%s: another program listens there",
             address->sun_path);
    return -1;
}

int unix_name_bind(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;

    if (fd < 0)
        return -1;
    unlink(address->sun_path); /* checked before: nobody listens there */
    if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
        chmod(address->sun_path, 0666) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}
