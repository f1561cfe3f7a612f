#include "loadgen/lab/files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PATH = 2 * PRIVATE_SERVER_PATH };

static int open_file(const struct files *files, uint32_t number)
{
    char path[PATH];

    snprintf(path, sizeof(path), "%s/%s/%u.bin", private_server_root(files->server), files->name,
             number);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int files_write(struct lab *lab, const struct files *files)
{
    char *bytes = lab_allocate(lab, 1, files->bytes), path[64];

    if (bytes == NULL)
        return -1;
    memset(bytes, 'x', files->bytes);
    for (uint32_t i = 0; i < files->count; i++) {
        if (lab_is_interrupted(lab))
            return -1;
        snprintf(path, sizeof(path), "/%s/%u.bin", files->name, i);
        if (private_server_put(files->server, path, bytes, files->bytes, lab->why,
                               sizeof(lab->why)) != 0)
            return -1;
    }
    return 0;
}

int files_sync(struct lab *lab, const struct files *files)
{
    for (uint32_t i = 0; i < files->count; i++) {
        int fd = open_file(files, i);
        bool good = fd >= 0 && fdatasync(fd) == 0;

        if (fd >= 0)
            close(fd);
        if (!good)
            return lab_fail(lab, "cannot write %s/%u.bin: %s", files->name, i, strerror(errno));
    }
    return 0;
}

int files_request(struct lab *lab, const struct files *files, struct point *point, const char *name,
                  const uint32_t *numbers, size_t count)
{
    char *path = lab_allocate(lab, 1, PATH);
    FILE *list;

    if (path == NULL)
        return -1;
    snprintf(path, PATH, "%s/%s.list", private_server_directory(files->server), name);
    list = fopen(path, "we");
    for (size_t i = 0; list != NULL && i < count; i++)
        fprintf(list, "/%s/%u.bin\n", files->name, numbers[i]);
    if (list == NULL || fclose(list) != 0)
        return lab_fail(lab, "cannot write %s: %s", path, strerror(errno));
    point->plan.urls_file = path;
    point->plan.order = PLAN_ORDER_SEQUENCE;
    point->plan.requests = count;
    point->plan.duration_ms = point->plan.warmup_ms = 0;
    plan_set_connections(&point->plan, point->plan.connections_requested);
    return 0;
}

int files_evict(struct lab *lab, const struct files *files)
{
    for (uint32_t i = 0; i < files->count; i++) {
        int fd = open_file(files, i);

        if (fd < 0)
            return lab_fail(lab, "cannot open %s/%u.bin: %s", files->name, i, strerror(errno));
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    return 0;
}

int files_preload(struct lab *lab, const struct files *files)
{
    char part[65536];

    for (uint32_t i = 0; i < files->count; i++) {
        int fd = open_file(files, i);
        ssize_t got = 1;

        while (fd >= 0 && got > 0)
            got = read(fd, part, sizeof(part));
        if (fd >= 0)
            close(fd);
        if (fd < 0 || got < 0)
            return lab_fail(lab, "cannot read %s/%u.bin: %s", files->name, i, strerror(errno));
    }
    return 0;
}

double files_cached(const struct files *files)
{
    uint32_t cached = 0;

    for (uint32_t i = 0; i < files->count; i++) {
        int fd = open_file(files, i);
        char byte;
        struct iovec one = {&byte, 1};
        ssize_t got = fd >= 0 ? preadv2(fd, &one, 1, 0, RWF_NOWAIT) : -1;
        bool known = got >= 0 || errno == EAGAIN;

        if (fd >= 0)
            close(fd);
        if (!known)
            return NAN;
        cached += got > 0;
    }
    return files->count > 0 ? 100.0 * cached / files->count : NAN;
}
