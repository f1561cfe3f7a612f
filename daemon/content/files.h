/*
 * Opening and reading files below the document root. All opens go through openat2(2) with
 * RESOLVE_BENEATH: the kernel, not our string code, keeps them below the root. Where openat2 is not
 * allowed (workers under Linux before 6.2, whose Landlock does not control truncation) a file is
 * found with O_PATH, and its path by /proc/self/fd must lie below the root. A file is opened for
 * reading, by its name there, only after it was found to be a regular file or a directory. Any
 * thread.
 */
#ifndef DAEMON_FILES_H
#define DAEMON_FILES_H

#include "common/span.h"
#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum files_effort {
    FILES_MAY_BLOCK,
    FILES_CACHED_ONLY, /* fail with EAGAIN rather than wait for a disk */
};

/* How symbolic links are treated. */
enum files_links {
    FILES_LINKS_DENY,   /* none is followed (ELOOP) */
    FILES_LINKS_INSIDE, /* relative ones that stay below the root (else EXDEV); without openat2()
                           all that end there */
    FILES_LINKS_FOLLOW, /* all that end below the root or a link root (else EXDEV) */
};

struct files_root {
    int fd;          /* the root directory; may be O_PATH */
    int descriptors; /* /proc/self/fd, as this process sees it; may be O_PATH */
    enum files_links links;
    const char *const *link_root; /* real paths of directories that links may lead into */
    size_t link_root_count;
};

struct file {
    int fd; /* owned by the owner of the struct */
    bool directory;
    uint64_t size;     /* bytes */
    int64_t mtime_s;   /* since 1970 */
    uint32_t mtime_ns; /* within that second */
    int64_t ctime_s;   /* any change, such as that of the mode, sets it */
    uint32_t ctime_ns;
    uint64_t device, inode;
};

/*
 * Finds PATH (absolute within the root and canonical: "/a/b.html"). Returns 0 with *FILE filled,
 * whose descriptor is an O_PATH one, or an errno: ENOENT, EACCES, ELOOP, EAGAIN (with
 * FILES_CACHED_ONLY), ENOTDIR, EMFILE, EXDEV (".." or a link out of the root), EBUSY (try again),
 * ESTALE (the root itself has been removed) …
 * Anything but a regular file or a directory (FIFO, socket, device) is EACCES and not opened. On
 * kernels without RESOLVE_CACHED, FILES_CACHED_ONLY may block.
 */
int files_find(const struct files_root *root, const char *path, enum files_effort effort,
               struct file *file);

/* The same, and opens it for reading; EBUSY also if another process holds a write lease. */
int files_open(const struct files_root *root, const char *path, enum files_effort effort,
               struct file *file);

/*
 * Like lstat() of NAME, one component, in DIRECTORY. Returns 0 with *FILE filled except its
 * descriptor, or an errno; EACCES for anything but a regular file or a directory.
 */
int files_look(int directory, const char *name, struct file *file);

/*
 * True if one of NAMES in the open DIRECTORY is a regular file, or a link to one anywhere. Does not
 * check whether the link is followed. May block.
 */
bool files_has_any(int directory, const struct config_words *names);

/* True if a component of PATH begins with a dot, except /.well-known (RFC 8615). */
bool files_is_hidden(const char *path);

/* The HTTP status for an errno of files_open(): 404, 403, 500 or 503. */
int files_status(int error);

/*
 * Like pread(); with FILES_CACHED_ONLY it fails with EAGAIN rather than wait for a disk. File
 * systems without RWF_NOWAIT (EOPNOTSUPP: tmpfs, overlayfs) are read with pread() and remembered by
 * DEVICE, the file's device number.
 */
ssize_t files_read(int fd, uint64_t device, void *buffer, size_t length, uint64_t offset,
                   enum files_effort effort);

/* Checking */

enum { DIRECTORY_CHECK_PATH_MAX = 256 }; /* longer paths are not kept */

/*
 * Keeps the directory of the last checked file open for a short time. While the directory is
 * unchanged, checking a file in it takes one fstatat(); otherwise the paths of the file and of all
 * its possible variants must be opened. Used by one thread.
 */
struct directory_check {
    uint64_t max_age_ns;
    uint64_t checked_ns;           /* monotonic clock */
    const struct files_root *root; /* the directory is below it */
    uint64_t state;                /* see directory_check_state() */
    int fd;                        /* -1: not open */
    size_t length;
    char path[DIRECTORY_CHECK_PATH_MAX];
};

void directory_check_init(struct directory_check *check, uint64_t max_age_ns);

/*
 * The state of the directory of FILE (a path as for files_open()), less than max_age_ns old: a
 * number that changes whenever a name in the directory is added, removed or replaced. 0 (unknown)
 * if the directory cannot be opened with EFFORT, or changed so recently that its timestamp might
 * not show a further change. WALL_S is seconds since 1970.
 */
uint64_t directory_check_state(struct directory_check *check, const struct files_root *root,
                               struct span file, enum files_effort effort, uint64_t now_ns,
                               int64_t wall_s);

/* Closes the directory if it is too old, because an open one cannot be unmounted. */
void directory_check_expire(struct directory_check *check, uint64_t now_ns);

void directory_check_close(struct directory_check *check);

#endif
