#include "loadgen/base/descriptors.h"

#include <stdio.h>
#include <sys/resource.h>

enum {
    FOR_THE_PROCESS = 32, /* standard streams, main loop, libraries */
    FOR_A_THREAD = 8,     /* loop, eventfd, libcurl's own */
};

int descriptors_reserve(uint32_t connections, uint32_t threads, char *why, size_t size)
{
    struct rlimit limit;
    uint64_t others = FOR_THE_PROCESS + (uint64_t)FOR_A_THREAD * threads;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= connections + others)
        return 0;
    snprintf(why, size,
             "%u connections do not fit: this user may have %llu files open at one time, which is "
             "enough for %llu; use fewer, or raise the limit (ulimit -Hn)",
             connections, (unsigned long long)limit.rlim_cur,
             (unsigned long long)(limit.rlim_cur > others ? limit.rlim_cur - others : 0));
    return -1;
}
