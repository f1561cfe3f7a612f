#include "daemon/acme/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* Reading */

char *state_read(int directory, const char *file)
{
    int fd = openat(directory, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char *text = fd >= 0 ? malloc(STATE_FILE_MAX + 1) : NULL, *fitting;
    size_t length = 0;
    ssize_t got = 0;

    while (text != NULL && length < STATE_FILE_MAX &&
           (got = read(fd, text + length, STATE_FILE_MAX - length)) > 0)
        length += (size_t)got;
    if (fd >= 0)
        close(fd);
    if (text == NULL || got < 0) {
        free(text);
        return NULL;
    }
    text[length] = '\0';
    fitting = realloc(text, length + 1);
    return fitting != NULL ? fitting : text;
}

json_t *state_read_json(int directory, const char *file)
{
    char *text = state_read(directory, file);
    json_t *json = text != NULL ? json_loads(text, 0, NULL) : NULL;

    free(text);
    if (json_is_object(json))
        return json;
    json_decref(json);
    return NULL;
}

/* Writing */

/*
 * Returns a new, empty file beside FILE, whose name it writes, or -1 with errno. What has this name,
 * perhaps a FIFO or a link, was made by a process that has ended or had been taken over.
 */
static int open_beside(int directory, const char *file, char name[PATH_BYTES])
{
    if (snprintf(name, PATH_BYTES, "%s.new", file) >= PATH_BYTES) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (state_remove(directory, name) != 0)
        return -1;
    return openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static int write_all(int fd, const char *text)
{
    size_t length = strlen(text);

    while (length > 0) {
        ssize_t done = write(fd, text, length);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        text += done;
        length -= (size_t)done;
    }
    return fsync(fd);
}

/* Closes FD, the file NAME, and removes the file. Keeps errno. */
static void discard_new_file(int directory, int fd, const char *name)
{
    int error = errno;

    close(fd);
    unlinkat(directory, name, 0);
    errno = error;
}

int state_write(int directory, const char *file, const char *text)
{
    char name[PATH_BYTES];
    int fd = open_beside(directory, file, name);

    if (fd < 0)
        return -1;
    if (write_all(fd, text) != 0 || renameat(directory, name, directory, file) != 0) {
        discard_new_file(directory, fd, name);
        return -1;
    }
    close(fd);
    return fsync(directory);
}

int state_write_json(int directory, const char *file, json_t *json)
{
    char *text = json != NULL ? json_dumps(json, JSON_INDENT(2)) : NULL;
    int failed = -1;

    json_decref(json);
    errno = ENOMEM;
    if (text != NULL)
        failed = state_write(directory, file, text);
    free(text);
    return failed;
}

int state_rename(int directory, const char *file, const char *to)
{
    return renameat(directory, file, directory, to);
}

int state_remove(int directory, const char *file)
{
    return unlinkat(directory, file, 0) == 0 || errno == ENOENT ? 0 : -1;
}

int state_check_space(int directory, size_t bytes)
{
    char name[PATH_BYTES];
    int fd = open_beside(directory, "space", name), failed;

    if (fd < 0)
        return -1;
    failed = posix_fallocate(fd, 0, (off_t)bytes);
    errno = failed;
    discard_new_file(directory, fd, name);
    return failed == 0 || failed == EOPNOTSUPP ? 0 : -1;
}

int state_lock(int directory)
{
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(directory, "lock", flags, 0600);

    /* Not the file of another process, but a link that one has left that had been taken over. */
    if (fd < 0 && (errno == ELOOP || errno == EACCES) && state_remove(directory, "lock") == 0)
        fd = openat(directory, "lock", flags, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    close(fd);
    return -1;
}
