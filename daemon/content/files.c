#include "daemon/content/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * To find a file, not to read it: opening a device or a FIFO for reading has side effects. As a
 * descriptor keeps its file, what it is cannot change before files_open() opens it for reading.
 */
#define FIND_FLAGS (O_PATH | O_CLOEXEC)

/* Does not wait for a process with a lease on the file, fcntl(2). */
#define READ_FLAGS (O_RDONLY | O_NONBLOCK | O_CLOEXEC)

/* Without openat2(2): component by component, so that no link is followed unchecked. */

enum { LINKS_MAX = 40 }; /* as in the kernel */

/*
 * DIRECTORY is open at DONE; REST is the part of the path not yet walked. DONE has no links: each
 * of its components was entered as a directory.
 */
struct walk {
    int root;
    int directory; /* the root, or to be closed */
    bool links;
    unsigned followed;
    char name[NAME_MAX + 1]; /* the current component */
    char done[PATH_MAX];     /* "a/b", or "" at the root */
    char rest[PATH_MAX];
};

static int fail(int error)
{
    errno = error;
    return -1;
}

static void set_directory(struct walk *walk, int directory)
{
    int error = errno;

    if (walk->directory != walk->root)
        close(walk->directory);
    walk->directory = directory;
    errno = error;
}

/* Takes the first component of the rest. */
static int next_component(struct walk *walk)
{
    size_t length = strcspn(walk->rest, "/");

    if (length > NAME_MAX)
        return fail(ENAMETOOLONG);
    memcpy(walk->name, walk->rest, length);
    walk->name[length] = '\0';
    memmove(walk->rest, walk->rest + length, strlen(walk->rest + length) + 1);
    return 0;
}

/*
 * Finds NAME in DIRECTORY; ELOOP if it is a link. O_PATH opens a link itself, so that fstat() can
 * distinguish it from other files.
 */
static int find_component(int directory, const char *name, mode_t *mode)
{
    struct stat status;
    int fd = openat(directory, name, FIND_FLAGS | O_NOFOLLOW);
    int error;

    if (fd < 0)
        return -1;
    error = fstat(fd, &status) != 0 ? errno : S_ISLNK(status.st_mode) ? ELOOP : 0;
    if (error == 0) {
        *mode = status.st_mode;
        return fd;
    }
    close(fd);
    return fail(error);
}

static int find_directory(int directory, const char *name)
{
    mode_t mode;
    int fd = find_component(directory, name, &mode);

    if (fd < 0 || S_ISDIR(mode))
        return fd;
    close(fd);
    return fail(ENOTDIR);
}

static int enter(struct walk *walk)
{
    size_t length = strlen(walk->done);
    int fd = find_directory(walk->directory, walk->name);

    if (fd < 0)
        return -1;
    set_directory(walk, fd);
    if (strcmp(walk->name, "") == 0 || strcmp(walk->name, ".") == 0)
        return 0;
    if ((size_t)snprintf(walk->done + length, sizeof(walk->done) - length, "%s%s",
                         length > 0 ? "/" : "", walk->name) >= sizeof(walk->done) - length)
        return fail(ENAMETOOLONG);
    return 0;
}

/*
 * Walks from the root again, because ".." of a directory that was moved meanwhile could lead out.
 */
static int go_up(struct walk *walk)
{
    char again[PATH_MAX], *slash = strrchr(walk->done, '/');
    char *at = again, *end;

    if (!walk->links || walk->done[0] == '\0')
        return fail(EXDEV); /* as openat2() for a path that leaves the root */
    *(slash != NULL ? slash : walk->done) = '\0';
    memcpy(again, walk->done, strlen(walk->done) + 1);
    set_directory(walk, walk->root);
    for (; *at != '\0'; at = end) {
        int fd;

        end = at + strcspn(at, "/");
        if (*end == '/')
            *end++ = '\0';
        fd = find_directory(walk->directory, at);
        if (fd < 0)
            return -1;
        set_directory(walk, fd);
    }
    return 0;
}

/* The component is a link: its target is prepended to the rest. */
static int follow(struct walk *walk)
{
    char text[PATH_MAX];
    ssize_t length = readlinkat(walk->directory, walk->name, text, sizeof(text));
    size_t rest = strlen(walk->rest);

    if (length < 0)
        return errno == EINVAL ? fail(ELOOP) : -1; /* no longer a link */
    if (++walk->followed > LINKS_MAX)
        return fail(ELOOP);
    if (length == 0 || text[0] == '/')
        return fail(length == 0 ? ENOENT : EXDEV);
    if ((size_t)length + rest >= sizeof(walk->rest))
        return fail(ENAMETOOLONG);
    memmove(walk->rest + length, walk->rest, rest + 1);
    memcpy(walk->rest, text, (size_t)length);
    return 0;
}

enum walk_progress { WALK_ON, WALK_FOUND, WALK_FAILED };

