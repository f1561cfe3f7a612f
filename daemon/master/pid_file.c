#include "daemon/master/pid_file.h"

#include "common/clock.h"
#include "common/control_client.h"
#include "common/segment_reader.h"
#include "daemon/base/events.h"
#include "daemon/base/service.h"
#include "daemon/master/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

static long pid_in(int fd)
{
    char text[32] = "";

    return pread(fd, text, sizeof(text) - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
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
    fd = open(pid_file->path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && path_is(pid_file->path, fd)) {
        fchmod(fd, 0644); /* whatever the umask */
        pid_file->lock_fd = fd;
        return LOCKED;
    }
    if (fd >= 0)
        close(fd);
    signals_unblock();
    return fd >= 0 ? BUSY : LOCK_FAILED;
}

static long pid_of_owner(const struct pid_file *pid_file)
{
    int fd = open(pid_file->path, O_RDONLY | O_CLOEXEC);
    long pid = fd >= 0 ? pid_in(fd) : 0;

    if (fd >= 0)
        close(fd);
    return pid;
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
                    : "processes of '%s' (pid %ld) still hold its lock and do not respond; kill "
                      "them, or use a name other than %s",
                config->server_name, pid_of_owner(pid_file), config->server_name);
            return -1;
        }
        usleep(PROBE_MS * 1000);
    }
    if (result == LOCK_FAILED)
        snprintf(why, size, "cannot open the pid file %s: %s", pid_file->path, strerror(errno));
    return result == LOCKED ? 0 : -1;
}

/*
 * The lock covers only the run directory: a server with another one may use the same segment and
 * socket names. Those of a dead server are removed.
 */

static int remove_segment(const struct config *config, const struct pid_file_owner *owner,
                          char *why, size_t size)
{
    char name[INSTANCE_PATH_MAX], problem[256] = "its server has ended";
    struct segment_reader reader;
    enum segment_health health = SEGMENT_DEAD;
    int pid = 0;

    if (segment_attach(&reader, config->server_name, problem, sizeof(problem)) ==
        SEGMENT_ATTACHED) {
        health = segment_health(&reader, clock_monotonic_ns());
        pid = reader.map.header.master_pid;
        if (health == SEGMENT_DEAD)
            owner->died(owner->context, &reader.map);
        segment_detach(&reader);
    }
    if (health == SEGMENT_ALIVE || health == SEGMENT_SILENT) {
        snprintf(why, size,
                 "'%s' is already running with pid %d and another run_dir; use another "
                 "name: -o server.name=NAME",
                 config->server_name, pid);
        return -1;
    }
    if (instance_segment_name(config->server_name, name, sizeof(name)) != 0 ||
        shm_unlink(name) == 0 || errno == ENOENT)
        return 0;
    snprintf(why, size, "cannot remove /dev/shm%s: %s; use another name: -o server.name=NAME (%s)",
             name, strerror(errno), problem);
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
    unlink(path);
    return 0;
}

static int write_pid_path(struct pid_file *pid_file, const struct config *config, char *why,
                          size_t size)
{
    int written = snprintf(pid_file->path, sizeof(pid_file->path), "%s/%s.pid",
                           config->server_run_dir, config->server_name);

    pid_file->lock_fd = -1;
    if ((size_t)written < sizeof(pid_file->path))
        return 0;
    snprintf(why, size, "the path of the pid file in %s is too long", config->server_run_dir);
    return -1;
}

int pid_file_inherit(struct pid_file *pid_file, const struct config *config, int lock_fd, char *why,
                     size_t size)
{
    if (write_pid_path(pid_file, config, why, size) != 0)
        return -1;
    if (!path_is(pid_file->path, lock_fd)) {
        snprintf(why, size,
                 "server.name and server.run_dir cannot change in an upgrade: %s is not "
                 "the pid file of the running server",
                 pid_file->path);
        return -1;
    }
    pid_file->lock_fd = lock_fd;
    signals_block();
    return 0;
}

int pid_file_acquire(struct pid_file *pid_file, const struct config *config,
                     const struct pid_file_owner *owner, char *why, size_t size)
{
    if (write_pid_path(pid_file, config, why, size) != 0)
        return -1;
    if (run_dir_prepare(config->server_run_dir, why, size) != 0 ||
        wait_for_lock(pid_file, config, why, size) != 0)
        return -1;
    if (remove_segment(config, owner, why, size) == 0 &&
        remove_socket(config->control_socket, why, size) == 0)
        return 0;
    pid_file_release(pid_file);
    return -1;
}

void pid_file_write(const struct pid_file *pid_file)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%d\n", getpid());
    int fd = open(pid_file->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 || !path_is(pid_file->path, pid_file->lock_fd) || ftruncate(fd, 0) != 0 ||
        pwrite(fd, text, (size_t)length, 0) != length)
        event_log(LEVEL_ERROR, "cannot write %s: %s", pid_file->path, strerror(errno));
    if (fd >= 0)
        close(fd);
}

void pid_file_release(struct pid_file *pid_file)
{
    if (pid_file->lock_fd < 0)
        return;
    if (pid_in(pid_file->lock_fd) == getpid() || pid_in(pid_file->lock_fd) == 0)
        unlink(pid_file->path);
    close(pid_file->lock_fd);
    pid_file->lock_fd = -1;
}
