#include "common/instance.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_RUN_DIR "/run/webserverd" /* of root, or of the user of the system service */

bool instance_name_valid(const char *name)
{
    size_t length = strlen(name);

    if (length == 0 || length > INSTANCE_NAME_MAX || name[0] == '.')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("._-", name[i]) == NULL)
            return false;
    return true;
}

/* Returns 0 if the result WRITTEN of snprintf() fits SIZE, else -1. */
static int fitted(int written, size_t size)
{
    return written >= 0 && (size_t)written < size ? 0 : -1;
}

int instance_run_dir(char *buffer, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0)
        return fitted(snprintf(buffer, size, SYSTEM_RUN_DIR), size);
    if (runtime != NULL && runtime[0] == '/')
        return fitted(snprintf(buffer, size, "%s/webserverd", runtime), size);
    return fitted(snprintf(buffer, size, "/tmp/webserverd-%lu", (unsigned long)geteuid()), size);
}

int instance_socket_path(const char *name, char *buffer, size_t size)
{
    char run_dir[INSTANCE_PATH_MAX];

    if (instance_run_dir(run_dir, sizeof(run_dir)) != 0)
        return -1;
    return fitted(snprintf(buffer, size, "%s/%s.sock", run_dir, name), size);
}

/* Only root can create a directory in /run. */
static bool is_service_user(uid_t uid)
{
    struct stat status;

    return lstat(SYSTEM_RUN_DIR, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == uid;
}

bool instance_owner_trusted(uid_t uid, const char *what, char *why, size_t size)
{
    const struct passwd *user;

    if (uid == 0 || uid == geteuid() || is_service_user(uid))
        return true;
    user = getpwuid(uid);
    snprintf(why, size, "%s belongs to %s (uid %lu), not to root, this user or the system service",
             what, user != NULL ? user->pw_name : "another user", (unsigned long)uid);
    return false;
}

void instance_describe_access(const char *path, mode_t mode, char *text, size_t size)
{
    char at[PATH_MAX];
    struct stat status = {.st_uid = 0};
    const struct passwd *user;
    const struct group *group;
    char *slash;

    snprintf(at, sizeof(at), "%s", path);
    while (stat(at, &status) != 0 && (slash = strrchr(at, '/')) != NULL && slash != at) {
        *slash = '\0';
        mode = S_IXGRP;
    }
    user = status.st_uid != 0 ? getpwuid(status.st_uid) : NULL;
    group = (status.st_mode & mode) != 0 ? getgrgid(status.st_gid) : NULL;
    if (status.st_uid == 0)
        snprintf(text, size, "needs root");
    else if (user != NULL)
        snprintf(text, size, "needs user %s or root", user->pw_name);
    else
        snprintf(text, size, "needs user %lu or root", (unsigned long)status.st_uid);
    if (group != NULL)
        snprintf(text + strlen(text), size - strlen(text), ", or group %s", group->gr_name);
}

/* Segments */

static const char segment_prefix[] = "webserverd.";
enum { RANDOM_DIGITS = 16 };

int instance_make_segment_name(const char *name, const char *end, char *buffer, size_t size)
{
    uint64_t number;

    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return -1;
    errno = ENAMETOOLONG;
    return fitted(
        snprintf(buffer, size, "/%s%s.%016" PRIx64 "%s", segment_prefix, name, number, end), size);
}

/* True if END is a point and the digits. *NEW: and INSTANCE_SEGMENT_NEW. */
static bool is_segment_end(const char *end, bool *new)
{
    if (end[0] != '.' || strspn(end + 1, "0123456789abcdef") != RANDOM_DIGITS)
        return false;
    *new = strcmp(end + 1 + RANDOM_DIGITS, INSTANCE_SEGMENT_NEW) == 0;
    return *new || end[1 + RANDOM_DIGITS] == '\0';
}

/* Whether FILE is a segment of NAME; *NEW: one that does not replace another yet. */
static bool is_segment_of(const char *file, const char *name, bool *new)
{
    size_t length = strlen(name), prefix = strlen(segment_prefix);

    *new = false;
    return strncmp(file, segment_prefix, prefix) == 0 &&
           strncmp(file + prefix, name, length) == 0 &&
           (file[prefix + length] == '\0' || is_segment_end(file + prefix + length, new));
}

static bool is_newer(const struct stat *one, const struct stat *other)
{
    bool own = one->st_uid == geteuid();

    if (other->st_ino == 0 || own != (other->st_uid == geteuid()))
        return other->st_ino == 0 || own;
    return one->st_ctim.tv_sec != other->st_ctim.tv_sec
               ? one->st_ctim.tv_sec > other->st_ctim.tv_sec
               : one->st_ctim.tv_nsec > other->st_ctim.tv_nsec;
}

int instance_find_segment(const char *name, char *buffer, size_t buffer_size, char *why,
                          size_t size)
{
    DIR *directory = opendir(INSTANCE_SHARED_MEMORY);
    struct stat best = {.st_ino = 0}, status;
    const struct dirent *entry;
    char what[NAME_MAX + 64];
    bool new;

    why[0] = '\0';
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (!is_segment_of(entry->d_name, name, &new) || new ||
            fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode) || !is_newer(&status, &best))
            continue;
        snprintf(what, sizeof(what), "the shared memory " INSTANCE_SHARED_MEMORY "/%s",
                 entry->d_name);
        if (!instance_owner_trusted(status.st_uid, what, why, size) ||
            fitted(snprintf(buffer, buffer_size, "/%s", entry->d_name), buffer_size) != 0)
            continue;
        best = status;
    }
    if (directory != NULL)
        closedir(directory);
    errno = ENOENT;
    return best.st_ino != 0 ? 0 : -1;
}

int instance_remove_segments(const char *name, bool only_new)
{
    DIR *directory = opendir(INSTANCE_SHARED_MEMORY);
    const struct dirent *entry;
    char file[NAME_MAX + 2];
    struct stat status;
    int error = 0;
    bool new;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (!is_segment_of(entry->d_name, name, &new) || (only_new && !new) ||
            fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode) || status.st_uid != geteuid())
            continue;
        snprintf(file, sizeof(file), "/%s", entry->d_name);
        if (shm_unlink(file) != 0 && errno != ENOENT)
            error = errno;
    }
    if (directory != NULL)
        closedir(directory);
    errno = error;
    return error == 0 ? 0 : -1;
}

bool instance_of_segment(const char *file, char name[INSTANCE_NAME_MAX + 1])
{
    size_t prefix = strlen(segment_prefix), length = strlen(file);
    bool new = false;

    if (strncmp(file, segment_prefix, prefix) != 0)
        return false;
    for (const char *point = strchr(file + prefix, '.'); point != NULL;
         point = strchr(point + 1, '.'))
        if (is_segment_end(point, &new)) {
            length = (size_t)(point - file);
            break;
        }
    if (new || length - prefix > INSTANCE_NAME_MAX)
        return false;
    memcpy(name, file + prefix, length - prefix);
    name[length - prefix] = '\0';
    return instance_name_valid(name);
}
