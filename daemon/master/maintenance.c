/*
 * The command maintenance: all requests, or those for single hosts, are answered 503 until the
 * command or a reload ends it; a binary upgrade does not. Workers read it in the segment for each request.
 */
#include "daemon/master/internal.h"

#include "common/server_status.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/config/hosts.h"
#include "daemon/master/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RETRY_AFTER_MS = 5 * 60 * 1000, RETRY_AFTER_MAX_S = 7 * 24 * 60 * 60 };

/* The words after the first one. */
struct maintenance_order {
    bool on;
    const char *host; /* NULL: all */
    const char *page; /* NULL: none */
    uint64_t retry_after_ms;
};

static json_t *report_maintenance(const struct master *master)
{
    const struct segment_maintenance *maintenance = segment_maintenance(&master->segment);

    return json_pack("{s:b, s:b, s:o, s:I, s:I}", "ok", 1, "maintenance", maintenance->hosts != 0,
                     "hosts", server_hosts_in_maintenance(&master->segment), "retry_after_s",
                     (json_int_t)maintenance->retry_after_s, "page_bytes",
                     (json_int_t)segment_maintenance_page(&master->segment).length);
}

/* Returns NULL, or what is wrong. */
static json_t *parse_order(const struct call *call, struct maintenance_order *order)
{
    *order = (struct maintenance_order){.on = strcmp(call->argument[0], "on") == 0,
                                        .retry_after_ms = RETRY_AFTER_MS};
    if (!order->on && strcmp(call->argument[0], "off") != 0)
        return control_error("invalid word '%.64s' (valid: on, off)", call->argument[0]);
    for (int i = 1; i < call->argument_count; i += 2) {
        const char *name = call->argument[i],
                   *value = i + 1 < call->argument_count ? call->argument[i + 1] : NULL;
        bool host = strcmp(name, "--host") == 0, page = strcmp(name, "--page") == 0;

        if (!host && (!order->on || (!page && strcmp(name, "--retry-after") != 0)))
            return control_error("unknown option '%.64s' (valid: --host%s)", name,
                                 order->on ? ", --retry-after, --page" : "");
        if (value == NULL)
            return control_error("missing value after '%s'", name);
        if (host)
            order->host = value;
        else if (page)
            order->page = value;
        else if (units_parse_time_ms(value, &order->retry_after_ms) != 0 ||
                 order->retry_after_ms < 1000 ||
                 order->retry_after_ms > RETRY_AFTER_MAX_S * UINT64_C(1000))
            return control_error("invalid time '%.64s' (valid: 1s to 168h; examples: 30s, 5m)",
                                 value);
    }
    return NULL;
}

/*
 * Reads the page into the text that new responses do not use. If two more pages follow while a
 * response with this one is sent, that response ends with a part of another page. Returns NULL, or
 * what is wrong.
 */
static json_t *read_page(struct segment_maintenance *maintenance, const char *path)
{
    uint64_t next = (atomic_load(&maintenance->page) + 1) % 2;
    int fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    struct stat status = {.st_mode = 0};
    ssize_t length = -1;

    if (path[0] != '/')
        return control_error("invalid page '%.64s' (write an absolute path)", path);
    if (fd < 0)
        return control_error("%.150s: %s", path, strerror(errno));
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
        status.st_size <= SEGMENT_PAGE_BYTES)
        length = read(fd, maintenance->text[next], SEGMENT_PAGE_BYTES);
    close(fd);
    if (length <= 0)
        return control_error("%.150s: not a file of 1 to %d bytes that can be read", path,
                             SEGMENT_PAGE_BYTES);
    atomic_store_explicit(&maintenance->page, (uint64_t)length * 2 + next, memory_order_release);
    return NULL;
}

/* The entry of HOSTS of the [host] section that has NAME; 0 for '*'. Returns -1 if there is none. */
static int64_t find_host_entry(const struct master *master, const char *name)
{
    const struct config *config = master->config;
    const struct span wanted = span_of(name);

    if (config->host_count > 0 && strcmp(name, "*") == 0)
        return 0;
    for (size_t i = 0; i < config->host_count; i++)
        for (size_t k = 0; k < config->hosts[i].name_count; k++)
            if (config_host_name_is(config->hosts[i].names[k], wanted) &&
                master->hosts.place[i + 1].entry > 0)
                return master->hosts.place[i + 1].entry;
    return -1;
}

