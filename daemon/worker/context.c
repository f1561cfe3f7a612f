#include "daemon/worker/context.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CACHE_DESCRIPTORS_MAX = 1024 };

uint32_t worker_context_cache_descriptors(const struct rlimit *limit)
{
    rlim_t share = limit->rlim_cur / 4;

    return share < CACHE_DESCRIPTORS_MAX ? (uint32_t)share : CACHE_DESCRIPTORS_MAX;
}

const struct cache_policy *worker_context_cache_policy(uint64_t policy)
{
    return policy == POLICY_LRU ? &cache_policy_lru : &cache_policy_sieve;
}

static int make_cache(struct worker_context *context)
{
    const struct config *config = context->config;
    const struct cache_limits limits = {config->cache_size, config->cache_max_entries,
                                        context->cache_descriptors};

    if (!config->cache_enabled)
        return 0;
    context->cache = cache_new(&limits, worker_context_cache_policy(config->cache_policy),
                               resource_destroy, context->segment, context->worker_slot);
    return context->cache != NULL ? 0 : -1;
}

static_assert((int)FILES_LINKS_INSIDE == SYMLINKS_INSIDE &&
                  (int)FILES_LINKS_FOLLOW == SYMLINKS_FOLLOW,
              "values of [files] symlinks equal enum files_links");

/* Link roots are real paths, because the kernel reports the real paths of the files below them. */
static int open_root(struct files_root *root, const struct config *config)
{
    const struct config_paths *into = &config->files_follow_into;
    const char **link_root = into->count > 0 ? calloc(into->count, sizeof(*link_root)) : NULL;

    root->links = (enum files_links)config->files_symlinks;
    root->link_root = link_root;
    for (size_t i = 0; link_root != NULL && i < into->count; i++) {
        link_root[i] = realpath(into->item[i], NULL);
        if (link_root[i] == NULL)
            return -1;
        root->link_root_count++;
    }
    if (link_root == NULL && into->count > 0)
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

int worker_context_open(struct worker_context *context, const struct config *config)
{
    struct rlimit limit;

    context->config = config;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) /* getrlimit() fails in the sandbox */
        context->cache_descriptors = worker_context_cache_descriptors(&limit);
    context->root.fd = -1;
    return open_root(&context->root, config);
}

static void fill_source(struct worker_context *context)
{
    const struct config *config = context->config;

    context->headers = (struct header_rules){config->headers, config->header_count};
    context->source = (struct resource_source){
        .headers = &context->headers,
        .memory_limit = config->cache_max_object,
        .copy_limit = config->cache_max_copy < config->cache_max_object ? config->cache_max_copy
                                                                        : config->cache_max_object,
        .precompressed = config->cache_precompressed,
        .compress = config->cache_compress && config->cache_enabled,
        .mime = mime_table_new(config->mime_extensions, config->mime_types, config->mime_count),
        .root = &context->root,
    };
}

int worker_context_fill(struct worker_context *context, struct segment_worker *block)
{
    const struct config *config = context->config;

    fill_source(context);
    if (context->source.mime == NULL || make_cache(context) != 0)
        return -1;
    context->offload =
        offload_start(config->workers_offload_queue, config->workers_offload_threads.min,
                      config->workers_offload_threads.max, block);
    context->client_limit = client_limit_new(context->segment, context->worker_slot);
    return context->offload != NULL && context->client_limit != NULL ? 0 : -1;
}

void worker_context_close(struct worker_context *context)
{
    if (context->offload != NULL)
        offload_stop(context->offload);
    cache_free(context->cache);
    client_limit_free(context->client_limit);
    mime_table_free((struct mime_table *)(uintptr_t)context->source.mime);
    close_root(&context->root);
}
