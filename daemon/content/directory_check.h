/*
 * A directory that was looked at a moment ago and is kept open that long: of the many files that are
 * checked in it then, each costs one system call instead of the opening of its path and of the paths
 * of forms that it does not have. A look belongs to one thread.
 */
#ifndef DAEMON_DIRECTORY_CHECK_H
#define DAEMON_DIRECTORY_CHECK_H

#include "common/span.h"
#include "daemon/content/files.h"

enum { DIRECTORY_CHECK_PATH_MAX = 256 }; /* longer ones are not kept */

struct directory_check {
    uint64_t patience_ns; /* how long it is believed */
    uint64_t looked_ns;   /* monotonic clock */
    uint64_t state;       /* stands for the directory's names, see directory_check_state() */
    int fd;               /* -1: none is open */
    size_t length;
    char path[DIRECTORY_CHECK_PATH_MAX];
};

void directory_check_init(struct directory_check *look, uint64_t patience_ns);

/*
 * Looks at the directory of FILE (a path as for files_open()), or believes what it saw a moment ago. Returns
 * a number that is another when a name in that directory has come, gone or changed its file; 0 when it
 * can't be told: the directory changed so short a time ago that its clock might not show another change,
 * or it can't be opened with EFFORT. WALL_S is seconds since 1970.
 */
uint64_t directory_check_state(struct directory_check *look, const struct files_root *root,
                               struct span file, enum files_effort effort, uint64_t now_ns,
                               int64_t wall_s);

/* Closes the directory if it is believed no more; one that stays open can't be unmounted. */
void directory_check_expire(struct directory_check *look, uint64_t now_ns);

void directory_check_close(struct directory_check *look);

#endif
