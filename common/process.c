#include "common/process.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

pid_t process_fork(void)
{
    pid_t parent = getpid(), pid = fork();
    sigset_t none;

    if (pid != 0)
        return pid;
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it ended before the call */
        _exit(PROCESS_NOT_STARTED);
    return 0;
}

bool process_find_beside(const char *name, char *path, size_t size)
{
    char own[4096];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
    char *slash;

    if (length <= 0)
        return false;
    own[length] = '\0';
    slash = strrchr(own, '/');
    return slash != NULL &&
           snprintf(path, size, "%.*s/%s", (int)(slash - own), own, name) < (int)size &&
           access(path, X_OK) == 0;
}

_Noreturn void process_exec(const char *program, const char *const *argv, const int *fds,
                            int fd_count)
{
    int copies[PROCESS_FDS_MAX];
    char text[PATH_MAX + 128] = "cannot start ";
    const char *reason;

    /* Copies above all targets: dup2() onto itself would keep the close-on-exec flag. */
    for (int i = 0; i < fd_count; i++) {
        int fd = fds[i] >= 0 ? fds[i] : open("/dev/null", O_RDWR | O_CLOEXEC);

        copies[i] = fcntl(fd, F_DUPFD_CLOEXEC, PROCESS_FDS_MAX);
    }
    for (int i = 0; i < fd_count; i++)
        if (dup2(copies[i], i) < 0)
            _exit(PROCESS_NOT_STARTED);
    execvp(program, (char *const *)(const void *)argv);
    reason = strerrordesc_np(errno);
    strncat(text, argv[0], PATH_MAX);
    strcat(text, ": ");
    strcat(text, reason != NULL ? reason : "unknown error");
    strcat(text, "\n");
    (void)!write(STDERR_FILENO, text, strlen(text));
    _exit(PROCESS_NOT_STARTED);
}

/* A process may have run for so long (ns) before it notes its start. Not all can read its /proc. */
#define MOST_TO_START (10 * NS_PER_S)

uint64_t process_age_ns(pid_t pid, uint64_t started_ns)
{
    enum { BLANKS_BEFORE_START = 20 }; /* of field 22, after the name in field 2 */
    uint64_t now_ns = clock_wall_ns(), by_wall_ns = now_ns > started_ns ? now_ns - started_ns : 0;
    uint64_t ticks = 0, since_boot_ns, age_ns;
    char path[40], text[1024], *field;
    struct timespec boot;
    size_t length;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return by_wall_ns;
    length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    field = strrchr(text, ')');
    for (int i = 0; field != NULL && i < BLANKS_BEFORE_START; i++)
        field = strchr(field + 1, ' ');
    if (field == NULL || sscanf(field, "%" SCNu64, &ticks) != 1 ||
        clock_gettime(CLOCK_BOOTTIME, &boot) != 0)
        return by_wall_ns;
    since_boot_ns = (uint64_t)boot.tv_sec * NS_PER_S + (uint64_t)boot.tv_nsec;
    age_ns = ticks * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
    age_ns = age_ns < since_boot_ns ? since_boot_ns - age_ns : 0;
    return age_ns > by_wall_ns + MOST_TO_START ? age_ns : by_wall_ns;
}
