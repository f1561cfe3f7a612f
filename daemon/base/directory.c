#include "daemon/base/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { LINKS_MAX = 40 }; /* as in the kernel */

struct walk {
    struct directory_entry *entry;
    char path[PATH_MAX]; /* without the links that have been followed */
    size_t start, end;   /* of the component */
    int links;
};

/* Finds the next component. Returns false if there is none. */
static bool find_component(struct walk *walk)
{
    walk->start = walk->end + strspn(walk->path + walk->end, "/");
    walk->end = walk->start + strcspn(walk->path + walk->start, "/");
    return walk->end > walk->start;
}

/* Writes the path up to the component, which is STATUS, to the weakness if others can replace what is below it. */
static void note_weakness(struct walk *walk, const struct stat *status)
{
    char *text = walk->entry->weakness;
    size_t size = sizeof(walk->entry->weakness);
    int length = walk->end > 0 ? (int)walk->end : 1;

    if (text[0] != '\0')
        return;
    if (status->st_uid != 0 && status->st_uid != geteuid())
        snprintf(text, size, "%.*s belongs to another user (uid %lu)", length, walk->path,
                 (unsigned long)status->st_uid);
    else if (S_ISDIR(status->st_mode) && (status->st_mode & (S_IWGRP | S_IWOTH)) != 0 &&
             (status->st_mode & S_ISVTX) == 0)
        snprintf(text, size, "group or others may write to %.*s", length, walk->path);
}

/* Goes to the directory FD, which is a descriptor or -1. */
static int enter_directory(struct walk *walk, int fd)
{
    struct stat status;

    if (fd < 0 || fstat(fd, &status) != 0)
        return -1;
    if (walk->entry->directory >= 0)
        close(walk->entry->directory);
    walk->entry->directory = fd;
    note_weakness(walk, &status);
    return 0;
}

