/*
 * The limits that the command limit-client sets for single clients and networks. They are in the
 * segment (daemon/transaction/limits.h), so a reload keeps them; a binary upgrade passes
 * them on.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/memory_file.h"
#include "daemon/config/value.h"
#include "daemon/master/command.h"
#include "daemon/transaction/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADDRESS_LIMIT_TEXT = 64 };

/* What the file of address_limits_save() contains. */
struct saved_limits {
    char format[16];
    uint32_t count, unused;
    struct address_limit limit[SEGMENT_ADDRESS_LIMITS_MAX];
};

static const char saved_format[16] = "limits 1";

/* "blocked", "5 requests per second", "1 request per second". Returns BUFFER. */
static char *describe_limit(const struct address_limit *limit, char buffer[ADDRESS_LIMIT_TEXT])
{
    if (limit->requests_per_second == 0)
        snprintf(buffer, ADDRESS_LIMIT_TEXT, "blocked");
    else
        snprintf(buffer, ADDRESS_LIMIT_TEXT, "%u %s per second", limit->requests_per_second,
                 units_plural(limit->requests_per_second, "request", "requests"));
    return buffer;
}

/* Requests rejected because of LIMIT; 0 again if the table of the rate limit needed the place. */
static uint64_t rejected_by_limit(const struct segment *segment, const struct address_limit *limit)
{
    return rate_limit_rejected(segment, client_limit_key(limit->id));
}

static bool is_same(const struct network *one, const struct network *other)
{
    return one->prefix == other->prefix &&
           memcmp(one->address, other->address, sizeof(one->address)) == 0;
}

/* The entry of exactly NETWORK; NULL: any free one. SEGMENT_ADDRESS_LIMITS_MAX: none. */
static uint32_t find_limit(const struct segment *segment, const struct network *network)
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
    uint32_t i = find_limit(segment, network);

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

static void store_limit(const struct segment *segment, uint32_t i,
                        const struct address_limit *limit)
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
    uint32_t i = find_limit(segment, &limit->network);

    if (i == SEGMENT_ADDRESS_LIMITS_MAX)
        i = find_limit(segment, NULL);
    if (i == SEGMENT_ADDRESS_LIMITS_MAX)
        return -1;
    store_limit(segment, i, limit);
    return 0;
}

static void remove_limit_entry(const struct segment *segment, uint32_t i)
{
    atomic_store_explicit(&segment_address_limits(segment)->entry[i].until_ns, 0,
                          memory_order_release);
    count_entries(segment);
}

void address_limits_remove(const struct segment *segment, const struct network *network)
{
    uint32_t i = find_limit(segment, network);

    if (i < SEGMENT_ADDRESS_LIMITS_MAX)
        remove_limit_entry(segment, i);
}

