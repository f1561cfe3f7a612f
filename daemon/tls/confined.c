#include "daemon/tls/confined.h"

#include "common/clock.h"
#include "common/instance.h"
#include "daemon/base/events.h"
#include "daemon/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CPU_S = 1,
    WAIT_MS = 10000, /* also on a busy machine; nothing else runs in the master meanwhile */
    MEMORY_BYTES = 64 * 1024 * 1024,
    FILE_BYTES = 1024 * 1024,
    NOT_CONFINED = 2, /* exit status */
};

/* In the child */

/* What others would read: the master's pages. */
static int unmap_segment(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    uintptr_t begin, end;

    if (maps == NULL)
        return -1;
    while (fgets(line, sizeof(line), maps) != NULL)
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 &&
            strstr(line, INSTANCE_SHARED_MEMORY "/webserverd.") != NULL)
            munmap((void *)begin, end - begin); /* NOLINT(performance-no-int-to-ptr) */
    fclose(maps);
    return 0;
}

static int limit(enum __rlimit_resource resource, rlim_t bytes)
{
    const struct rlimit both = {bytes, bytes};

    return setrlimit(resource, &both);
}

static int limit_memory(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages;
    bool known = file != NULL && fscanf(file, "%lu", &pages) == 1;

    if (file != NULL)
        fclose(file);
    return known ? limit(RLIMIT_AS, (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + MEMORY_BYTES)
                 : -1;
}

static int confine(const struct config *config, int fd, int report)
{
    const int keep[] = {fd, report};
    const struct sandbox_setup sandbox = {
        .role = SANDBOX_PARSER, .config = config, .keep = keep, .keep_count = 2};

    if (limit(RLIMIT_CPU, CPU_S) != 0 || limit(RLIMIT_FSIZE, FILE_BYTES) != 0 ||
        (sandbox_features().built && limit_memory() != 0))
        return -1;
    if (config == NULL)
        return 0;
    events_attach(NULL, 0); /* the ring of the segment is the master's */
    return unmap_segment() == 0 ? sandbox_enter(&sandbox) : -1;
}

static _Noreturn void run_confined(const struct config *config, int fd, int report,
                                   confined_work *work, void *argument, char *why, size_t size)
{
    if (confine(config, fd, report) != 0)
        _exit(NOT_CONFINED);
    if (work(argument, why, size))
        _exit(EXIT_SUCCESS);
    _exit(write(report, why, strlen(why)) >= 0 ? EXIT_FAILURE : NOT_CONFINED);
}

/* In the master */

/* Reads what the child reports, up to its end, and reaps it. Returns its wait status. */
static int await_child(pid_t child, int report, char *why, size_t size)
{
    uint64_t deadline_ns = clock_monotonic_ns() + WAIT_MS * NS_PER_MS, now_ns;
    struct pollfd readable = {.fd = report, .events = POLLIN};
    size_t length = 0;
    ssize_t got = 1;
    int status = 0;

    while (got > 0 && (now_ns = clock_monotonic_ns()) < deadline_ns && length + 1 < size) {
        if (poll(&readable, 1, (int)((deadline_ns - now_ns) / NS_PER_MS)) <= 0)
            continue;
        got = read(report, why + length, size - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    why[length] = '\0';
    if (got != 0)
        kill(child, SIGKILL); /* it has written all that fits, or takes too long */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

enum confined_result confined_run(const struct config *config, const char *file, int fd,
                                  confined_work *work, void *argument, char *why, size_t size)
{
    int report[2], status;
    sigset_t all, before;
    pid_t child;

    if (pipe2(report, O_CLOEXEC) != 0) {
        snprintf(why, size, "%s: %s", file, strerror(errno));
        return CONFINED_FAILED;
    }
    fflush(NULL);
    sigfillset(&all); /* a handler of the master must not run in the child */
    sigprocmask(SIG_BLOCK, &all, &before);
    child = fork();
    if (child == 0)
        run_confined(config, fd, report[1], work, argument, why, size);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child < 0)
        snprintf(why, size, "%s: %s", file, strerror(errno));
    close(report[1]);
    status = child > 0 ? await_child(child, report[0], why, size) : 0;
    close(report[0]);
    if (child < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == NOT_CONFINED)) {
        if (child > 0)
            snprintf(why, size, "%s: the process that reads it cannot be confined", file);
        return CONFINED_FAILED;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
        return CONFINED_DONE;
    if (why[0] == '\0' && WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        snprintf(why, size, "%s: ended the process that reads it by signal %d", file,
                 WTERMSIG(status));
    else if (why[0] == '\0')
        snprintf(why, size, "%s: takes more than %d s of CPU time to read", file, CPU_S);
    return CONFINED_REFUSED;
}
