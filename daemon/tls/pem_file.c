#include "daemon/tls/pem_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 1024 * 1024 };

int pem_file_open(const char *file, char *why, size_t size)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status;

    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size <= FILE_BYTES_MAX)
        return fd;
    snprintf(why, size, "%s: %s", file,
             fd < 0                     ? strerror(errno)
             : !S_ISREG(status.st_mode) ? "not a regular file"
                                        : strerror(EFBIG));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A block begins with a line "-----BEGIN LABEL-----" and ends with one "-----END LABEL-----". */
static void blank_private_keys(char *text)
{
    static const char begin[] = "-----BEGIN ", finish[] = "\n-----END ", secret[] = "PRIVATE KEY";
    char *block = text;

    while ((block = strstr(block, begin)) != NULL) {
        size_t label = strcspn(block, "\n");
        const char *found = memmem(block, label, secret, strlen(secret));
        const char *end = strstr(block, finish);
        size_t length = end != NULL ? (size_t)(end - block) : strlen(block);

        if (found != NULL)
            memset(block, ' ', length);
        block += found != NULL ? length : label;
    }
}

char *pem_file_read_public(const char *file, char *why, size_t size)
{
    int fd = pem_file_open(file, why, size);
    char *text = fd >= 0 ? calloc(1, FILE_BYTES_MAX + 1) : NULL;
    size_t length = 0;
    ssize_t got = 0;

    while (text != NULL && length < FILE_BYTES_MAX &&
           (got = read(fd, text + length, FILE_BYTES_MAX - length)) > 0)
        length += (size_t)got;
    if (fd >= 0 && (text == NULL || got < 0)) {
        snprintf(why, size, "%s: %s", file, strerror(errno));
        free(text);
        text = NULL;
    }
    if (fd >= 0)
        close(fd);
    if (text != NULL)
        blank_private_keys(text);
    return text;
}
