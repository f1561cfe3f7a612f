#include "daemon/master/server.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/config/print.h"
#include "daemon/content/cache.h"
#include "daemon/transaction/rate_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

int server_create_segment(struct server *server, bool beside, char *why, size_t size)
{
    const struct config *config = server->config;
    char listening[256];
    const struct segment_plan plan = {.name = config->server_name,
                                      .socket_path = config->control_socket,
                                      .listening = listening,
                                      .max_workers = config->workers_max_processes,
                                      .max_threads = config->workers_max_threads,
                                      .cache_entries = cache_slots(config->cache_max_entries),
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
    char listening[sizeof(server->segment.header->listening)];

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

uint32_t server_reopen_logs(struct server *server)
{
    struct segment_master *block = segment_master(&server->segment);
    uint32_t number = atomic_load(&block->logs_wanted) + 1;

    atomic_store(&block->logs_wanted, number);
    eventfd_write(server->doorbell, 1);
    return number;
}

void server_release(struct server *server)
{
    segment_destroy(&server->segment);
    if (server->doorbell >= 0)
        close(server->doorbell);
    pid_file_release(&server->pid_file);
}
