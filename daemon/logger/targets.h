/*
 * The targets of the access log: target 0 is [log] access, each other one a file that [host] sections
 * name as their access_log. Which target a record has follows from the host in it, which a worker wrote.
 */
#ifndef DAEMON_LOGGER_TARGETS_H
#define DAEMON_LOGGER_TARGETS_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log_targets {
    char **path;        /* [count]: target n is the file path[n - 1]; sorted */
    uint32_t count;     /* without target 0 */
    uint16_t *of_entry; /* [entries]: target of the host with this entry in section HOSTS */
    uint32_t entries;
};

/* Number of files that the [host] sections of CONFIG name, beside [log] access. */
size_t log_targets_count(const struct config *config);

/* The targets of CONFIG; no host has an entry yet. Returns 0, or -1: out of memory, with none. */
int log_targets_make(struct log_targets *targets, const struct config *config);
void log_targets_free(struct log_targets *targets);

/* Prepares for ENTRIES entries, all with target 0. Returns 0, or -1: out of memory. */
int log_targets_reserve(struct log_targets *targets, uint32_t entries);

/* The target of HOST (NULL: 0) of the same configuration. A host whose log is off has target 0. */
uint32_t log_targets_of_config(const struct log_targets *targets, const struct config_host *host);

/* A number that identifies the file of TARGET also after a reload; of target 0 it is 0. */
uint64_t log_targets_key(const struct log_targets *targets, uint32_t target);

/* The target with KEY; 0 if there is none any more. */
uint32_t log_targets_find(const struct log_targets *targets, uint64_t key);

/* True if both have the same files for the same entries. */
bool log_targets_equal(const struct log_targets *one, const struct log_targets *other);

/* The target of the record with the host ENTRY, which may be any number. */
static inline uint32_t log_targets_of_entry(const struct log_targets *targets, uint64_t entry)
{
    return entry < targets->entries ? targets->of_entry[entry] : 0;
}

#endif
