/*
 * Preloaded into a server to move its wall clock: the file that MOVING_CLOCK names has a number of seconds,
 * a 64-bit integer, by which time() and clock_gettime(CLOCK_REALTIME) are ahead in all its processes.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int reader(clockid_t clock, struct timespec *now);

static const volatile int64_t *ahead_s; /* the mapped file, which sandboxed children inherit */
static reader *library_read;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("MOVING_CLOCK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapping =
        fd >= 0 ? mmap(NULL, sizeof(*ahead_s), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (mapping != MAP_FAILED)
        ahead_s = mapping;
    if (fd >= 0)
        close(fd);
}

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    int failed;

    if (library_read == NULL) /* also called before the constructor */
        library_read = (reader *)dlsym(RTLD_NEXT, "clock_gettime");
    failed = library_read(clock_id, tp);
    if (failed == 0 && clock_id == CLOCK_REALTIME && ahead_s != NULL)
        tp->tv_sec += *ahead_s;
    return failed;
}

time_t time(time_t *timer)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (timer != NULL)
        *timer = now.tv_sec;
    return now.tv_sec;
}
