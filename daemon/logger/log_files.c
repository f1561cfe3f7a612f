#include "daemon/logger/log_files.h"

#include "common/units.h"
#include "daemon/base/directory.h"
#include "daemon/base/hash.h"
#include "daemon/base/service.h"
#include "daemon/config/value.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { RESERVE = 48 }; /* descriptors of the master for all else but listen sockets */

/* Targets */

static const uint64_t key_seed = UINT64_C(0x10a7e75);

static int by_text(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/*
 * Collects the paths of CONFIG in a new array, sorted, each once; they belong to CONFIG. NULL: out
 * of memory.
 */
static const char **collect_paths(const struct config *config, size_t *count)
{
    const char **path = calloc(config->host_count + 1, sizeof(*path));
    size_t all = 0, kept = 0;

    *count = 0;
    if (path == NULL)
        return NULL;
    for (size_t i = 0; i < config->host_count; i++)
        if (strcmp(config->hosts[i].access_log, "off") != 0 &&
            strcmp(config->hosts[i].access_log, config->log_access) != 0)
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

    free(collect_paths(config, &count));
    return count;
}

int log_targets_make(struct log_targets *targets, const struct config *config)
{
    size_t count;
    const char **path = collect_paths(config, &count);

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

/* Opening a log */

/*
 * Others may write to the directory: a link of any kind could be to any file of the system.
 * O_NONBLOCK: the open of a FIFO without a reader fails, and a write to a full one, instead of
 * blocking. CREATE is O_CREAT, or 0 to check: if the file could be created, the descriptor is then
 * that of its directory. Returns a descriptor, or -1 with WHY.
 */
static int open_log_path(const char *path, int create, char *why, size_t size)
{
    struct directory_entry entry;
    struct stat file;
    int fd;

    if (directory_find(&entry, path, 0) != 0) {
        snprintf(why, size, "%s%s",
                 errno == ELOOP ? "a symbolic link of others is in its path: " : strerror(errno),
                 errno == ELOOP ? entry.weakness : "");
        return -1;
    }
    fd = directory_open_entry(entry.directory, entry.name,
                              O_WRONLY | create | O_APPEND | O_NOCTTY | O_NONBLOCK,
                              create != 0 ? 0640 : 0);
    if (fd < 0 && errno == ENOENT && create == 0 &&
        faccessat(entry.directory, ".", W_OK | X_OK, AT_EACCESS) == 0)
        return entry.directory;
    close(entry.directory);
    if (fd < 0)
        snprintf(why, size, "%s", errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    else if (fstat(fd, &file) != 0 ||
             (!S_ISREG(file.st_mode) && !S_ISFIFO(file.st_mode) && !S_ISCHR(file.st_mode)))
        snprintf(why, size, "neither a regular file nor a pipe nor a character device");
    else if (S_ISREG(file.st_mode) && file.st_nlink > 1 && entry.weakness[0] != '\0')
        snprintf(why, size, "it is a hard link, and others may have made it: %s", entry.weakness);
    else
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int open_log_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, path, strlen(path));
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

int log_file_open(const char *text, int fallback, char *why, size_t size)
{
    struct log_target target;
    const char *fault = log_target_parse(text, &target);
    int fd;

    if (fault != NULL) {
        snprintf(why, size, "%s", fault);
        return -1;
    }
    if (target.kind == LOG_TARGET_FILE && strcmp(text, "-") != 0)
        return open_log_path(target.path, O_CREAT, why, size);
    fd = strcmp(text, "-") == 0 ? daemonize_duplicate_stream(fallback)
                                : open_log_socket(target.path);
    if (fd < 0)
        snprintf(why, size, "%s", strerror(errno));
    return fd;
}

/* Opening all logs */

static const struct {
    const char *name;
    int fallback;
} logs[] = {[LOG_ACCESS] = {"access", STDOUT_FILENO}, [LOG_ERROR] = {"error", STDERR_FILENO}};

uint32_t log_files_count(const struct log_files *files)
{
    return LOG_KINDS + files->targets.count;
}

static int *fd_place(const struct log_files *files, uint32_t log)
{
    return log < LOG_KINDS ? (int *)(uintptr_t)&files->fd[log] : &files->host_fd[log - LOG_KINDS];
}

int log_files_fd(const struct log_files *files, uint32_t log)
{
    return *fd_place(files, log);
}

static const char *target_text(const struct log_files *files, uint32_t log)
{
    if (log >= LOG_KINDS)
        return files->targets.path[log - LOG_KINDS];
    return log == LOG_ACCESS ? files->config->log_access : files->config->log_error;
}

static bool log_is_off(const struct log_files *files, uint32_t log)
{
    return strcmp(target_text(files, log), "off") == 0;
}

/* The logger works while it has the access log, so that there is one if a host has its own. */
static bool log_is_needed(const struct log_files *files, uint32_t log)
{
    return !log_is_off(files, log) || files->targets.count > 0;
}

bool log_files_lack(const struct log_files *files, uint32_t log)
{
    return log_files_fd(files, log) < 0 && log_is_needed(files, log);
}

void log_files_lose(struct log_files *files, uint32_t log)
{
    int *fd = fd_place(files, log);

    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* A pipe or a terminal could be slow, and a slow log of one host would hold up all others. */
static int open_host_file(const char *path, char *why, size_t size)
{
    int fd = log_file_open(path, -1, why, size);
    struct stat file;

    if (fd < 0 || (fstat(fd, &file) == 0 && !S_ISFIFO(file.st_mode) && !isatty(fd)))
        return fd;
    close(fd);
    snprintf(why, size, "a pipe or terminal can only be [log] access");
    return -1;
}

/* Writes why LOG, with the target TEXT, cannot be opened. */
static void explain_log(uint32_t log, const char *text, const char *cause, char *why, size_t size)
{
    if (log < LOG_KINDS)
        snprintf(why, size,
                 "cannot open the %s log %s: %s (set log.%s to a file that the server may write, "
                 "or to - for the terminal)",
                 logs[log].name, text, cause, logs[log].name);
    else
        snprintf(why, size,
                 "cannot open the access log %s of a [host]: %s (set its access_log to a file that "
                 "the server may write, or to off)",
                 text, cause);
}

int log_files_restore(struct log_files *files, uint32_t log, char *why, size_t size)
{
    const char *text = log_is_off(files, log) ? "/dev/null" : target_text(files, log);
    char cause[128];
    int fd;

    if (log < LOG_KINDS)
        fd = log_file_open(text, logs[log].fallback, cause, sizeof(cause));
    else
        fd = open_host_file(text, cause, sizeof(cause));
    *fd_place(files, log) = fd;
    if (fd >= 0)
        return 0;
    explain_log(log, text, cause, why, size);
    return -1;
}

int log_files_check(const struct config *config, char *why, size_t size)
{
    size_t count = log_targets_count(config), needed = LOG_FILES_DESCRIPTORS * count + RESERVE;
    struct rlimit limit;

    if (count == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= needed)
        return 0;
    snprintf(why, size,
             "%zu %s of [host] sections: the master needs %zu descriptors (%d for each, and %d), "
             "but %" PRIu64 " are allowed (raise the limit: ulimit -n)",
             count, units_plural(count, "access log", "access logs"), needed, LOG_FILES_DESCRIPTORS,
             RESERVE, (uint64_t)limit.rlim_max);
    return -1;
}

/* Creates nothing. */
static bool may_open_log(const char *text, char *why, size_t size)
{
    struct log_target target;
    int fd;

    if (log_target_parse(text, &target) != NULL || target.kind == LOG_TARGET_OFF ||
        strcmp(text, "-") == 0)
        return true;
    fd = target.kind == LOG_TARGET_FILE ? open_log_path(target.path, 0, why, size)
                                        : log_file_open(text, -1, why, size);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* LOG as in explain_log(). */
static int check_log(uint32_t log, const char *text, void (*report)(const char *why))
{
    char cause[128], why[PATH_MAX + 256];

    if (may_open_log(text, cause, sizeof(cause)))
        return 0;
    explain_log(log, text, cause, why, sizeof(why));
    report(why);
    return -1;
}

int log_files_check_access(const struct config *config, void (*report)(const char *why))
{
    const char *const texts[] = {
        [LOG_ACCESS] = config->log_access, [LOG_ERROR] = config->log_error};
    int result = 0;

    for (uint32_t log = 0; log < LOG_KINDS; log++)
        if (check_log(log, texts[log], report) != 0)
            result = -1;
    for (size_t i = 0; i < config->host_count; i++)
        if (config->hosts[i].given[HOST_KEY_access_log] &&
            check_log(LOG_KINDS, config->hosts[i].access_log, report) != 0)
            result = -1;
    return result;
}

/* Makes the targets, and room for their descriptors. */
static int make_targets(struct log_files *files, const struct config *config, char *why,
                        size_t size)
{
    if (log_files_check(config, why, size) != 0)
        return -1;
    if (log_targets_make(&files->targets, config) == 0)
        files->host_fd = malloc((files->targets.count + 1) * sizeof(*files->host_fd));
    if (files->host_fd == NULL) {
        log_targets_free(&files->targets);
        snprintf(why, size, "out of memory");
        return -1;
    }
    for (uint32_t i = 0; i < files->targets.count; i++)
        files->host_fd[i] = -1;
    return 0;
}

int log_files_open(struct log_files *files, const struct config *config, char *why, size_t size)
{
    *files = LOG_FILES_NONE;
    files->config = config;
    if (make_targets(files, config, why, size) != 0)
        return -1;
    for (uint32_t log = 0; log < log_files_count(files); log++) {
        if (!log_is_needed(files, log) || log_files_restore(files, log, why, size) == 0)
            continue;
        log_files_close(files);
        return -1;
    }
    return 0;
}

/* The hosts keep their entries. */
int log_files_reopen(struct log_files *files, char *why, size_t size)
{
    struct log_files opened;
    struct log_targets targets = files->targets;

    if (log_files_open(&opened, files->config, why, size) != 0)
        return -1;
    files->targets = opened.targets;
    opened.targets = targets;
    log_files_close(files);
    *files = opened;
    return 0;
}

void log_files_close(struct log_files *files)
{
    for (uint32_t log = 0; log < log_files_count(files); log++)
        log_files_lose(files, log);
    free(files->host_fd);
    log_targets_free(&files->targets);
    files->host_fd = NULL;
}
