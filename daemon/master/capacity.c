#include "daemon/master/capacity.h"

#include "common/segment_writer.h"
#include "daemon/master/slots.h"
#include "daemon/worker/context.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
    FIXED_DESCRIPTORS = 48, /* standard streams, logs, sockets, loop, and a few in reserve */
    CONNECTIONS_MIN = 8,    /* of a worker, however low the limit is */
};

void capacity_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

uint32_t capacity_listen_sockets(const struct config *config)
{
    return config->workers_dispatch == DISPATCH_MASTER
               ? 1
               : config->workers_processes * config->workers_threads;
}

/* Per thread: event loop, mailbox, and twice a listen socket of each address. */
static uint64_t descriptors_of_worker(const struct config *config, uint32_t threads)
{
    return FIXED_DESCRIPTORS + threads * (2 + 2 * config->server_listen.count);
}

uint64_t capacity_of_worker(const struct config *config, const struct rlimit *limit)
{
    uint64_t own = descriptors_of_worker(config, config->workers_threads) +
                   worker_context_cache_descriptors(limit);

    return own + CONNECTIONS_MIN < limit->rlim_cur ? limit->rlim_cur - own : CONNECTIONS_MIN;
}

static int check_descriptors(const struct config *config, uint32_t count, uint32_t threads,
                             char *why, size_t size)
{
    uint64_t addresses = config->server_listen.count;
    uint64_t of_worker = descriptors_of_worker(config, threads);
    uint64_t of_master = FIXED_DESCRIPTORS + 2 * (uint64_t)count + addresses * count * threads;
    uint64_t needed = of_worker > of_master ? of_worker : of_master;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return 0;
    snprintf(why, size,
             "%u workers with %u threads each need %" PRIu64
             " descriptors per process, but %" PRIu64 " are allowed (raise the limit: ulimit -n)",
             count, threads, needed, (uint64_t)limit.rlim_cur);
    return -1;
}

static int check_tables(const struct segment *segment, uint32_t count, uint32_t threads, char *why,
                        size_t size)
{
    uint32_t workers_max = segment_count(segment, SEGMENT_WORKERS);
    uint32_t threads_max = segment_count(segment, SEGMENT_THREADS);

    if (count > workers_max) {
        snprintf(why, size, "%u workers exceed workers.max_processes = %u", count, workers_max);
        return -1;
    }
    if ((uint64_t)count * threads > threads_max) {
        snprintf(why, size, "%u workers with %u threads each exceed workers.max_threads = %u",
                 count, threads, threads_max);
        return -1;
    }
    return 0;
}

static int reserve_memory(struct segment *segment, uint32_t count, uint32_t threads, char *why,
                          size_t size)
{
    int failed = 0;

    for (uint32_t i = 0; i < count && failed == 0; i++)
        failed = segment_reserve_worker(segment, i);
    if (failed == 0)
        failed = slots_reserve(segment, count * threads);
    if (failed == 0)
        return 0;
    snprintf(why, size, "no shared memory for %u threads: %s (enlarge /dev/shm or reduce log.ring)",
             count * threads, strerror(failed));
    return -1;
}

int capacity_prepare(struct server *server, uint32_t count, uint32_t threads, char *why,
                     size_t size)
{
    if (check_tables(&server->segment, count, threads, why, size) != 0 ||
        check_descriptors(server->config, count, threads, why, size) != 0 ||
        reserve_memory(&server->segment, count, threads, why, size) != 0)
        return -1;
    if (server->config->workers_dispatch == DISPATCH_KERNEL &&
        listeners_grow(server->listeners, count * threads) != 0) {
        snprintf(why, size, "cannot open listen sockets for %u threads: %s", count * threads,
                 strerror(errno));
        return -1;
    }
    return 0;
}