/* Begins at the root directory, or where this process is. */
static int begin_walk(struct walk *walk)
{
    walk->end = 0;
    return enter_directory(
        walk, open(walk->path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Puts the target of LINK in its place. */
static int follow_link(struct walk *walk, int link)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t length = readlinkat(link, "", target, sizeof(target));
    bool absolute = length > 0 && target[0] == '/';
    size_t kept = absolute ? 0 : walk->start;

    errno = ELOOP;
    if (length <= 0 || walk->entry->weakness[0] != '\0' || ++walk->links > LINKS_MAX)
        return -1;
    strcpy(rest, walk->path + walk->end);
    errno = ENAMETOOLONG;
    if (kept + (size_t)length + strlen(rest) >= sizeof(walk->path))
        return -1;
    memcpy(walk->path + kept, target, (size_t)length);
    strcpy(walk->path + kept + (size_t)length, rest);
    walk->end = kept;
    return absolute ? begin_walk(walk) : 0;
}

/* Enters the component, which is a directory or a link. */
static int take_step(struct walk *walk, mode_t make)
{
    char *name = walk->entry->name;
    struct stat status;
    int fd, failed = -1;

    if (make != 0 && mkdirat(walk->entry->directory, name, make) != 0 && errno != EEXIST)
        return -1;
    fd = openat(walk->entry->directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        return -1;
    if (S_ISDIR(status.st_mode))
        return enter_directory(walk, fd);
    if (S_ISLNK(status.st_mode)) {
        note_weakness(walk, &status);
        failed = follow_link(walk, fd);
    } else {
        errno = ENOTDIR;
    }
    close(fd);
    return failed;
}

/* Returns 0 at the last component, or -1 with errno. */
static int walk_to_last(struct walk *walk, mode_t make)
{
    if (begin_walk(walk) != 0)
        return -1;
    while (find_component(walk)) {
        if (walk->end - walk->start > NAME_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(walk->entry->name, walk->path + walk->start, walk->end - walk->start);
        walk->entry->name[walk->end - walk->start] = '\0';
        if (walk->path[walk->end + strspn(walk->path + walk->end, "/")] == '\0')
            return 0;
        if (take_step(walk, make) != 0)
            return -1;
    }
    return 0; /* the root directory */
}

/* Closes FD; keeps errno. Returns RESULT. */
static int close_after(int fd, int result)
{
    int error = errno;

    close(fd);
    errno = error;
    return result;
}

int directory_find(struct directory_entry *entry, const char *path, mode_t make)
{
    struct walk walk = {.entry = entry};

    entry->directory = -1;
    strcpy(entry->name, ".");
    entry->weakness[0] = '\0';
    errno = ENAMETOOLONG;
    if ((size_t)snprintf(walk.path, sizeof(walk.path), "%s", path) < sizeof(walk.path) &&
        walk_to_last(&walk, make) == 0)
        return 0;
    return entry->directory >= 0 ? close_after(entry->directory, -1) : -1;
}

/* openat2() exists since Linux 5.6; filters of containers may refuse it. */
int directory_open_entry(int directory, const char *name, int flags, mode_t mode)
{
    const struct open_how how = {.flags = (unsigned int)(flags | O_NOFOLLOW | O_CLOEXEC),
                                 .mode = mode,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, directory, name, &how, sizeof(how));

    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    return openat(directory, name, (int)how.flags, mode);
}

/* Keeps errno. */
static void remove_entry(const struct directory_entry *entry)
{
    int error = errno;

    unlinkat(entry->directory, entry->name, 0);
    errno = error;
}

int directory_bind(int socket, const char *path, mode_t mode, struct stat *status)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct directory_entry entry;
    mode_t before;
    int length, result = -1;

    if (directory_find(&entry, path, 0) != 0)
        return -1;
    length = entry.weakness[0] == '\0'
                 ? snprintf(address.sun_path, sizeof(address.sun_path), "%s", path)
                 : snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s",
                            entry.directory, entry.name);
    before = umask(ACCESSPERMS & ~mode); /* a later chmod() could follow a link in its place */
    errno = ENAMETOOLONG;
    if ((size_t)length < sizeof(address.sun_path))
        result = bind(socket, (const struct sockaddr *)&address, sizeof(address));
    umask(before);
    if (result == 0) {
        result = fstatat(entry.directory, entry.name, status, AT_SYMLINK_NOFOLLOW);
        if (result != 0)
            remove_entry(&entry);
    }
    return close_after(entry.directory, result);
}

int directory_remove(const char *path)
{
    struct directory_entry entry;

    if (directory_find(&entry, path, 0) != 0)
        return -1;
    return close_after(entry.directory, unlinkat(entry.directory, entry.name, 0));
}

int directory_rename(const char *from, const char *to)
{
    struct directory_entry old, new;
    int result;

    if (directory_find(&old, from, 0) != 0)
        return -1;
    if (directory_find(&new, to, 0) != 0)
        return close_after(old.directory, -1);
    result = renameat(old.directory, old.name, new.directory, new.name);
    return close_after(old.directory, close_after(new.directory, result));
}

int directory_open(const char *path, bool make, char *why, size_t size)
{
    struct directory_entry entry;
    int fd = -1;

    if (directory_find(&entry, path, make ? 0755 : 0) != 0) {
        snprintf(why, size, "%s: %s%s%s", path, strerror(errno),
                 entry.weakness[0] != '\0' ? "; " : "", entry.weakness);
        return -1;
    }
    if (geteuid() == 0 && entry.weakness[0] != '\0') {
        snprintf(why, size, "%s: others could replace it: %s", path, entry.weakness);
    } else {
        if (!make || mkdirat(entry.directory, entry.name, 0700) == 0 || errno == EEXIST)
            fd = directory_open_entry(entry.directory, entry.name, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
            snprintf(why, size, "%s: %s", path, strerror(errno));
    }
    close(entry.directory);
    return fd;
}
