#include "daemon/master/run_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool others_may_write(const struct stat *status)
{
    return S_ISDIR(status->st_mode) && (status->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* Checks the directory or symbolic link PATH, which is above the run directory. */
static int check_parent(const char *path, char *why, size_t size)
{
    struct stat status;

    if (lstat(path, &status) != 0) {
        snprintf(why, size, "cannot check %s above the run directory: %s", path, strerror(errno));
        return -1;
    }
    if (status.st_uid != 0 && status.st_uid != geteuid()) {
        snprintf(why, size,
                 "%s above the run directory belongs to another user (uid %lu): set server.run_dir",
                 path, (unsigned long)status.st_uid);
        return -1;
    }
    if (!others_may_write(&status) || (status.st_mode & S_ISVTX) != 0)
        return 0;
    snprintf(why, size,
             "group or others may write to %s and replace the run directory in it: chmod go-w %s, "
             "or set server.run_dir",
             path, path);
    return -1;
}

/* Checks all directories above PATH, which is absolute. */
static int check_parents(const char *path, char *why, size_t size)
{
    char parent[PATH_MAX];

    for (const char *slash = path; slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t length = slash > path ? (size_t)(slash - path) : 1;

        if (length >= sizeof(parent)) {
            snprintf(why, size, "the path of the run directory is too long");
            return -1;
        }
        memcpy(parent, path, length);
        parent[length] = '\0';
        if (check_parent(parent, why, size) != 0)
            return -1;
    }
    return 0;
}

static int check_directory(const char *path, char *why, size_t size)
{
    struct stat status;

    if (lstat(path, &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid()) {
        snprintf(why, size,
                 "the run directory %s is not a directory owned by this user (set server.run_dir)",
                 path);
        return -1;
    }
    if (!others_may_write(&status))
        return 0;
    snprintf(why, size,
             "group or others may write to the run directory %s: chmod go-w %s, or set "
             "server.run_dir",
             path, path);
    return -1;
}

int run_dir_prepare(const char *path, char *why, size_t size)
{
    char *real;
    int result = -1;

    if (mkdir(path, geteuid() == 0 ? 0755 : 0700) != 0 && errno != EEXIST) {
        snprintf(why, size, "cannot create the run directory %s: %s (set server.run_dir)", path,
                 strerror(errno));
        return -1;
    }
    if (check_directory(path, why, size) != 0)
        return -1;
    real = realpath(path, NULL);
    if (real == NULL)
        snprintf(why, size, "cannot resolve the run directory %s: %s", path, strerror(errno));
    else if (check_parents(path, why, size) == 0) /* symbolic links in it */
        result = check_parents(real, why, size);
    free(real);
    return result;
}
