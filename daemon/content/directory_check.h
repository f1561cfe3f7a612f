/*
 * Keeps the directory of the last checked file open for a short time. While the directory is
 * unchanged, checking a file in it takes one fstatat(); otherwise the paths of the file and of all
 * its possible variants must be opened. Used by one thread.
 */
#ifndef DAEMON_DIRECTORY_CHECK_H
#define DAEMON_DIRECTORY_CHECK_H

#include "common/span.h"
#include "daemon/content/files.h"

enum { DIRECTORY_CHECK_PATH_MAX = 256 }; /* longer paths are not kept */

struct directory_check {
    uint64_t max_age_ns;
    uint64_t checked_ns;           /* monotonic clock */
    const struct files_root *root; /* of the directory */
    uint64_t state;                /* see directory_check_state() */
    int fd;                        /* -1: not open */
    size_t length;
    char path[DIRECTORY_CHECK_PATH_MAX];
};

void directory_check_init(struct directory_check *check, uint64_t max_age_ns);

/*
 * The state of the directory of FILE (a path as for files_open()), less than max_age_ns old: a number
 * that changes whenever a name in the directory is added, removed or replaced. 0 (unknown) if the
 * directory cannot be opened with EFFORT, or changed so recently that its timestamp might not show
 * a further change. WALL_S is seconds since 1970.
 */
uint64_t directory_check_state(struct directory_check *check, const struct files_root *root,
                               struct span file, enum files_effort effort, uint64_t now_ns,
                               int64_t wall_s);

/* Closes the directory if it is too old, because an open one cannot be unmounted. */
void directory_check_expire(struct directory_check *check, uint64_t now_ns);

void directory_check_close(struct directory_check *check);

#endif
