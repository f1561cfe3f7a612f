#include "common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
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

static void write_word(const char *word)
{
    (void)!write(STDERR_FILENO, word, strlen(word));
}

_Noreturn void process_exec(const char *program, const char *const *argv, const int *fds,
                            int fd_count)
{
    int copies[PROCESS_FDS_MAX];
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
    write_word("cannot start ");
    write_word(argv[0]);
    write_word(": ");
    write_word(reason != NULL ? reason : "unknown error");
    write_word("\n");
    _exit(PROCESS_NOT_STARTED);
}
