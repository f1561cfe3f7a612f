#include "daemon/master/internal.h"

#include "daemon/base/cgroup.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"

enum {
    WATCH_MS = 200,
    SHARES = 8, /* of what is left; one is given out at a time */
};

/* In thousandths of the limit: a level begins at its first figure and ends below its second one. */
static const struct {
    uint32_t from, until;
} bounds[] = {
    [MEMORY_SHORT] = {850, 800},
    [MEMORY_EXHAUSTED] = {950, 900},
};

enum memory_level memory_level_next(enum memory_level level, uint32_t used)
{
    while (level < MEMORY_EXHAUSTED && used >= bounds[level + 1].from)
        level++;
    while (level > MEMORY_ENOUGH && used < bounds[level].until)
        level--;
    return level;
}

static void log_level_change(enum memory_level before, enum memory_level now, uint32_t used)
{
    static const char text[] = "the control group has used %u %% of its memory: %s";

    if (before == MEMORY_ENOUGH)
        event_log(LEVEL_WARN, text, used / 10,
                  "workers free their caches, then close idle connections");
    if (now == MEMORY_EXHAUSTED)
        event_log(LEVEL_WARN, text, used / 10, "workers accept no connections");
    if (now == MEMORY_ENOUGH)
        event_log(LEVEL_INFO, text, used / 10, "enough is free again");
}

/*
 * What the cache of each worker may take until the next message. A worker that is late spends the last
 * share after the next one was computed, so that all shares are but a part of what is left until
 * MEMORY_SHORT.
 */
static uint64_t cache_share(const struct workers *workers, struct cgroup_memory memory)
{
    uint64_t until = memory.limit_bytes / 1000 * bounds[MEMORY_SHORT].from;
    uint32_t count = workers_alive(workers);

    if (memory.limit_bytes == 0)
        return UINT64_MAX;
    return until > memory.used_bytes
               ? (until - memory.used_bytes) / SHARES / (count > 0 ? count : 1)
               : 0;
}

static void on_memory_timer(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;
    struct message_memory *last = &master->workers.memory, now;
    struct cgroup_memory memory = cgroup_memory(master->monitor.cgroup);
    uint32_t used = memory.limit_bytes > 0
                        ? (uint32_t)((double)memory.used_bytes * 1000 / (double)memory.limit_bytes)
                        : 0;

    (void)fd, (void)what;
    now = (struct message_memory){.level = memory_level_next((enum memory_level)last->level, used),
                                  .cache_bytes = cache_share(&master->workers, memory)};
    if (now.level != last->level)
        log_level_change((enum memory_level)last->level, (enum memory_level)now.level, used);
    if (now.level == last->level && now.cache_bytes == last->cache_bytes && memory.limit_bytes == 0)
        return;
    *last = now;
    workers_send_memory(&master->workers);
}

int memory_watch_start(struct master *master)
{
    static const struct timeval period = {.tv_usec = WATCH_MS * 1000};
    struct monitor *monitor = &master->monitor;

    master->workers.memory =
        (struct message_memory){.level = MEMORY_ENOUGH, .cache_bytes = UINT64_MAX};
    monitor->cgroup = cgroup_open("/proc/self/cgroup", "/sys/fs/cgroup");
    if (monitor->cgroup == NULL)
        return 0;
    monitor->memory_timer = event_new(master->base, -1, EV_PERSIST, on_memory_timer, master);
    if (monitor->memory_timer == NULL || event_add(monitor->memory_timer, &period) != 0)
        return -1;
    on_memory_timer(-1, 0, master);
    return 0;
}

void memory_watch_free(struct monitor *monitor)
{
    loop_free_event(monitor->memory_timer);
    cgroup_close(monitor->cgroup);
}
