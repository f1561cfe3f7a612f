#include "control_group.h"

#include "patience.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool write_text(const struct control_group *group, const char *name, const char *text)
{
    char path[sizeof(group->directory) + 64];
    size_t length = strlen(text);
    bool written;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", group->directory, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    written = fd >= 0 && write(fd, text, length) == (ssize_t)length;
    if (fd >= 0)
        close(fd);
    return written;
}

static bool create_in(struct control_group *group, const char *hierarchy, const char *limit,
                      const char *used)
{
    char path[sizeof(group->directory) + 64];

    snprintf(group->directory, sizeof(group->directory), "%s/webserverd-test-%d", hierarchy,
             (int)getpid());
    group->limit = limit;
    group->used = used;
    if (mkdir(group->directory, 0755) != 0 && errno != EEXIST)
        return false;
    snprintf(path, sizeof(path), "%s/%s", group->directory, limit);
    if (access(path, W_OK) == 0)
        return true;
    rmdir(group->directory);
    return false;
}

bool control_group_create(struct control_group *group)
{
    return create_in(group, "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                     "memory.usage_in_bytes") ||
           create_in(group, "/sys/fs/cgroup", "memory.max", "memory.current");
}

void control_group_remove(const struct control_group *group)
{
    WAIT_UNTIL(rmdir(group->directory) == 0 || errno != EBUSY);
}

void control_group_limit(const struct control_group *group, uint64_t bytes)
{
    bool first_version = strcmp(group->limit, "memory.max") != 0;
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, bytes);
    if (bytes == UINT64_MAX)
        snprintf(text, sizeof(text), "%s", first_version ? "-1" : "max");
    assert_true(write_text(group, group->limit, text));
}

uint64_t control_group_used(const struct control_group *group)
{
    char path[sizeof(group->directory) + 64];
    uint64_t bytes = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", group->directory, group->used);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%" SCNu64, &bytes), 1);
    fclose(file);
    return bytes;
}

pid_t control_group_hold(const struct control_group *group, uint64_t bytes)
{
    pid_t pid = fork();
    void *memory;

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || !write_text(group, "cgroup.procs", "0"))
        _exit(EXIT_FAILURE);
    memset(memory, 1, bytes);
    for (;;)
        pause();
}
