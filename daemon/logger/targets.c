#include "daemon/logger/targets.h"

#include "daemon/base/hash.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t key_seed = UINT64_C(0x10a7e75);

static int by_text(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

static bool has_own_file(const struct config *config, const struct config_host *host)
{
    return strcmp(host->access_log, "off") != 0 &&
           strcmp(host->access_log, config->log_access) != 0;
}

/*
 * Collects the paths of CONFIG in a new array, sorted, each once; they belong to CONFIG. NULL: out of
 * memory.
 */
static const char **collect(const struct config *config, size_t *count)
{
    const char **path = calloc(config->host_count + 1, sizeof(*path));
    size_t all = 0, kept = 0;

    *count = 0;
    if (path == NULL)
        return NULL;
    for (size_t i = 0; i < config->host_count; i++)
        if (has_own_file(config, &config->hosts[i]))
            path[all++] = config->hosts[i].access_log;
    qsort(path, all, sizeof(*path), by_text);
    for (size_t i = 0; i < all; i++)
        if (kept == 0 || strcmp(path[kept - 1], path[i]) != 0)
            path[kept++] = path[i];
    *count = kept;
    return path;
}

size_t log_targets_count(const struct config *config)
{
    size_t count;

    free(collect(config, &count));
    return count;
}

int log_targets_make(struct log_targets *targets, const struct config *config)
{
    size_t count;
    const char **path = collect(config, &count);

    *targets = (struct log_targets){.path = calloc(count + 1, sizeof(*targets->path))};
    for (size_t i = 0; path != NULL && targets->path != NULL && targets->count == i && i < count;
         i++) {
        targets->path[i] = strdup(path[i]);
        targets->count += targets->path[i] != NULL;
    }
    free(path);
    if (path != NULL && targets->path != NULL && targets->count == count)
        return 0;
    log_targets_free(targets);
    return -1;
}

void log_targets_free(struct log_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++)
        free(targets->path[i]);
    free(targets->path);
    free(targets->of_entry);
    *targets = (struct log_targets){.path = NULL};
}

int log_targets_reserve(struct log_targets *targets, uint32_t entries)
{
    free(targets->of_entry);
    targets->of_entry = calloc(entries, sizeof(*targets->of_entry));
    targets->entries = targets->of_entry != NULL ? entries : 0;
    return targets->of_entry != NULL ? 0 : -1;
}

uint32_t log_targets_of_config(const struct log_targets *targets, const struct config_host *host)
{
    char **found = NULL;

    if (host != NULL && targets->count > 0)
        found = bsearch((const void *)&host->access_log, targets->path, targets->count,
                        sizeof(*targets->path), by_text);
    return found != NULL ? (uint32_t)(found - targets->path) + 1 : 0;
}

uint64_t log_targets_key(const struct log_targets *targets, uint32_t target)
{
    uint64_t key;

    if (target == 0 || target > targets->count)
        return 0;
    key = hash_bytes(targets->path[target - 1], strlen(targets->path[target - 1]), key_seed);
    return key != 0 ? key : 1;
}

uint32_t log_targets_find(const struct log_targets *targets, uint64_t key)
{
    uint32_t target = targets->count;

    while (target > 0 && log_targets_key(targets, target) != key)
        target--;
    return target;
}

bool log_targets_equal(const struct log_targets *one, const struct log_targets *other)
{
    uint32_t entries = one->entries > other->entries ? one->entries : other->entries;

    if (one->count != other->count)
        return false;
    for (uint32_t i = 0; i < one->count; i++)
        if (strcmp(one->path[i], other->path[i]) != 0)
            return false;
    for (uint32_t i = 0; i < entries; i++)
        if (log_targets_of_entry(one, i) != log_targets_of_entry(other, i))
            return false;
    return true;
}
