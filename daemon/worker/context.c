#include "daemon/worker/context.h"

#include "daemon/worker/broadcast.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CACHE_DESCRIPTORS_MAX = 1024 };

uint32_t site_descriptors_for_cache(const struct rlimit *limit)
{
    rlim_t share = limit->rlim_cur / 4;

    return share < CACHE_DESCRIPTORS_MAX ? (uint32_t)share : CACHE_DESCRIPTORS_MAX;
}

/* A process that is locked in can't ask. */
static uint32_t descriptors_for_cache(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? site_descriptors_for_cache(&limit) : 0;
}

static int make_cache(struct site *site)
{
    const struct config *config = site->config;
    const struct cache_limits limits = {config->cache_size, config->cache_max_entries,
                                        site->cache_descriptors};

    if (!config->cache_enabled)
        return 0;
    site->cache = cache_new(&limits, order_policy(config->cache_policy), resource_destroy,
                            site->segment, site->worker_slot);
    return site->cache != NULL ? 0 : -1;
}

static_assert((int)FILES_LINKS_INSIDE == SYMLINKS_INSIDE &&
                  (int)FILES_LINKS_FOLLOW == SYMLINKS_FOLLOW,
              "the words of [files] symlinks stand for enum files_links");

/* Fences are kept as the kernel will name what lies below them. */
static int open_root(struct files_root *root, const struct config *config)
{
    const struct config_paths *into = &config->files_follow_into;
    const char **fence = into->count > 0 ? calloc(into->count, sizeof(*fence)) : NULL;

    root->links = (enum files_links)config->files_symlinks;
    root->link_root = fence;
    for (size_t i = 0; fence != NULL && i < into->count; i++) {
        fence[i] = realpath(into->item[i], NULL);
        if (fence[i] == NULL)
            return -1;
        root->link_root_count++;
    }
    if (fence == NULL && into->count > 0)
        return -1;
    root->fd = open(config->server_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root->fd >= 0 ? 0 : -1;
}

static void close_root(struct files_root *root)
{
    for (size_t i = 0; i < root->link_root_count; i++)
        free((void *)root->link_root[i]);
    free((void *)root->link_root);
    if (root->fd >= 0)
        close(root->fd);
}

int site_open(struct site *site, const struct config *config)
{
    site->config = config;
    site->cache_descriptors = descriptors_for_cache();
    site->root.fd = -1;
    return open_root(&site->root, config);
}

static void fill_source(struct site *site)
{
    const struct config *config = site->config;

    site->headers = (struct header_rules){config->headers, config->header_count};
    site->source = (struct resource_source){
        .headers = &site->headers,
        .memory_limit = config->cache_max_object,
        .copy_limit = config->cache_max_copy < config->cache_max_object ? config->cache_max_copy
                                                                        : config->cache_max_object,
        .precompressed = config->cache_precompressed,
        .compress = config->cache_compress && config->cache_enabled,
        .mime = mime_table_new(config->mime_extensions, config->mime_types, config->mime_count),
        .root = &site->root,
    };
}

int site_fill(struct site *site, struct segment_worker *block)
{
    const struct config *config = site->config;

    fill_source(site);
    if (site->source.mime == NULL || make_cache(site) != 0)
        return -1;
    site->offload =
        offload_start(config->workers_offload_queue, config->workers_offload_threads.least,
                      config->workers_offload_threads.most, block);
    site->peers = peers_new(site->segment, site->worker_slot);
    return site->offload != NULL && site->peers != NULL ? 0 : -1;
}

void site_count_received(const struct site *site)
{
    metric_add_shared(segment_worker(site->segment, site->worker_slot)->metrics,
                      METRIC_connections_received, 1);
}

void site_close(struct site *site)
{
    if (site->offload != NULL)
        offload_stop(site->offload);
    cache_free(site->cache);
    peers_free(site->peers);
    mime_table_free((struct mime_table *)(uintptr_t)site->source.mime);
    close_root(&site->root);
}
