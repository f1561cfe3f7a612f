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
    WAIT_S = 60, /* a busy virtual machine may stand still for 20 s */
    MEMORY_BYTES = 64 * 1024 * 1024,
    FILE_BYTES = 4 * 1024 * 1024,
    NOT_CONFINED = 2, /* exit status */
    CONFINED_DESCRIPTORS_MAX = 3,
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

/* A sanitizer needs more time, and any amount of memory. */
static int cpu_s(void)
{
    return sandbox_features().built ? CPU_S : 2 * CPU_S;
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

static int confine(const struct config *config, const int *fd, size_t count, int report)
{
    int keep[CONFINED_DESCRIPTORS_MAX + 1];
    const struct sandbox_setup sandbox = {
        .role = SANDBOX_PARSER, .config = config, .keep = keep, .keep_count = count + 1};

    memcpy(keep, fd, count * sizeof(*fd));
    keep[count] = report;
    events_attach(NULL, 0); /* the ring of the segment is the master's */
    if (limit(RLIMIT_FSIZE, FILE_BYTES) != 0 || unmap_segment() != 0)
        return -1;
    if (limit(RLIMIT_CPU, (rlim_t)cpu_s()) != 0 ||
        (sandbox_features().built && limit_memory() != 0))
        return -1;
    return sandbox_enter(&sandbox);
}

/* In the master */

int confined_start(struct confined *confined, const struct config *config, const char *file,
                   const int *fd, size_t count, confined_work *work, void *argument)
{
    sigset_t all, before;
    int report[2];

    *confined = (struct confined){.report = -1, .file = file};
    if (pipe2(report, O_CLOEXEC | O_NONBLOCK) != 0) {
        snprintf(confined->why, sizeof(confined->why), "%s: %s", file, strerror(errno));
        return -1;
    }
    fflush(NULL);
    sigfillset(&all); /* a handler of the master must not run in the child */
    sigprocmask(SIG_BLOCK, &all, &before);
    confined->child = fork();
    if (confined->child == 0) {
        if (confine(config, fd, count, report[1]) != 0)
            _exit(NOT_CONFINED);
        if (work(argument, confined->why, sizeof(confined->why)))
            _exit(EXIT_SUCCESS);
        _exit(write(report[1], confined->why, strlen(confined->why)) >= 0 ? EXIT_FAILURE
                                                                          : NOT_CONFINED);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(report[1]);
    if (confined->child > 0) {
        confined->report = report[0];
        confined->deadline_ns = clock_monotonic_ns() + WAIT_S * NS_PER_S;
        return 0;
    }
    snprintf(confined->why, sizeof(confined->why), "%s: %s", file, strerror(errno));
    confined->child = 0;
    close(report[0]);
    return -1;
}

/* Reads what the child reports. Returns false if more may come. */
static bool read_report(struct confined *confined)
{
    size_t room = sizeof(confined->why) - 1 - confined->length;
    ssize_t got = read(confined->report, confined->why + confined->length, room);

    confined->length += got > 0 ? (size_t)got : 0;
    confined->why[confined->length] = '\0';
    return got == 0 || room == 0;
}

void confined_abandon(struct confined *confined)
{
    if (confined->child > 0) {
        kill(confined->child, SIGKILL); /* it may have closed its end, and run on */
        while (waitpid(confined->child, &confined->status, 0) < 0 && errno == EINTR)
            continue;
    }
    if (confined->report >= 0)
        close(confined->report);
    confined->child = 0;
    confined->report = -1;
}

enum confined_result confined_result(struct confined *confined, bool wait)
{
    struct pollfd readable = {.fd = confined->report, .events = POLLIN};
    uint64_t now_ns;
    bool ended;

    while (!(ended = read_report(confined)) &&
           (now_ns = clock_monotonic_ns()) < confined->deadline_ns) {
        if (!wait)
            return CONFINED_RUNS;
        poll(&readable, 1, (int)((confined->deadline_ns - now_ns) / NS_PER_MS) + 1);
    }
    confined_abandon(confined);
    if (WIFEXITED(confined->status) && WEXITSTATUS(confined->status) == EXIT_SUCCESS)
        return CONFINED_DONE;
    if (WIFEXITED(confined->status) && WEXITSTATUS(confined->status) == NOT_CONFINED) {
        snprintf(confined->why, sizeof(confined->why),
                 "%s: the process that reads it cannot be confined", confined->file);
        return CONFINED_FAILED;
    }
    if (confined->why[0] == '\0' && WIFSIGNALED(confined->status) &&
        WTERMSIG(confined->status) != SIGKILL)
        snprintf(confined->why, sizeof(confined->why),
                 "%s: ended the process that reads it by signal %d", confined->file,
                 WTERMSIG(confined->status));
    else if (confined->why[0] == '\0' && !ended)
        snprintf(confined->why, sizeof(confined->why),
                 "%s: takes more than %d s to read: the machine is too busy", confined->file,
                 WAIT_S);
    else if (confined->why[0] == '\0')
        snprintf(confined->why, sizeof(confined->why),
                 "%s: takes more than %d s of CPU time to read", confined->file, cpu_s());
    return CONFINED_REFUSED;
}
