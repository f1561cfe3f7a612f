#include "daemon/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Never waits for a FIFO's writer, never makes a terminal ours, never leaks into a child. */
#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* What the kernel turned out to lack: learned by the first call that meets it, then remembered. */
static _Atomic bool no_openat2;
static _Atomic bool no_resolve_cached;
static _Atomic bool fallback_forced; /* by a test */

static int open_below(int root, const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = OPEN_FLAGS,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS |
                                      RESOLVE_NO_SYMLINKS | resolve};

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* RESOLVE_CACHED came with Linux 5.12, openat2 with 5.6: between them the flag is EINVAL. */
static int open_by_kernel(int root, const char *path, enum files_effort effort)
{
    bool cached = effort == FILES_CACHED_ONLY &&
                  !atomic_load_explicit(&no_resolve_cached, memory_order_relaxed);
    int fd = open_below(root, path, cached ? RESOLVE_CACHED : 0);

    if (fd >= 0 || !cached || errno != EINVAL)
        return fd;
    fd = open_below(root, path, 0);
    if (fd >= 0 || errno != EINVAL)
        atomic_store_explicit(&no_resolve_cached, true, memory_order_relaxed);
    return fd;
}

/* Closes FD unless it is ROOT, which is not ours; errno stays. */
static void close_step(int fd, int root)
{
    int error = errno;

    if (fd != root)
        close(fd);
    errno = error;
}

/*
 * Goes from FOLDER into its subfolder NAME without following it if it is a link. O_PATH opens the
 * link itself, so that it can be told from what is no folder.
 */
static int enter_folder(int folder, const char *name)
{
    struct stat status;
    int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int error;

    if (fd < 0)
        return -1;
    if (fstat(fd, &status) != 0)
        error = errno;
    else if (S_ISDIR(status.st_mode))
        return fd;
    else
        error = S_ISLNK(status.st_mode) ? ELOOP : ENOTDIR;
    close(fd);
    errno = error;
    return -1;
}

/* Copies the component at the head of PATH to NAME (NAME_MAX + 1 bytes). */
static int first_component(const char *path, char *name)
{
    size_t length = strcspn(path, "/");

    if (length > NAME_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name, path, length);
    name[length] = '\0';
    if (strcmp(name, "..") == 0) {
        errno = EXDEV; /* as openat2 says of what leaves the root; a canonical path has none */
        return -1;
    }
    return 0;
}

/*
 * The same without openat2: component by component, following no link. A name followed by a slash
 * is entered, so "file/" is refused and "folder/" opens the folder.
 */
static int open_by_walk(int root, const char *path)
{
    char name[NAME_MAX + 1];
    int folder = root, next, fd = -1;

    if (strlen(path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    while (first_component(path, name) == 0) {
        path += strlen(name);
        if (*path == '\0') {
            fd = openat(folder, name[0] != '\0' ? name : ".", OPEN_FLAGS | O_NOFOLLOW);
            break;
        }
        path += strspn(path, "/");
        next = enter_folder(folder, name);
        if (next < 0)
            break;
        close_step(folder, root);
        folder = next;
    }
    close_step(folder, root);
    return fd;
}

static int open_either_way(int root, const char *path, enum files_effort effort)
{
    int fd;

    if (!atomic_load_explicit(&no_openat2, memory_order_relaxed) &&
        !atomic_load_explicit(&fallback_forced, memory_order_relaxed)) {
        fd = open_by_kernel(root, path, effort);
        if (fd >= 0 || errno != ENOSYS)
            return fd;
        atomic_store_explicit(&no_openat2, true, memory_order_relaxed);
    }
    return open_by_walk(root, path);
}

static void fill_file(struct file *file, int fd, const struct stat *status)
{
    file->fd = fd;
    file->folder = S_ISDIR(status->st_mode);
    file->size = (uint64_t)status->st_size;
    file->mtime_s = status->st_mtim.tv_sec;
    file->mtime_ns = (uint32_t)status->st_mtim.tv_nsec;
    file->device = status->st_dev;
    file->inode = status->st_ino;
}

/* The errno of a failed open as files_open() promises it. */
static int settle_error(int error, enum files_effort effort)
{
    if (error == ENXIO || error == ENODEV)
        return EACCES; /* a socket, or a device without a driver */
    if (error == EAGAIN && effort != FILES_CACHED_ONLY)
        return EBUSY; /* another process holds a write lease, fcntl(2), and is being asked to yield
                       */
    return error;
}

int files_open(int root, const char *path, enum files_effort effort, struct file *file)
{
    struct stat status;
    int error = 0;
    int fd;

    path += strspn(path, "/");
    fd = open_either_way(root, path[0] != '\0' ? path : ".", effort);
    if (fd < 0)
        return settle_error(errno, effort);
    if (fstat(fd, &status) != 0)
        error = errno;
    else if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        error = EACCES;
    if (error != 0) {
        close(fd);
        return error;
    }
    fill_file(file, fd, &status);
    return 0;
}

int files_status(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
        return 404;
    case EACCES:
    case EPERM:
    case ELOOP:
    case EXDEV:
        return 403;
    case EAGAIN:
    case EBUSY:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return 503;
    default:
        return 500;
    }
}

ssize_t files_read(int fd, void *buffer, size_t length, uint64_t offset, enum files_effort effort)
{
    struct iovec piece = {buffer, length};
    ssize_t got;

    if (effort == FILES_CACHED_ONLY) {
        got = preadv2(fd, &piece, 1, (off_t)offset, RWF_NOWAIT);
        if (got >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
            return got;
    }
    return pread(fd, buffer, length, (off_t)offset);
}

void files_force_fallback(bool on)
{
    atomic_store_explicit(&fallback_forced, on, memory_order_relaxed);
}
