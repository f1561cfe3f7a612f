#include "daemon/master/server.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/acme/process.h"
#include "daemon/base/events.h"
#include "daemon/config/load.h"
#include "daemon/content/cache.h"
#include "daemon/tls/context.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/tickets.h"
#include "daemon/transaction/rate_limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * For cache.max_entries = auto: an entry for each ENTRY_BYTES of the cache. The upper limit bounds
 * the shared memory: with it, a worker's table has 4 MiB. The table keeps its size if cache.size
 * changes.
 */
enum { ENTRY_BYTES = 8 * 1024, AUTO_ENTRIES_MIN = 4096, AUTO_ENTRIES_MAX = 16384 };

static uint32_t cache_entries(const struct config *config)
{
    uint64_t entries = config->cache_size / ENTRY_BYTES;

    if (config->cache_max_entries != 0)
        return config->cache_max_entries;
    return entries < AUTO_ENTRIES_MIN   ? AUTO_ENTRIES_MIN
           : entries > AUTO_ENTRIES_MAX ? AUTO_ENTRIES_MAX
                                        : (uint32_t)entries;
}

int server_create_segment(struct server *server, bool beside, char *why, size_t size)
{
    const struct config *config = server->config;
    char listening[256];
    const struct segment_plan plan = {.name = config->server_name,
                                      .socket_path = config->control_socket,
                                      .listening = listening,
                                      .max_workers = config->workers_max_processes,
                                      .max_threads = config->workers_max_threads,
                                      .cache_entries = cache_slots(cache_entries(config)),
                                      .max_hosts = host_table_room(config),
                                      .ring_bytes = config->log_ring,
                                      .beside = beside};
    struct segment_master *block;

    listeners_describe(server->listeners, listening, sizeof(listening));
    if (segment_create(&server->segment, &plan, why, size) != 0)
        return -1;
    rate_limit_prepare(&server->segment);
    block = segment_master(&server->segment);
    atomic_store(&block->heartbeat_ns, clock_monotonic_ns());
    atomic_store(&block->generation, 1);
    return 0;
}

static struct tls_context *make_tls(const struct server *server, char *why, size_t size)
{
    const struct config *config = server->config;
    struct managed_certificates managed = {0};
    struct tls_context *tls = NULL;

    if (!config->acme_enabled)
        return tls_context_new(config, NULL, server->tickets, why, size);
    if (acme_prepare_state(config, why, size) == 0 &&
        managed_certificates_find(config, &managed, why, size) == 0)
        tls = tls_context_new(config, &managed, server->tickets, why, size);
    managed_certificates_free(&managed);
    return tls;
}

int server_load_certificates(struct server *server, char *why, size_t size)
{
    struct tls_context *tls = NULL;

    if (listeners_need_tls(server->listeners)) {
        if (server->tickets == NULL) {
            server->tickets = tls_tickets_new();
            server->tickets_ns = clock_monotonic_ns();
        }
        tls = make_tls(server, why, size);
        if (tls == NULL)
            return -1;
    }
    server->tls = tls;
    return 0;
}

int server_save_tickets(const struct server *server)
{
    int fd;

    if (server->tickets == NULL)
        return -1;
    fd = tls_tickets_save(server->tickets, server->tickets_ns);
    if (fd < 0)
        event_log(LEVEL_WARN, "the new master gets no keys of session tickets: %s",
                  strerror(errno));
    return fd;
}

void server_restore_tickets(struct server *server, int fd)
{
    if (fd < 0)
        return;
    server->tickets = tls_tickets_restore(fd, &server->tickets_ns);
    close(fd);
    if (server->tickets == NULL)
        event_log(LEVEL_WARN, "cannot use the old master's keys of session tickets");
}

bool server_rotate_tickets(struct server *server, uint64_t now_ns)
{
    if (server->tickets == NULL ||
        now_ns - server->tickets_ns < server->config->tls_session_timeout * NS_PER_MS / 2)
        return false;
    server->tickets_ns = now_ns;
    return tls_tickets_rotate(server->tickets) == 0;
}

static void store_config_text(struct server *server)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return;
    config_print(server->config, memory);
    fclose(memory);
    if (text != NULL)
        segment_store_config(&server->segment, text);
    free(text);
}

void server_publish_config(struct server *server)
{
    struct segment_master *block = segment_master(&server->segment);
    const struct config *config = server->config;
    char listening[sizeof(server->segment.header.listening)];

    atomic_store(&block->workers_wanted, config->workers_processes);
    atomic_store(&block->threads_wanted, config->workers_threads);
    atomic_store(&block->offload_min_wanted, config->workers_offload_threads.min);
    atomic_store(&block->offload_max_wanted, config->workers_offload_threads.max);
    atomic_store(&block->log_level, config->log_level);
    atomic_store(&block->dispatch_master, config->workers_dispatch == DISPATCH_MASTER);
    rate_limit_set(&server->segment, config->ratelimit_enabled,
                   config->ratelimit_requests_per_second, config->ratelimit_burst);
    listeners_describe(server->listeners, listening, sizeof(listening));
    segment_store_listening(&server->segment, listening);
    store_config_text(server);
}

void server_release(struct server *server)
{
    segment_destroy(&server->segment);
    if (server->doorbell >= 0)
        close(server->doorbell);
    for (int i = 0; i < 2; i++)
        if (server->alive[i] >= 0)
            close(server->alive[i]);
    log_files_close(&server->logs);
    metrics_sockets_close(&server->metrics);
    host_table_free(&server->hosts);
    tls_context_free(server->tls);
    tls_tickets_free(server->tickets);
    pid_file_release(&server->pid_file);
}