static enum walk_progress follow_if_link(struct walk *walk)
{
    if (errno != ELOOP || !walk->links)
        return WALK_FAILED;
    return follow(walk) == 0 ? WALK_ON : WALK_FAILED;
}

/* A component before a slash must be a directory, so "file/" fails. */
static enum walk_progress step(struct walk *walk)
{
    enum walk_progress progress = WALK_ON;
    size_t slashes;

    if (strcmp(walk->name, "..") == 0)
        progress = go_up(walk) == 0 ? WALK_ON : WALK_FAILED;
    else if (enter(walk) != 0)
        progress = follow_if_link(walk);
    slashes = strspn(walk->rest, "/");
    memmove(walk->rest, walk->rest + slashes, strlen(walk->rest + slashes) + 1);
    return progress;
}

static enum walk_progress find_last(struct walk *walk, int *fd)
{
    const char *name = walk->name[0] != '\0' ? walk->name : ".";
    mode_t mode;

    if (strcmp(name, "..") == 0) {
        if (go_up(walk) != 0)
            return WALK_FAILED;
        name = ".";
    }
    *fd = find_component(walk->directory, name, &mode);
    return *fd >= 0 ? WALK_FOUND : follow_if_link(walk);
}

static int walk_path(int root, const char *path, bool links)
{
    struct walk walk = {.root = root, .directory = root, .links = links};
    enum walk_progress progress = WALK_ON;
    int fd = -1;

    if (strlen(path) >= sizeof(walk.rest))
        return fail(ENAMETOOLONG);
    memcpy(walk.rest, path, strlen(path) + 1);
    while (progress == WALK_ON) {
        if (next_component(&walk) != 0)
            progress = WALK_FAILED;
        else if (walk.rest[0] == '\0')
            progress = find_last(&walk, &fd);
        else
            progress = step(&walk);
    }
    set_directory(&walk, root);
    return fd;
}

/* Missing kernel features, remembered by the first call that fails. */
static _Atomic bool no_openat2;
static _Atomic bool no_resolve_cached;
static _Atomic bool fallback_forced; /* for tests */

static uint64_t resolve_of(enum files_links links)
{
    switch (links) {
    case FILES_LINKS_DENY:
        return RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    case FILES_LINKS_INSIDE:
        return RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH;
    case FILES_LINKS_FOLLOW:
        break;
    }
    return RESOLVE_NO_MAGICLINKS;
}

static int find_below(const struct files_root *root, const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = FIND_FLAGS, .resolve = resolve_of(root->links) | resolve};

    return (int)syscall(SYS_openat2, root->fd, path, &how, sizeof(how));
}

/* openat2() exists since Linux 5.6, RESOLVE_CACHED since 5.12; in between the flag gives EINVAL. */
static int find_by_kernel(const struct files_root *root, const char *path, enum files_effort effort)
{
    bool cached = effort == FILES_CACHED_ONLY &&
                  !atomic_load_explicit(&no_resolve_cached, memory_order_relaxed);
    int fd = find_below(root, path, cached ? RESOLVE_CACHED : 0);

    if (fd >= 0 || !cached || errno != EINVAL)
        return fd;
    fd = find_below(root, path, 0);
    if (fd >= 0 || errno != EINVAL)
        atomic_store_explicit(&no_resolve_cached, true, memory_order_relaxed);
    return fd;
}

static int find_without_kernel(const struct files_root *root, const char *path)
{
    return root->links == FILES_LINKS_FOLLOW
               ? openat(root->fd, path, FIND_FLAGS)
               : walk_path(root->fd, path, root->links == FILES_LINKS_INSIDE);
}

/* True if a file somewhere in the system was renamed, or mounted, while the kernel resolved "..". */
static bool was_disturbed(int error, enum files_effort effort)
{
    return error == EAGAIN && effort != FILES_CACHED_ONLY;
}

static int find_either_way(const struct files_root *root, const char *path,
                           enum files_effort effort)
{
    int fd;

    if (!atomic_load_explicit(&no_openat2, memory_order_relaxed) &&
        !atomic_load_explicit(&fallback_forced, memory_order_relaxed)) {
        fd = find_by_kernel(root, path, effort);
        if (fd >= 0)
            return fd;
        if (errno == ENOSYS)
            atomic_store_explicit(&no_openat2, true, memory_order_relaxed);
        else if (!was_disturbed(errno, effort))
            return -1;
    }
    return find_without_kernel(root, path);
}

/* What a descriptor has found */

enum { FD_NAME_MAX = 12 };

/* The name of FD in /proc/self/fd. */
static void name_descriptor(int fd, char name[FD_NAME_MAX])
{
    snprintf(name, FD_NAME_MAX, "%d", fd);
}

/* Stores the current path of FD in PATH (PATH_MAX bytes). */
static int path_of(const struct files_root *root, int fd, char *path)
{
    char name[FD_NAME_MAX];
    ssize_t length;

    name_descriptor(fd, name);
    length = readlinkat(root->descriptors, name, path, PATH_MAX - 1);
    if (length < 0)
        return -1;
    path[length] = '\0';
    return 0;
}

