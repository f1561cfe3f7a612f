#include "daemon/master/pid_file.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/segment_reader.h"
#include "daemon/base/directory.h"
#include "daemon/base/events.h"
#include "daemon/base/service.h"
#include "daemon/master/process_record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The run directory */

static int check_run_dir(const struct directory_entry *entry, const char *path, char *why,
                         size_t size)
{
    struct stat status;

    if (fstatat(entry->directory, entry->name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
        snprintf(why, size,
                 "the run directory %s is not a directory owned by this user (set server.run_dir)",
                 path);
    else if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        snprintf(why, size,
                 "group or others may write to the run directory %s: chmod go-w %s, or set "
                 "server.run_dir",
                 path, path);
    else
        return 0;
    return -1;
}

int run_dir_prepare(const char *path, char *why, size_t size)
{
    struct directory_entry entry;
    int error = directory_find(&entry, path, 0) == 0 ? 0 : errno, result = -1;

    if (entry.weakness[0] != '\0')
        snprintf(why, size,
                 "others can replace the run directory %s: %s (chmod go-w, or set server.run_dir)",
                 path, entry.weakness);
    else if (error != 0 ||
             (mkdirat(entry.directory, entry.name, geteuid() == 0 ? 0755 : 0700) != 0 &&
              errno != EEXIST))
        snprintf(why, size, "cannot create the run directory %s: %s (set server.run_dir)", path,
                 strerror(error != 0 ? error : errno));
    else
        result = check_run_dir(&entry, path, why, size);
    if (error == 0)
        close(entry.directory);
    return result;
}

/* The lock */

enum { WAIT_MS = 5000, PROBE_MS = 50 };

static bool master_replies(const char *socket_path)
{
    struct control_client client;
    const char *line;
    char why[256];
    bool replies;

    if (control_connect(&client, socket_path, why, sizeof(why)) != CONTROL_PENDING)
        return false;
    replies = control_send(&client, "ping", why, sizeof(why)) == CONTROL_PENDING &&
              control_receive(&client, 1000, &line, why, sizeof(why)) == CONTROL_REPLY;
    control_close(&client);
    return replies;
}

/* The pid in the pid file; 0: there is none yet. */
static long pid_of_owner(const struct pid_file *pid_file)
{
    int fd = open(pid_file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char text[32] = "";
    long pid = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 ? strtol(text, NULL, 10) : 0;

    if (fd >= 0)
        close(fd);
    return pid > 0 && pid <= INT_MAX ? pid : 0;
}

/*
 * False if the previous owner removed the file between open() and flock(); the lock is then
 * useless.
 */
static bool path_is(const char *path, int fd)
{
    struct stat named, opened;

    return stat(path, &named) == 0 && fstat(fd, &opened) == 0 && named.st_ino == opened.st_ino &&
           named.st_dev == opened.st_dev;
}

enum lock_result { LOCKED, BUSY, LOCK_FAILED };

/*
 * Signals are held as soon as the file may exist, so that it is always removed; unless it is
 * LOCKED, they are handled again. LOCK_FAILED sets errno.
 */
static enum lock_result try_lock(struct pid_file *pid_file)
{
    int fd;

    signals_block();
    fd = open(pid_file->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && path_is(pid_file->lock_path, fd)) {
        fchmod(fd, 0600); /* whatever it was */
        pid_file->lock_fd = fd;
        return LOCKED;
    }
    if (fd >= 0)
        close(fd);
    signals_unblock();
    return fd >= 0 ? BUSY : LOCK_FAILED;
}

/*
 * False if only processes that a dead master has left hold the lock, such as the old master of an
 * upgrade whose new one has died. True while a master starts, which has not written its pid yet.
 */
static bool owner_lives(const struct pid_file *pid_file)
{
    int fd = open(pid_file->lock_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool lives = fd < 0 || process_record_lives(fd, (pid_t)pid_of_owner(pid_file));

    if (fd >= 0)
        close(fd);
    return lives;
}

static void end_left_processes(const struct pid_file *pid_file)
{
    int fd = open(pid_file->lock_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return;
    process_record_end_all(fd, WAIT_MS);
    close(fd);
}

static int wait_for_lock(struct pid_file *pid_file, const struct config *config, char *why,
                         size_t size)
{
    uint64_t deadline = clock_monotonic_ns() + WAIT_MS * NS_PER_MS;
    enum lock_result result;

    while ((result = try_lock(pid_file)) == BUSY) {
        bool replies = master_replies(config->control_socket);

        if (replies || clock_monotonic_ns() > deadline) {
            snprintf(
                why, size,
                replies
                    ? "'%s' is already running with pid %ld; stop it with: wsctl -n %s stop, or "
                      "use another name: -o server.name=NAME"
                    : "the master of '%s' (pid %ld) holds its lock and does not respond; kill it, "
                      "or use a name other than %s",
                config->server_name, pid_of_owner(pid_file), config->server_name);
            return -1;
        }
        if (!owner_lives(pid_file))
            end_left_processes(pid_file);
        usleep(PROBE_MS * 1000);
    }
    if (result == LOCK_FAILED)
        snprintf(why, size, "cannot open the lock %s: %s", pid_file->lock_path, strerror(errno));
    return result == LOCKED ? 0 : -1;
}

/*
 * The lock covers only the run directory: a server with another one may use the same segment and
 * socket names. Those of a dead server are removed.
 */

static int remove_segment(const struct config *config, struct salvage *salvage,
                          const struct log_files *logs, char *why, size_t size)
{
    struct segment_reader reader;
    enum segment_health health = SEGMENT_DEAD;
    int pid = 0;

    if (segment_attach(&reader, config->server_name, why, size) == SEGMENT_ATTACHED) {
        health = segment_health(&reader, clock_monotonic_ns());
        pid = reader.map.header.master_pid;
        if (health == SEGMENT_DEAD)
            salvage_read(salvage, &reader.map, logs);
        segment_detach(&reader);
    }
    if (health == SEGMENT_ALIVE || health == SEGMENT_SILENT) {
        snprintf(why, size,
                 "'%s' is already running with pid %d and another run_dir; use another "
                 "name: -o server.name=NAME",
                 config->server_name, pid);
        return -1;
    }
    if (instance_remove_segments(config->server_name, false) == 0)
        return 0;
    snprintf(why, size,
             "cannot remove the shared memory of '%s': %s; use another name: -o server.name=NAME",
             config->server_name, strerror(errno));
    return -1;
}

static int remove_socket(const char *path, char *why, size_t size)
{
    struct stat status;

    if (lstat(path, &status) != 0)
        return 0;
    if (!S_ISSOCK(status.st_mode)) {
        snprintf(why, size,
                 "cannot create the control socket %s: the file exists and is not a socket", path);
        return -1;
    }
    if (!instance_owner_trusted(status.st_uid, path, why, size))
        return -1;
    if (master_replies(path)) {
        snprintf(why, size, "another server uses the control socket %s (set control.socket)", path);
        return -1;
    }
    directory_remove(path);
    return 0;
}

static int write_lock_paths(struct pid_file *pid_file, const struct config *config, char *why,
                            size_t size)
{
    int written = snprintf(pid_file->lock_path, sizeof(pid_file->lock_path), "%s/%s.lock",
                           config->server_run_dir, config->server_name);

    pid_file->lock_fd = -1;
    snprintf(pid_file->path, sizeof(pid_file->path), "%s/%s.pid", config->server_run_dir,
             config->server_name);
    if ((size_t)written < sizeof(pid_file->lock_path))
        return 0;
    snprintf(why, size, "the path of the lock in %s is too long", config->server_run_dir);
    return -1;
}

int pid_file_inherit(struct pid_file *pid_file, const struct config *config, int lock_fd, char *why,
                     size_t size)
{
    if (write_lock_paths(pid_file, config, why, size) != 0)
        return -1;
    if (!path_is(pid_file->lock_path, lock_fd)) {
        snprintf(why, size,
                 "server.name and server.run_dir cannot change in an upgrade: %s is not "
                 "the lock of the running server",
                 pid_file->lock_path);
        return -1;
    }
    pid_file->lock_fd = lock_fd;
    process_record_add(lock_fd);
    signals_block();
    return 0;
}

int pid_file_acquire(struct pid_file *pid_file, const struct config *config,
                     struct salvage *salvage, const struct log_files *logs, char *why, size_t size)
{
    if (write_lock_paths(pid_file, config, why, size) != 0)
        return -1;
    if (run_dir_prepare(config->server_run_dir, why, size) != 0 ||
        wait_for_lock(pid_file, config, why, size) != 0)
        return -1;
    process_record_end_all(pid_file->lock_fd, WAIT_MS);
    unlink(pid_file->path); /* of a dead master: until pid_file_write() this one starts */
    process_record_add(pid_file->lock_fd);
    if (remove_segment(config, salvage, logs, why, size) == 0 &&
        remove_socket(config->control_socket, why, size) == 0)
        return 0;
    pid_file_release(pid_file);
    return -1;
}

void pid_file_write(const struct pid_file *pid_file)
{
    int fd = open(pid_file->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);

    if (fd < 0 || fchmod(fd, 0644) != 0 || dprintf(fd, "%d\n", getpid()) < 0)
        event_log(LEVEL_ERROR, "cannot write %s: %s", pid_file->path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

void pid_file_after_fork(struct pid_file *pid_file)
{
    if (pid_file->lock_fd < 0)
        return;
    process_record_add(pid_file->lock_fd);
    close(pid_file->lock_fd);
    pid_file->lock_fd = -1;
}

void pid_file_release(struct pid_file *pid_file)
{
    long pid = pid_of_owner(pid_file);

    if (pid_file->lock_fd < 0)
        return;
    if (pid == getpid() || pid == 0) {
        unlink(pid_file->path);
        unlink(pid_file->lock_path);
    }
    close(pid_file->lock_fd);
    pid_file->lock_fd = -1;
}
