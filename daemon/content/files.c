#include "daemon/content/files.h"

#include "daemon/base/hash.h"

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

static uint64_t resolve_flags(enum files_links links)
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

/* openat2() exists since Linux 5.6, RESOLVE_CACHED since 5.12; in between the flag gives EINVAL. */
static int find_by_openat2(const struct files_root *root, const char *path,
                           enum files_effort effort)
{
    struct open_how how = {.flags = FIND_FLAGS, .resolve = resolve_flags(root->links)};
    int fd;

    if (effort == FILES_CACHED_ONLY)
        how.resolve |= RESOLVE_CACHED;
    fd = (int)syscall(SYS_openat2, root->fd, path, &how, sizeof(how));
    if (fd >= 0 || errno != EINVAL || effort != FILES_CACHED_ONLY)
        return fd;
    how.resolve &= ~(uint64_t)RESOLVE_CACHED;
    return (int)syscall(SYS_openat2, root->fd, path, &how, sizeof(how));
}

/*
 * True if openat2() gives no answer: it is missing, or denied by the filter of an old container or,
 * without a complete Landlock, by ours; or a file somewhere in the system was renamed, or mounted,
 * while the kernel resolved "..".
 */
static bool lacks_openat2(int error, enum files_effort effort)
{
    return error == ENOSYS || error == EPERM || (error == EAGAIN && effort != FILES_CACHED_ONLY);
}

/* What a descriptor has found */

enum { FD_NAME_MAX = 12 }; /* the name of a descriptor in /proc/self/fd */

/* Stores the current path of FD in PATH (PATH_MAX bytes). */
static int path_of(const struct files_root *root, int fd, char *path)
{
    char name[FD_NAME_MAX];
    ssize_t length;

    snprintf(name, sizeof(name), "%d", fd);
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

/* True if no link led from ROOT_PATH by PATH, which may end with a slash, to REAL_PATH. */
static bool is_without_links(const char *real_path, const char *root_path, const char *path)
{
    size_t root_length = strcmp(root_path, "/") == 0 ? 0 : strlen(root_path);
    size_t length = strcmp(path, ".") == 0 ? 0 : strlen(path);

    while (length > 0 && path[length - 1] == '/')
        length--;
    if (length == 0)
        return strcmp(real_path, root_path) == 0;
    return strncmp(real_path, root_path, root_length) == 0 && real_path[root_length] == '/' &&
           strncmp(real_path + root_length + 1, path, length) == 0 &&
           real_path[root_length + 1 + length] == '\0';
}

/* Returns 0, or the errno with which FD, which was found as PATH, is denied for its real path. */
static int check_place(const struct files_root *root, int fd, const char *path)
{
    char real_path[PATH_MAX], root_path[PATH_MAX];
    bool allowed;

    if (path_of(root, fd, real_path) != 0 || path_of(root, root->fd, root_path) != 0)
        return EXDEV;
    allowed = lies_below(real_path, root_path);
    for (size_t i = 0; root->links == FILES_LINKS_FOLLOW && i < root->link_root_count; i++)
        allowed |= lies_below(real_path, root->link_root[i]);
    if (!allowed)
        return EXDEV;
    if (root->links == FILES_LINKS_DENY && !is_without_links(real_path, root_path, path))
        return ELOOP;
    return 0;
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

/* If the file or the root is renamed between the calls, the paths do not match: tries again. */
static int find_without_openat2(const struct files_root *root, const char *path,
                                enum files_effort effort, int *fd)
{
    enum { TRIES = 3 };
    int flags = FIND_FLAGS | (root->links == FILES_LINKS_DENY ? O_NOFOLLOW : 0);
    int error = ELOOP;

    for (int i = 0; i < TRIES && (error == ELOOP || error == EXDEV); i++) {
        *fd = openat(root->fd, path, flags);
        if (*fd < 0)
            return error_of_open(errno, effort);
        error = check_place(root, *fd, path);
        if (error != 0)
            close(*fd);
    }
    return error;
}

static int find_descriptor(const struct files_root *root, const char *path,
                           enum files_effort effort, int *fd)
{
    int error = 0;

    *fd = find_by_openat2(root, path, effort);
    if (*fd < 0)
        return lacks_openat2(errno, effort) ? find_without_openat2(root, path, effort, fd)
                                            : error_of_open(errno, effort);
    if (root->links == FILES_LINKS_FOLLOW)
        error = check_place(root, *fd, path);
    if (error != 0)
        close(*fd);
    return error;
}

int files_find(const struct files_root *root, const char *path, enum files_effort effort,
               struct file *file)
{
    struct stat status;
    int fd = -1, error;

    *file = (struct file){.fd = -1};
    path += strspn(path, "/");
    error = find_descriptor(root, path[0] != '\0' ? path : ".", effort, &fd);
    if (error == ENOENT && fstat(root->fd, &status) == 0 && status.st_nlink == 0)
        return ESTALE;
    if (error != 0)
        return error;
    if (fstat(fd, &status) != 0)
        error = errno;
    else if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        error = EACCES;
    else
        fill_file(file, fd, &status);
    if (error != 0)
        close(fd);
    return error;
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
    snprintf(name, sizeof(name), "%d", found);
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

bool files_has_any(int directory, const struct config_words *names)
{
    for (size_t i = 0; i < names->count; i++) {
        struct stat status;

        if (fstatat(directory, names->item[i], &status, 0) == 0 && S_ISREG(status.st_mode))
            return true;
    }
    return false;
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
    case ESTALE:
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

/* Checking */

enum { SETTLED_S = 4 }; /* FAT has timestamps in steps of two seconds */

void directory_check_init(struct directory_check *check, uint64_t max_age_ns)
{
    check->max_age_ns = max_age_ns;
    check->fd = -1;
}

void directory_check_close(struct directory_check *check)
{
    if (check->fd >= 0)
        close(check->fd);
    check->fd = -1;
}

void directory_check_expire(struct directory_check *check, uint64_t now_ns)
{
    if (now_ns - check->checked_ns >= check->max_age_ns)
        directory_check_close(check);
}

/* Uses the ctime, which unlike the mtime cannot be set. */
static uint64_t state_of(const struct file *directory, int64_t wall_s)
{
    uint64_t state = hash_mix(directory->device ^ UINT64_C(0x9e3779b97f4a7c15), directory->inode);

    if (wall_s - directory->ctime_s < SETTLED_S)
        return 0;
    state = hash_mix(state ^ (uint64_t)directory->ctime_s, UINT64_C(0xa0761d6478bd642f));
    return hash_mix(state ^ directory->ctime_ns, UINT64_C(0xe7037ed1a0b428db)) | 1;
}

uint64_t directory_check_state(struct directory_check *check, const struct files_root *root,
                               struct span file, enum files_effort effort, uint64_t now_ns,
                               int64_t wall_s)
{
    const char *slash = memrchr(file.start, '/', file.length);
    struct span path = {file.start, (size_t)(slash + 1 - file.start)};
    struct file directory;
    bool same = check->fd >= 0 && check->root == root &&
                span_is(path, (struct span){check->path, check->length});

    if (same && now_ns - check->checked_ns < check->max_age_ns)
        return check->state;
    directory_check_close(check);
    if (path.length >= sizeof(check->path))
        return 0;
    check->root = root;
    memcpy(check->path, path.start, path.length);
    check->path[path.length] = '\0';
    check->length = path.length;
    check->checked_ns = now_ns;
    if (files_find(root, check->path, effort, &directory) != 0)
        return 0;
    check->fd = directory.fd;
    check->state = state_of(&directory, wall_s);
    return check->state;
}
