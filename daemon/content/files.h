/*
 * Opening files below the root, by one function: openat2(2) with RESOLVE_BENEATH, so that the kernel
 * and not our string code keeps us inside. Where openat2 is missing (ENOSYS: Valgrind, old kernels)
 * the path is walked component by component with O_PATH | O_NOFOLLOW. Any thread.
 */
#ifndef DAEMON_FILES_H
#define DAEMON_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum files_effort {
    FILES_MAY_BLOCK,
    FILES_CACHED_ONLY, /* fail with EAGAIN rather than wait for a disk */
};

/* What is done with symbolic links. */
enum files_links {
    FILES_LINKS_DENY,   /* none is followed (ELOOP) */
    FILES_LINKS_INSIDE, /* relative ones that stay below the root; the others lead out (EXDEV) */
    FILES_LINKS_FOLLOW, /* all that end below the root or a fence (else EXDEV); needs /proc */
};

struct files_root {
    int fd; /* of the root directory; O_PATH will do */
    enum files_links links;
    const char *const *link_root; /* real paths of folders */
    size_t link_root_count;
};

struct file {
    int fd; /* owned by the holder of the struct */
    bool directory;
    uint64_t size;     /* bytes */
    int64_t mtime_s;   /* since 1970 */
    uint32_t mtime_ns; /* within that second */
    int64_t ctime_s;   /* the same of its last change of any kind, such as of its mode */
    uint32_t ctime_ns;
    uint64_t device, inode;
};

/*
 * Opens PATH (absolute within the root: "/a/b.html", canonical) for reading. Returns 0 with *FILE
 * filled, or an errno: ENOENT, EACCES, ELOOP, EAGAIN (FILES_CACHED_ONLY only), ENOTDIR, EMFILE,
 * EXDEV (".." or a link out of the root), EBUSY (a write lease of another process is in the way) …
 * What is neither a regular file nor a directory (FIFO, socket, device) is refused with EACCES and
 * never blocks. With FILES_CACHED_ONLY where RESOLVE_CACHED can't be had, it may block after all.
 */
int files_open(const struct files_root *root, const char *path, enum files_effort effort,
               struct file *file);

/*
 * Looks at NAME, one component, in the directory DIRECTORY without opening it: at the link itself where it
 * is one. Returns 0 with *FILE filled but for its descriptor, or an errno; what is neither a regular
 * file nor a directory is refused with EACCES.
 */
int files_look(int directory, const char *name, struct file *file);

/* A component of PATH begins with a dot, but for the well-known directory of RFC 8615. */
bool files_is_hidden(const char *path);

/* The status for an errno of files_open(): 404, 403, 500 or 503. */
int files_status(int error);

/*
 * Reads up to LENGTH bytes at OFFSET. Returns what pread() would; with FILES_CACHED_ONLY it fails
 * with EAGAIN where a disk would be waited for. File systems that don't know RWF_NOWAIT (EOPNOTSUPP:
 * tmpfs, overlayfs) are read in the ordinary way; that is learned once for each DEVICE, the file's.
 */
ssize_t files_read(int fd, uint64_t device, void *buffer, size_t length, uint64_t offset,
                   enum files_effort effort);

/* Makes the fallback the only way, so that tests can run one table through both. */
void files_force_fallback(bool on);

#endif
