#include "daemon/logger/log_files.h"

#include "daemon/base/service.h"
#include "daemon/config/log_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Opening one */

static bool takes_lines(int fd)
{
    struct stat file;

    return fstat(fd, &file) == 0 &&
           (S_ISREG(file.st_mode) || S_ISFIFO(file.st_mode) || S_ISCHR(file.st_mode));
}

/*
 * O_NOFOLLOW: in a directory that others can write, a link could lead to any file of the system.
 * O_NONBLOCK: the open of a FIFO without a reader fails, and a write to a full one, instead of
 * blocking.
 */
static int open_path(const char *path)
{
    int fd = open(
        path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW, 0640);

    if (fd < 0 || takes_lines(fd))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

static int open_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, path, strlen(path));
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static const char *reason(int error)
{
    if (error == ELOOP)
        return "it is a symbolic link";
    return error == EINVAL ? "neither a regular file nor a pipe nor a character device"
                           : strerror(error);
}

int log_file_open(const char *text, int fallback, char *why, size_t size)
{
    struct log_target target;
    const char *fault = log_target_parse(text, &target);
    int fd;

    if (fault != NULL) {
        snprintf(why, size, "%s", fault);
        return -1;
    }
    if (strcmp(text, "-") == 0)
        fd = daemonize_duplicate_stream(fallback);
    else
        fd = target.kind == LOG_TARGET_FILE ? open_path(target.path) : open_socket(target.path);
    if (fd < 0)
        snprintf(why, size, "%s", reason(errno));
    return fd;
}

/* Both */

static const struct {
    const char *name;
    int fallback;
} logs[] = {[LOG_ACCESS] = {"access", STDOUT_FILENO}, [LOG_ERROR] = {"error", STDERR_FILENO}};

static const char *text_of(const struct log_files *files, enum log_kind log)
{
    return log == LOG_ACCESS ? files->config->log_access : files->config->log_error;
}

static bool is_off(const struct log_files *files, enum log_kind log)
{
    return strcmp(text_of(files, log), "off") == 0;
}

bool log_files_lack(const struct log_files *files, enum log_kind log)
{
    return files->fd[log] < 0 && !is_off(files, log);
}

void log_files_lose(struct log_files *files, enum log_kind log)
{
    if (files->fd[log] >= 0)
        close(files->fd[log]);
    files->fd[log] = -1;
}

int log_files_restore(struct log_files *files, enum log_kind log, char *why, size_t size)
{
    char cause[128];

    files->fd[log] = log_file_open(text_of(files, log), logs[log].fallback, cause, sizeof(cause));
    if (files->fd[log] >= 0)
        return 0;
    snprintf(why, size,
             "cannot open the %s log %s: %s (set log.%s to a file that the server may write, or to "
             "- for the terminal)",
             logs[log].name, text_of(files, log), cause, logs[log].name);
    return -1;
}

int log_files_open(struct log_files *files, const struct config *config, char *why, size_t size)
{
    *files = LOG_FILES_NONE;
    files->config = config;
    for (int log = 0; log < LOG_KINDS; log++) {
        if (is_off(files, (enum log_kind)log) ||
            log_files_restore(files, (enum log_kind)log, why, size) == 0)
            continue;
        log_files_close(files);
        return -1;
    }
    return 0;
}

int log_files_reopen(struct log_files *files, char *why, size_t size)
{
    struct log_files opened;

    if (log_files_open(&opened, files->config, why, size) != 0)
        return -1;
    log_files_close(files);
    *files = opened;
    return 0;
}

void log_files_close(struct log_files *files)
{
    for (int log = 0; log < LOG_KINDS; log++)
        log_files_lose(files, (enum log_kind)log);
}
