/*
 * A folder that was looked at a moment ago and is kept open that long: of the many files that are
 * checked in it then, each costs one system call instead of the opening of its path and of the paths
 * of forms that it does not have. A look belongs to one thread.
 */
#ifndef DAEMON_FOLDER_LOOK_H
#define DAEMON_FOLDER_LOOK_H

#include "common/span.h"
#include "daemon/content/files.h"

enum { FOLDER_LOOK_PATH_MAX = 256 }; /* longer ones are not kept */

struct folder_look {
    uint64_t patience_ns; /* how long it is believed */
    uint64_t looked_ns;   /* monotonic clock */
    uint64_t state;       /* stands for the folder's names, see folder_look_at() */
    int fd;               /* -1: none is open */
    size_t length;
    char path[FOLDER_LOOK_PATH_MAX];
};

void folder_look_init(struct folder_look *look, uint64_t patience_ns);

/*
 * Looks at the folder of FILE (a path as for files_open()), or believes what it saw a moment ago. Returns
 * a number that is another when a name in that folder has come, gone or changed its file; 0 when it
 * can't be told: the folder changed so short a time ago that its clock might not show another change,
 * or it can't be opened with EFFORT. WALL_S is seconds since 1970.
 */
uint64_t folder_look_at(struct folder_look *look, const struct files_root *root, struct span file,
                        enum files_effort effort, uint64_t now_ns, int64_t wall_s);

/* Closes the folder if it is believed no more; one that stays open can't be unmounted. */
void folder_look_expire(struct folder_look *look, uint64_t now_ns);

void folder_look_forget(struct folder_look *look);

#endif