void address_limits_expire(const struct segment *segment, uint64_t now_ns)
{
    char text[NETWORK_TEXT_MAX], what[ADDRESS_LIMIT_TEXT];
    struct address_limit limit;

    for (uint32_t i = 0; address_limits_exist(segment) && i < SEGMENT_ADDRESS_LIMITS_MAX; i++) {
        if (!address_limit_read(segment, i, &limit) || limit.until_ns > now_ns)
            continue;
        remove_limit_entry(segment, i);
        network_text(&limit.network, text);
        event_log(LEVEL_INFO, "limit of client %s has ended (%s)", text,
                  describe_limit(&limit, what));
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

enum { USUAL_MS = 10 * 60 * 1000, LEAST_MS = 1000, CHANGE_BYTES = ADDRESS_LIMIT_TEXT + UNITS_TEXT };
#define MOST_MS (UINT64_C(30) * 24 * 60 * 60 * 1000)

/* A bare IPv6 address stands for its /64, which one client usually has to itself. */
static void widen(const char *text, struct network *network)
{
    static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};

    if (strchr(text, '/') != NULL || memcmp(network->address, ipv4, sizeof(ipv4)) == 0)
        return;
    network->prefix = 64;
    memset(network->address + 8, 0, sizeof(network->address) - 8);
}

/* Returns NULL, or what is wrong with TEXT. */
static json_t *parse_limited_network(const char *text, struct network *network)
{
    enum network_fault fault =
        strcmp(text, "unix:") == 0 ? NETWORK_NO_ADDRESS : network_parse(text, network);

    switch (fault) {
    case NETWORK_NO_ADDRESS:
        return control_error("invalid address '%.64s' (examples: 192.0.2.7, 10.0.0.0/8, ::1/128)",
                             text);
    case NETWORK_BAD_PREFIX:
        return control_error("'%.64s' has an invalid prefix length (IPv4: 0-32, IPv6: 0-128)",
                             text);
    case NETWORK_HOST_BITS:
        return control_error("'%.64s' has bits set after its prefix: write the first address of "
                             "the network",
                             text);
    case NETWORK_GOOD:
        break;
    }
    widen(text, network);
    return NULL;
}

/* Parses RATE or "block". Returns NULL, or what is wrong with TEXT. */
static json_t *parse_rate(const char *text, uint32_t *requests_per_second)
{
    uint64_t most = config_value_max(&config_keys[KEY_ratelimit_requests_per_second]), rate = 0;

    if (strcmp(text, "block") != 0 &&
        (units_parse_number(text, &rate) != 0 || rate < 1 || rate > most))
        return control_error(
            "invalid limit '%.64s' (valid: 1-%llu requests per second, block, off)", text,
            (unsigned long long)most);
    *requests_per_second = (uint32_t)rate;
    return NULL;
}

/* Parses TIME. Returns NULL, or what is wrong with TEXT. */
static json_t *parse_time(const char *text, uint64_t *time_ms)
{
    if (units_parse_time_ms(text, time_ms) == 0 && *time_ms >= LEAST_MS && *time_ms <= MOST_MS)
        return NULL;
    return control_error("invalid time '%.64s' (valid: 1s to 720h; examples: 30s, 10m, 2h)", text);
}

/* Reporting */

static json_t *report_limit(const struct segment *segment, const struct address_limit *limit,
                            uint64_t now_ns)
{
    uint64_t left_ns = limit->until_ns > now_ns ? limit->until_ns - now_ns : 0;
    char text[NETWORK_TEXT_MAX];

    network_text(&limit->network, text);
    return json_pack("{s:s, s:b, s:I, s:I, s:I}", "client", text, "blocked",
                     limit->requests_per_second == 0, "requests_per_second",
                     (json_int_t)limit->requests_per_second, "remaining_s",
                     (json_int_t)clock_ceil_s(left_ns), "rejected",
                     (json_int_t)rejected_by_limit(segment, limit));
}

static json_t *report_limits(const struct master *master)
{
    const struct segment *segment = &master->segment;
    uint64_t now_ns = clock_monotonic_ns();
    struct address_limit limit;
    json_t *list = json_array();

    for (uint32_t i = 0; i < SEGMENT_ADDRESS_LIMITS_MAX; i++)
        if (address_limit_read(segment, i, &limit))
            json_array_append_new(list, report_limit(segment, &limit, now_ns));
    return json_pack("{s:b, s:i, s:o}", "ok", 1, "most", SEGMENT_ADDRESS_LIMITS_MAX, "limits",
                     list);
}

static void log_change(const struct call *call, const struct network *network,
                       const struct address_limit *from, const char *to)
{
    char client[NETWORK_TEXT_MAX], what[NETWORK_TEXT_MAX + 20], before[ADDRESS_LIMIT_TEXT];

    network_text(network, client);
    snprintf(what, sizeof(what), "limit of client %s", client);
    command_log_change(call, what, from != NULL ? describe_limit(from, before) : "none", to);
}

/* limit-client */

static json_t *remove_limit(const struct call *call, const struct network *network)
{
    const struct segment *segment = &call->master->segment;
    char text[NETWORK_TEXT_MAX];
    struct address_limit before;

    if (call->argument_count > 2)
        return control_error("'off' takes no time");
    if (!address_limits_get(segment, network, &before)) {
        network_text(network, text);
        return control_error("%s has no limit; 'limit-client' lists those that have", text);
    }
    address_limits_remove(segment, network);
    log_change(call, network, &before, "none");
    return report_limits(call->master);
}

static json_t *set_limit(const struct call *call, struct address_limit *limit)
{
    const struct segment *segment = &call->master->segment;
    char change[CHANGE_BYTES], what[ADDRESS_LIMIT_TEXT], time[UNITS_TEXT];
    uint64_t time_ms = USUAL_MS;
    struct address_limit before;
    bool had = address_limits_get(segment, &limit->network, &before);
    json_t *error = parse_rate(call->argument[1], &limit->requests_per_second);

    if (error == NULL && call->argument_count > 2)
        error = parse_time(call->argument[2], &time_ms);
    if (error != NULL)
        return error;
    limit->until_ns = clock_monotonic_ns() + time_ms * NS_PER_MS;
    if (address_limits_set(segment, limit) != 0)
        return control_error("all %d limits of clients are in use: remove one, or limit a network",
                             SEGMENT_ADDRESS_LIMITS_MAX);
    snprintf(change, sizeof(change), "%s for %s", describe_limit(limit, what),
             units_format_time_ms(time, sizeof(time), time_ms));
    log_change(call, &limit->network, had ? &before : NULL, change);
    return report_limits(call->master);
}

struct control_reply command_limit_client(const struct call *call)
{
    struct address_limit limit = {.id = 0};
    json_t *error;

    if (call->argument_count == 0)
        return command_reply(report_limits(call->master));
    error = parse_limited_network(call->argument[0], &limit.network);
    if (error == NULL && call->argument_count == 1)
        error =
            control_error("say how to limit %.64s: a number of requests per second, block, or off",
                          call->argument[0]);
    if (error == NULL && call->master->upgrade.successor_pid != 0)
        error = control_error("an upgrade is under way: try again when the new master serves");
    if (error != NULL)
        return command_reply(error);
    return command_reply(strcmp(call->argument[1], "off") == 0 ? remove_limit(call, &limit.network)
                                                               : set_limit(call, &limit));
}
