#include "daemon/worker/context.h"

#include "daemon/http/logins.h"
#include "daemon/transaction/accounting.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
    const struct cache_limits limits = {config->cache_size, context->cache_descriptors};

    if (!config->cache_enabled)
        return 0;
    context->cache = cache_new(&limits, worker_context_cache_policy(config->cache_policy),
                               resource_destroy, context->segment, context->worker_slot);
    return context->cache != NULL ? 0 : -1;
}

int worker_context_open(struct worker_context *context, const struct config *config)
{
    struct rlimit limit;

    context->config = config;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) /* getrlimit() fails in the sandbox */
        context->cache_descriptors = worker_context_cache_descriptors(&limit);
    return sites_open(&context->sites, config);
}

int worker_context_fill(struct worker_context *context, struct segment_worker *block)
{
    const struct config *config = context->config;

    context->mime = mime_table_new(config->mime_extensions, config->mime_types, config->mime_count);
    if (context->mime == NULL || sites_fill(&context->sites, context->mime) != 0 ||
        make_cache(context) != 0)
        return -1;
    for (uint32_t i = 0; context->host_places != NULL && i < context->sites.count; i++)
        context->sites.site[i].host = (uint16_t)context->host_places[i].entry;
    context->offload =
        offload_start(config->workers_offload_queue, config->workers_offload_threads.min,
                      config->workers_offload_threads.max, block);
    context->client_limit = client_limit_new(context->segment, context->worker_slot);
    context->logins = logins_new(config->limits_failed_logins);
    return context->offload != NULL && context->client_limit != NULL && context->logins != NULL
               ? 0
               : -1;
}

void worker_context_close(struct worker_context *context)
{
    if (context->offload != NULL)
        offload_stop(context->offload);
    cache_free(context->cache);
    client_limit_free(context->client_limit);
    logins_free(context->logins);
    sites_close(&context->sites);
    mime_table_free(context->mime);
}
