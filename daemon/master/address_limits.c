#include "daemon/master/address_limits.h"

#include "common/clock.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/memory_file.h"
#include "daemon/transaction/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the file of address_limits_save() contains. */
struct saved_limits {
    char format[16];
    uint32_t count, unused;
    struct address_limit limit[SEGMENT_ADDRESS_LIMITS_MAX];
};

static const char saved_format[16] = "limits 1";

char *address_limit_describe(const struct address_limit *limit, char buffer[ADDRESS_LIMIT_TEXT])
{
    if (limit->requests_per_second == 0)
        snprintf(buffer, ADDRESS_LIMIT_TEXT, "blocked");
    else
        snprintf(buffer, ADDRESS_LIMIT_TEXT, "%u %s per second", limit->requests_per_second,
                 units_plural(limit->requests_per_second, "request", "requests"));
    return buffer;
}

uint64_t address_limit_rejected(const struct segment *segment, const struct address_limit *limit)
{
    return rate_limit_rejected(segment, client_limit_key(limit->id));
}

static bool is_same(const struct network *one, const struct network *other)
{
    return one->prefix == other->prefix &&
           memcmp(one->address, other->address, sizeof(one->address)) == 0;
}

/* The entry of exactly NETWORK; NULL: any free one. SEGMENT_ADDRESS_LIMITS_MAX: none. */
static uint32_t find(const struct segment *segment, const struct network *network)
{
    struct address_limit limit;
    uint32_t i = 0;

    for (; i < SEGMENT_ADDRESS_LIMITS_MAX; i++) {
        bool used = address_limit_read(segment, i, &limit);

        if (network == NULL ? !used : used && is_same(&limit.network, network))
            break;
    }
    return i;
}

bool address_limits_get(const struct segment *segment, const struct network *network,
                        struct address_limit *limit)
{
    uint32_t i = find(segment, network);

    return i < SEGMENT_ADDRESS_LIMITS_MAX && address_limit_read(segment, i, limit);
}

static void count_entries(const struct segment *segment)
{
    struct address_limit limit;
    uint32_t count = 0;

    for (uint32_t i = 0; i < SEGMENT_ADDRESS_LIMITS_MAX; i++)
        count += address_limit_read(segment, i, &limit);
    atomic_store_explicit(&segment_address_limits(segment)->count, count, memory_order_release);
}

static void store(const struct segment *segment, uint32_t i, const struct address_limit *limit)
{
    struct segment_address_limit *entry = &segment_address_limits(segment)->entry[i];
    uint64_t address[2];

    memcpy(address, limit->network.address, sizeof(address));
    atomic_store_explicit(&entry->until_ns, 0, memory_order_release);
    for (int word = 0; word < 2; word++)
        atomic_store_explicit(&entry->address[word], address[word], memory_order_release);
    atomic_store_explicit(&entry->prefix, limit->network.prefix, memory_order_release);
    atomic_store_explicit(&entry->requests_per_second, limit->requests_per_second,
                          memory_order_release);
    atomic_store_explicit(&entry->id, clock_monotonic_ns(), memory_order_release);
    atomic_store_explicit(&entry->until_ns, limit->until_ns, memory_order_release);
    count_entries(segment);
}

int address_limits_set(const struct segment *segment, const struct address_limit *limit)
{
    uint32_t i = find(segment, &limit->network);

    if (i == SEGMENT_ADDRESS_LIMITS_MAX)
        i = find(segment, NULL);
    if (i == SEGMENT_ADDRESS_LIMITS_MAX)
        return -1;
    store(segment, i, limit);
    return 0;
}

static void remove_entry(const struct segment *segment, uint32_t i)
{
    atomic_store_explicit(&segment_address_limits(segment)->entry[i].until_ns, 0,
                          memory_order_release);
    count_entries(segment);
}

void address_limits_remove(const struct segment *segment, const struct network *network)
{
    uint32_t i = find(segment, network);

    if (i < SEGMENT_ADDRESS_LIMITS_MAX)
        remove_entry(segment, i);
}

void address_limits_expire(const struct segment *segment, uint64_t now_ns)
{
    char text[NETWORK_TEXT_MAX], what[ADDRESS_LIMIT_TEXT];
    struct address_limit limit;

    for (uint32_t i = 0; address_limits_exist(segment) && i < SEGMENT_ADDRESS_LIMITS_MAX; i++) {
        if (!address_limit_read(segment, i, &limit) || limit.until_ns > now_ns)
            continue;
        remove_entry(segment, i);
        network_text(&limit.network, text);
        event_log(LEVEL_INFO, "limit of client %s has ended (%s)", text,
                  address_limit_describe(&limit, what));
    }
}

int address_limits_save(const struct segment *segment)
{
    struct saved_limits saved = {.count = 0};
    int fd;

    memcpy(saved.format, saved_format, sizeof(saved_format));
    for (uint32_t i = 0; i < SEGMENT_ADDRESS_LIMITS_MAX; i++)
        saved.count += address_limit_read(segment, i, &saved.limit[saved.count]);
    if (saved.count == 0)
        return -1;
    fd = memory_file_open("limits");
    if (fd >= 0 && pwrite(fd, &saved, sizeof(saved), 0) == (ssize_t)sizeof(saved) &&
        memory_file_seal(fd) == 0)
        return fd;
    event_log(LEVEL_WARN, "the new master gets no limits of clients: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

void address_limits_restore(const struct segment *segment, int fd)
{
    struct saved_limits saved;
    struct stat status;

    if (fd < 0)
        return;
    if (memory_file_is_sealed(fd) && fstat(fd, &status) == 0 && status.st_size == sizeof(saved) &&
        pread(fd, &saved, sizeof(saved), 0) == (ssize_t)sizeof(saved) &&
        memcmp(saved.format, saved_format, sizeof(saved_format)) == 0 &&
        saved.count <= SEGMENT_ADDRESS_LIMITS_MAX) {
        for (uint32_t i = 0; i < saved.count; i++)
            address_limits_set(segment, &saved.limit[i]);
    } else {
        event_log(LEVEL_WARN, "cannot use the old master's limits of clients");
    }
    close(fd);
}
