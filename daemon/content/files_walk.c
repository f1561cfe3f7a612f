#include "daemon/content/files_walk.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40 }; /* as the kernel has it */

/*
 * A walk under way: DIRECTORY is what DONE leads to, REST what is still to be gone. DONE has no link in
 * it: each of its components was entered as a directory.
 */
struct walk {
    int root;
    int directory; /* the root's, or ours to close */
    bool links;
    unsigned followed;
    char name[NAME_MAX + 1]; /* the component under way */
    char done[PATH_MAX];     /* "a/b", or "" at the root */
    char rest[PATH_MAX];
};

static int fail(int error)
{
    errno = error;
    return -1;
}

static void stand_in(struct walk *walk, int directory)
{
    int error = errno;

    if (walk->directory != walk->root)
        close(walk->directory);
    walk->directory = directory;
    errno = error;
}

/* Takes the component at the head of the rest. */
static int take_name(struct walk *walk)
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
 * Opens the directory NAME in DIRECTORY without following it if it is a link. O_PATH opens the link
 * itself, so that it can be told from what is no directory.
 */
static int open_directory(int directory, const char *name)
{
    struct stat status;
    int fd = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int error;

    if (fd < 0)
        return -1;
    if (fstat(fd, &status) != 0)
        error = errno;
    else if (S_ISDIR(status.st_mode))
        return fd;
    else
        error = S_ISLNK(status.st_mode) ? ELOOP : ENOTDIR;
    close(fd);
    return fail(error);
}

static int enter(struct walk *walk)
{
    size_t length = strlen(walk->done);
    int fd = open_directory(walk->directory, walk->name);

    if (fd < 0)
        return -1;
    stand_in(walk, fd);
    if (strcmp(walk->name, "") == 0 || strcmp(walk->name, ".") == 0)
        return 0;
    if ((size_t)snprintf(walk->done + length, sizeof(walk->done) - length, "%s%s",
                         length > 0 ? "/" : "", walk->name) >= sizeof(walk->done) - length)
        return fail(ENAMETOOLONG);
    return 0;
}

/* From the root again: the ".." of a directory that is moved meanwhile might lead out. */
static int go_up(struct walk *walk)
{
    char again[PATH_MAX], *slash = strrchr(walk->done, '/');
    char *at = again, *end;

    if (!walk->links || walk->done[0] == '\0')
        return fail(EXDEV); /* as openat2 says of what leaves the root; a canonical path has none */
    *(slash != NULL ? slash : walk->done) = '\0';
    memcpy(again, walk->done, strlen(walk->done) + 1);
    stand_in(walk, walk->root);
    for (; *at != '\0'; at = end) {
        int fd;

        end = at + strcspn(at, "/");
        if (*end == '/')
            *end++ = '\0';
        fd = open_directory(walk->directory, at);
        if (fd < 0)
            return -1;
        stand_in(walk, fd);
    }
    return 0;
}

/* The component is a link: what it says comes before the rest. */
static int follow(struct walk *walk)
{
    char text[PATH_MAX];
    ssize_t length = readlinkat(walk->directory, walk->name, text, sizeof(text));
    size_t rest = strlen(walk->rest);

    if (length < 0)
        return errno == EINVAL ? fail(ELOOP) : -1; /* it is none any more */
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

enum progress { WALK_ON, WALK_OPENED, WALK_FAILED };

static enum progress follow_if_link(struct walk *walk)
{
    if (errno != ELOOP || !walk->links)
        return WALK_FAILED;
    return follow(walk) == 0 ? WALK_ON : WALK_FAILED;
}

/* One component that something follows: a name before a slash is entered, so "file/" is refused. */
static enum progress step(struct walk *walk)
{
    enum progress progress = WALK_ON;
    size_t slashes;

    if (strcmp(walk->name, "..") == 0)
        progress = go_up(walk) == 0 ? WALK_ON : WALK_FAILED;
    else if (enter(walk) != 0)
        progress = follow_if_link(walk);
    slashes = strspn(walk->rest, "/");
    memmove(walk->rest, walk->rest + slashes, strlen(walk->rest + slashes) + 1);
    return progress;
}

static enum progress open_last(struct walk *walk, int *fd)
{
    const char *name = walk->name[0] != '\0' ? walk->name : ".";

    if (strcmp(name, "..") == 0) {
        if (go_up(walk) != 0)
            return WALK_FAILED;
        name = ".";
    }
    *fd = openat(walk->directory, name, FILES_OPEN_FLAGS | O_NOFOLLOW);
    return *fd >= 0 ? WALK_OPENED : follow_if_link(walk);
}

int files_walk(int root, const char *path, bool links)
{
    struct walk walk = {.root = root, .directory = root, .links = links};
    enum progress progress = WALK_ON;
    int fd = -1;

    if (strlen(path) >= sizeof(walk.rest))
        return fail(ENAMETOOLONG);
    memcpy(walk.rest, path, strlen(path) + 1);
    while (progress == WALK_ON) {
        if (take_name(&walk) != 0)
            progress = WALK_FAILED;
        else if (walk.rest[0] == '\0')
            progress = open_last(&walk, &fd);
        else
            progress = step(&walk);
    }
    stand_in(&walk, root);
    return fd;
}
