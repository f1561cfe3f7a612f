#include "daemon/master/capacity.h"

#include "common/segment_writer.h"
#include "daemon/master/listeners.h"
#include "daemon/master/slots.h"
#include "daemon/worker/context.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
    FIXED_DESCRIPTORS = 48, /* standard streams, logs, sockets, loop, and some to work with */
    LEAST_CONNECTIONS = 8,  /* of a worker, where the limit is so low */
};

static int reserve_workers(struct segment *segment, uint32_t count)
{
    int failed = 0;

    for (uint32_t i = 0; i < count && failed == 0; i++)
        failed = segment_reserve_worker(segment, i);
    return failed;
}

/* Loops, mailboxes and lanes of so many threads, and some for files. */
static uint64_t descriptors_of_worker(const struct master *master, uint32_t threads)
{
    return FIXED_DESCRIPTORS + threads * (2 + 2 * master->config->server_listen.count);
}

uint64_t capacity_of_worker(const struct master *master, const struct rlimit *limit)
{
    uint64_t own = descriptors_of_worker(master, master->config->workers_threads) +
                   site_descriptors_for_cache(limit);

    return own + LEAST_CONNECTIONS < limit->rlim_cur ? limit->rlim_cur - own : LEAST_CONNECTIONS;
}

/*
 * Descriptors that one process will need at the least: loops, mailboxes and lanes of a worker's
 * threads, the lanes and channels of the master, and some for clients and files.
 */
static uint64_t descriptors_needed(const struct master *master, uint32_t count, uint32_t threads)
{
    uint64_t addresses = master->config->server_listen.count;
    uint64_t of_worker = descriptors_of_worker(master, threads);
    uint64_t of_master = FIXED_DESCRIPTORS + 2 * (uint64_t)count + addresses * count * threads;

    return of_worker > of_master ? of_worker : of_master;
}

static int check_descriptors(const struct master *master, uint32_t count, uint32_t threads,
                             char *why, size_t size)
{
    uint64_t needed = descriptors_needed(master, count, threads);
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return 0;
    snprintf(why, size,
             "%u workers with %u threads each need %" PRIu64
             " descriptors in a process, and %" PRIu64 " are allowed (raise the limit: ulimit -n)",
             count, threads, needed, (uint64_t)limit.rlim_cur);
    return -1;
}

int capacity_prepare(struct master *master, uint32_t count, uint32_t threads, char *why,
                     size_t size)
{
    uint32_t slots = segment_count(&master->segment, SEGMENT_WORKERS);
    uint32_t room = segment_count(&master->segment, SEGMENT_THREADS);
    int failed;

    if (count > slots) {
        snprintf(why, size, "%u workers are more than [workers] max_processes = %u", count, slots);
        return -1;
    }
    if ((uint64_t)count * threads > room) {
        snprintf(why, size,
                 "%u workers with %u threads each are more than [workers] max_threads = %u", count,
                 threads, room);
        return -1;
    }
    if (check_descriptors(master, count, threads, why, size) != 0)
        return -1;
    failed = reserve_workers(&master->segment, count);
    if (failed == 0)
        failed = slots_reserve(&master->segment, count * threads);
    if (failed != 0) {
        snprintf(
            why, size,
            "no shared memory for %u threads: %s (make /dev/shm larger, or [log] ring smaller)",
            count * threads, strerror(failed));
        return -1;
    }
    if (master->config->workers_dispatch == DISPATCH_KERNEL &&
        listeners_grow(master->listeners, count * threads) != 0) {
        snprintf(why, size, "cannot open listening sockets for %u threads: %s", count * threads,
                 strerror(errno));
        return -1;
    }
    return 0;
}