static bool lies_below(const char *path, const char *directory)
{
    size_t length = strlen(directory);

    if (strcmp(directory, "/") == 0)
        return true;
    return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static bool is_allowed(const struct files_root *root, int fd)
{
    char path[PATH_MAX], fence[PATH_MAX];

    if (path_of(root, fd, path) != 0 || path_of(root, root->fd, fence) != 0)
        return false;
    if (lies_below(path, fence))
        return true;
    for (size_t i = 0; i < root->link_root_count; i++)
        if (lies_below(path, root->link_root[i]))
            return true;
    return false;
}

static void fill_file(struct file *file, int fd, const struct stat *status)
{
    file->fd = fd;
    file->directory = S_ISDIR(status->st_mode);
    file->size = (uint64_t)status->st_size;
    file->mtime_s = status->st_mtim.tv_sec;
    file->mtime_ns = (uint32_t)status->st_mtim.tv_nsec;
    file->ctime_s = status->st_ctim.tv_sec;
    file->ctime_ns = (uint32_t)status->st_ctim.tv_nsec;
    file->device = status->st_dev;
    file->inode = status->st_ino;
}

/* Maps the errno of a failed open to the results of files_find(). */
static int error_of_open(int error, enum files_effort effort)
{
    if (error == EAGAIN && effort != FILES_CACHED_ONLY)
        return EBUSY; /* another process holds a write lease */
    return error;
}

/* Returns 0, or the errno with which the file that FD has found is denied. */
static int check_found(const struct files_root *root, int fd, struct stat *status)
{
    if (root->links == FILES_LINKS_FOLLOW && !is_allowed(root, fd))
        return EXDEV;
    if (fstat(fd, status) != 0)
        return errno;
    return S_ISREG(status->st_mode) || S_ISDIR(status->st_mode) ? 0 : EACCES;
}

int files_find(const struct files_root *root, const char *path, enum files_effort effort,
               struct file *file)
{
    struct stat status;
    int error, fd;

    path += strspn(path, "/");
    fd = find_either_way(root, path[0] != '\0' ? path : ".", effort);
    if (fd < 0)
        return error_of_open(errno, effort);
    error = check_found(root, fd, &status);
    if (error != 0) {
        close(fd);
        return error;
    }
    fill_file(file, fd, &status);
    return 0;
}

int files_open(const struct files_root *root, const char *path, enum files_effort effort,
               struct file *file)
{
    char name[FD_NAME_MAX];
    int error = files_find(root, path, effort, file);
    int found;

    if (error != 0)
        return error;
    found = file->fd;
    name_descriptor(found, name);
    file->fd = openat(root->descriptors, name, READ_FLAGS);
    if (file->fd < 0)
        error = error_of_open(errno, effort);
    close(found);
    return error;
}

int files_look(int directory, const char *name, struct file *file)
{
    struct stat status;

    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return EACCES;
    fill_file(file, -1, &status);
    return 0;
}

bool files_has(int directory, const char *name)
{
    struct stat status;

    return fstatat(directory, name, &status, 0) == 0 && S_ISREG(status.st_mode);
}

bool files_is_hidden(const char *path)
{
    const char *dot = strstr(path, "/.");

    if (dot == path && strncmp(path, "/.well-known", 12) == 0 &&
        (path[12] == '/' || path[12] == '\0'))
        dot = strstr(path + 1, "/.");
    return dot != NULL;
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

/* Devices whose file system lacks RWF_NOWAIT; 0 ends. */
enum { MOUNTS_MAX = 16 };
static _Atomic uint64_t no_nowait[MOUNTS_MAX];

static bool has_nowait(uint64_t device)
{
    for (int i = 0; i < MOUNTS_MAX; i++) {
        uint64_t known = atomic_load_explicit(&no_nowait[i], memory_order_relaxed);

        if (known == device)
            return false;
        if (known == 0)
            break;
    }
    return true;
}

/* If the table is full, the next read tries again. */
static void remember_no_nowait(uint64_t device)
{
    for (int i = 0; i < MOUNTS_MAX; i++) {
        uint64_t none = 0;

        if (atomic_compare_exchange_strong_explicit(&no_nowait[i], &none, device,
                                                    memory_order_relaxed, memory_order_relaxed) ||
            none == device)
            return;
    }
}

ssize_t files_read(int fd, uint64_t device, void *buffer, size_t length, uint64_t offset,
                   enum files_effort effort)
{
    struct iovec piece = {buffer, length};
    ssize_t got;

    if (effort == FILES_CACHED_ONLY && has_nowait(device)) {
        got = preadv2(fd, &piece, 1, (off_t)offset, RWF_NOWAIT);
        if (got >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
            return got;
        remember_no_nowait(device);
    }
    return pread(fd, buffer, length, (off_t)offset);
}

void files_force_fallback(bool on)
{
    atomic_store_explicit(&fallback_forced, on, memory_order_relaxed);
}