static void set_host(struct segment_maintenance *maintenance, uint32_t entry, bool on)
{
    uint64_t bit = UINT64_C(1) << (entry % 64), bits = maintenance->host[entry / 64];

    if (((bits & bit) != 0) == on)
        return;
    maintenance->host[entry / 64] = on ? bits | bit : bits & ~bit;
    maintenance->hosts += on ? 1 : UINT32_MAX;
}

static void set_all(struct segment_maintenance *maintenance, bool on)
{
    atomic_store(&maintenance->hosts, on ? UINT32_MAX : 0);
    for (size_t i = 0; i < ARRAY_LENGTH(maintenance->host); i++)
        maintenance->host[i] = 0;
}

/* The page ends with the maintenance of the last host. */
static void publish_maintenance(const struct master *master)
{
    struct segment_maintenance *maintenance = segment_maintenance(&master->segment);

    metric_set(segment_master(&master->segment)->metrics, METRIC_maintenance,
               maintenance->hosts != 0);
    if (maintenance->hosts == 0)
        atomic_fetch_and(&maintenance->page, 1);
}

void maintenance_inherit(struct master *master)
{
    const struct predecessor *predecessor = &master->upgrade.predecessor;
    const struct segment *old = &predecessor->reader.map;
    struct segment_maintenance *maintenance = segment_maintenance(&master->segment);
    struct span page;

    if (segment_count(old, SEGMENT_MAINTENANCE) == 0)
        return;
    page = segment_maintenance_page(old);
    memcpy(maintenance->text[0], page.start, page.length);
    atomic_store(&maintenance->page, page.length * 2);
    maintenance->retry_after_s = segment_maintenance(old)->retry_after_s;
    if (segment_maintenance(old)->hosts == UINT32_MAX)
        set_all(maintenance, true);
    else
        for (size_t i = 0; i < predecessor->host_count; i++)
            set_host(maintenance, predecessor->host[i].to,
                     segment_is_in_maintenance(old, predecessor->host[i].from));
    publish_maintenance(master);
    if (maintenance->hosts != 0)
        event_log(LEVEL_WARN, "maintenance continues: requests are answered 503");
}

void maintenance_end(const struct master *master, const char *why)
{
    struct segment_maintenance *maintenance = segment_maintenance(&master->segment);

    if (maintenance->hosts == 0)
        return;
    set_all(maintenance, false);
    publish_maintenance(master);
    event_log(LEVEL_INFO, "maintenance off, %s", why);
}

struct control_reply command_maintenance(const struct call *call)
{
    struct master *master = call->master;
    struct segment_maintenance *maintenance = segment_maintenance(&master->segment);
    struct maintenance_order order;
    json_t *wrong = NULL;
    int64_t entry = -1;
    char what[160];

    if (call->argument_count == 0)
        return command_reply(report_maintenance(master));
    wrong = parse_order(call, &order);
    if (wrong == NULL && order.host != NULL && (entry = find_host_entry(master, order.host)) < 0)
        wrong = control_error("no [host] section has the name '%.64s'", order.host);
    if (wrong == NULL && order.host != NULL && maintenance->hosts == UINT32_MAX)
        wrong = control_error("all hosts are in maintenance: turn it off first");
    if (wrong == NULL && order.page != NULL)
        wrong = read_page(maintenance, order.page);
    if (wrong != NULL)
        return command_reply(wrong);
    if (order.on)
        maintenance->retry_after_s = (uint32_t)(order.retry_after_ms / 1000);
    if (order.host != NULL)
        set_host(maintenance, (uint32_t)entry, order.on);
    else
        set_all(maintenance, order.on);
    publish_maintenance(master);
    snprintf(what, sizeof(what), "maintenance %s for %.64s", order.on ? "on" : "off",
             order.host != NULL ? order.host : "all hosts");
    command_log_action(call, what);
    return command_reply(report_maintenance(master));
}
