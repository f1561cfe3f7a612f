/*
 * Preloaded into a server to make the event loops of its serving threads fail: while the file that
 * FAILING_LOOP names begins with a '1', epoll_wait() fails in all threads but the first of a
 * process.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int waiter(int fd, struct epoll_event *events, int most, int timeout);

static const volatile char *setting = "0"; /* the mapped file, which sandboxed children inherit */
static waiter *library_wait;

__attribute__((constructor)) static void map_setting(void)
{
    const char *path = getenv("FAILING_LOOP");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapping = fd >= 0 ? mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (mapping != MAP_FAILED)
        setting = mapping;
    if (fd >= 0)
        close(fd);
    library_wait = (waiter *)dlsym(RTLD_NEXT, "epoll_wait");
}

int epoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
    if (*setting != '1' || gettid() == getpid())
        return library_wait(epfd, events, maxevents, timeout);
    errno = EBADF;
    return -1;
}
