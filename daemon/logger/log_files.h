/*
 * The targets of the access log: target 0 is [log] access, each other one a file that [host]
 * sections name as their access_log. Which target a record has follows from the host in it, which a
 * worker wrote. And the descriptors of all logs: the master opens and reopens them, because the
 * logger has no rights, and passes them to the logger (process.h).
 */
#ifndef DAEMON_LOG_FILES_H
#define DAEMON_LOG_FILES_H

#include "daemon/base/messages.h"
#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Targets */

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

/* Descriptors. The master. */

/* A log has a number: enum log_kind, or LOG_KINDS + n for the file targets.path[n]. */
struct log_files {
    const struct config *config; /* names the logs of enum log_kind; borrowed */
    int fd[LOG_KINDS];           /* -1: off, lost, or not opened */
    struct log_targets targets;  /* of the access log; also which host has which */
    int *host_fd;                /* [targets.count] */
};

/*
 * Descriptors that the master may need for each file of a [host]: at a reload and a rotation at
 * once.
 */
enum { LOG_FILES_DESCRIPTORS = 4 };

#define LOG_FILES_NONE ((struct log_files){.fd = {-1, -1}})

/*
 * Opens the target TEXT of a log (daemon/config/value.h): a socket, or for appending a regular
 * file, a character device or a pipe that has a reader. Follows no symbolic link. "-" duplicates
 * FALLBACK. Returns the descriptor, or -1 with WHY.
 */
int log_file_open(const char *text, int fallback, char *why, size_t size);

/*
 * Checks that the process may have the descriptors for the logs of CONFIG. Returns 0, or -1 with
 * WHY.
 */
int log_files_check(const struct config *config, char *why, size_t size);

/*
 * Checks that this process could open the logs of CONFIG, without creating one. Calls REPORT for
 * each that it could not. Returns 0, or -1 if there is one.
 */
int log_files_check_access(const struct config *config, void (*report)(const char *why));

/*
 * Opens the logs of CONFIG, except those that are off; no host has an entry in the targets yet. If
 * only [log] access is off, /dev/null takes its place. Returns 0, or -1 with WHY and none open.
 */
int log_files_open(struct log_files *files, const struct config *config, char *why, size_t size);

/* Opens them again, for example after a rotation. Returns 0, or -1 with WHY and the old ones. */
int log_files_reopen(struct log_files *files, char *why, size_t size);

/* Number of logs. */
uint32_t log_files_count(const struct log_files *files);

/* The descriptor of LOG; -1: none. */
int log_files_fd(const struct log_files *files, uint32_t log);

/* The receiver of one log has gone: closes it, and tries to open it. 0, or -1 with WHY. */
void log_files_lose(struct log_files *files, uint32_t log);
int log_files_restore(struct log_files *files, uint32_t log, char *why, size_t size);

/* True if a log is neither open nor off. */
bool log_files_lack(const struct log_files *files, uint32_t log);

void log_files_close(struct log_files *files);

#endif
