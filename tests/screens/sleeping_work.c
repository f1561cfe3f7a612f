/*
 * Preloaded into a server: its jobs with work=TIME sleep for that time. CLOCK_THREAD_CPUTIME_ID, by
 * which they measure their work, is the monotonic clock, and reading it takes 1 ms.
 */
#include <dlfcn.h>
#include <time.h>

enum { READ_NS = 1000000 };

typedef int reader(clockid_t clock, struct timespec *now);

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    static const struct timespec pause = {.tv_nsec = READ_NS};
    static reader *library_read;

    if (library_read == NULL)
        library_read = (reader *)dlsym(RTLD_NEXT, "clock_gettime");
    if (clock_id != CLOCK_THREAD_CPUTIME_ID)
        return library_read(clock_id, tp);
    nanosleep(&pause, NULL);
    return library_read(CLOCK_MONOTONIC, tp);
}
