#include "console/load_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NOT_STARTED = 127, SIGNAL_BASE = 128 };

void load_process_init(struct load_process *process)
{
    *process = (struct load_process){.progress = -1, .output = -1, .control = -1};
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_all(struct load_process *process)
{
    close_one(&process->progress);
    close_one(&process->output);
    close_one(&process->control);
}

/* The file NAME in the folder of this program; "" when that is not known. */
static void beside_us(const char *name, char *path, size_t size)
{
    char own[4096];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
    char *slash;

    path[0] = '\0';
    if (length <= 0)
        return;
    own[length] = '\0';
    slash = strrchr(own, '/');
    if (slash != NULL)
        snprintf(path, size, "%.*s/%s", (int)(slash - own), own, name);
}

/* In the child: only what is safe after a fork. */
static void become(const int *fds, const char *path, const char *const *argv, pid_t parent)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || setpgid(0, 0) != 0)
        _exit(EXIT_NOT_STARTED);
    /* dup2() of a descriptor onto itself would keep its close-on-exec flag: all of them are above. */
    if (dup2(fds[0], STDIN_FILENO) < 0 || dup2(fds[1], STDOUT_FILENO) < 0 ||
        dup2(fds[2], STDERR_FILENO) < 0 || dup2(fds[3], LOAD_CONTROL_FD) < 0)
        _exit(EXIT_NOT_STARTED);
    execv(path, (char *const *)(const void *)argv);
    execvp(argv[0], (char *const *)(const void *)argv);
    fprintf(stderr, "cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(EXIT_NOT_STARTED);
}

enum { PIPE_OUTPUT, PIPE_PROGRESS, PIPE_CONTROL, PIPES };

/* Descriptors above LOAD_CONTROL_FD, so that they don't stand where the child wants them. */
static int open_pipe(int ends[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, LOAD_CONTROL_FD + 1);
        close(low[i]);
    }
    return ends[0] < 0 || ends[1] < 0 ? -1 : 0;
}

static void close_pipes(int pipes[PIPES][2])
{
    for (int i = 0; i < PIPES; i++)
        for (int j = 0; j < 2; j++)
            close_one(&pipes[i][j]);
}

static void keep_ends(struct load_process *process, int pipes[PIPES][2])
{
    process->output = pipes[PIPE_OUTPUT][0];
    process->progress = pipes[PIPE_PROGRESS][0];
    process->control = pipes[PIPE_CONTROL][1];
    fcntl(process->output, F_SETFL, O_NONBLOCK);
    fcntl(process->progress, F_SETFL, O_NONBLOCK);
    fcntl(process->control, F_SETFL, O_NONBLOCK);
    pipes[PIPE_OUTPUT][0] = pipes[PIPE_PROGRESS][0] = pipes[PIPE_CONTROL][1] = -1;
}

static pid_t spawn(int pipes[PIPES][2], int null, const char *const *argv)
{
    const int fds[] = {null, pipes[PIPE_OUTPUT][1], pipes[PIPE_PROGRESS][1],
                       pipes[PIPE_CONTROL][0]};
    char path[4200];
    pid_t parent = getpid(), pid;

    beside_us(argv[0], path, sizeof(path));
    pid = fork();
    if (pid == 0)
        become(fds, path, argv, parent);
    return pid;
}

int load_process_start(struct load_process *process, const char *const *argv, char *why,
                       size_t size)
{
    int pipes[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), failed = 0;

    signal(SIGPIPE, SIG_IGN); /* telling a process that has just ended is no reason to end */
    if (process->report == NULL)
        process->report = malloc(LOAD_REPORT_BYTES);
    process->line_length = process->report_length = 0;
    for (int i = 0; i < PIPES; i++)
        failed |= open_pipe(pipes[i]);
    process->pid = failed || null < 0 || process->report == NULL ? -1 : spawn(pipes, null, argv);
    if (process->pid > 0)
        keep_ends(process, pipes);
    else
        snprintf(why, size, "cannot start %s: %s", argv[0], strerror(errno));
    close_pipes(pipes);
    close_one(&null);
    failed = process->pid <= 0;
    process->pid = failed ? 0 : process->pid;
    return failed ? -1 : 0;
}

int load_process_descriptor(const struct load_process *process)
{
    return process->progress >= 0 ? process->progress : process->output;
}

static void hand_lines(struct load_process *process, void (*take)(void *, const char *),
                       void *context)
{
    char *end;

    while ((end = memchr(process->line, '\n', process->line_length)) != NULL) {
        size_t length = (size_t)(end - process->line) + 1;

        *end = '\0';
        take(context, process->line);
        memmove(process->line, process->line + length, process->line_length - length);
        process->line_length -= length;
    }
    if (process->line_length == sizeof(process->line) - 1)
        process->line_length = 0; /* no progress line is that long */
}

/* Reads into BUFFER; closes *FD at its end. Returns how much came. */
static size_t read_some(int *fd, char *buffer, size_t room)
{
    ssize_t length;

    if (*fd < 0 || room == 0)
        return 0;
    length = read(*fd, buffer, room);
    if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR))
        close_one(fd);
    return length > 0 ? (size_t)length : 0;
}

static void read_progress(struct load_process *process, void (*take)(void *, const char *),
                          void *context)
{
    size_t got;

    do {
        got = read_some(&process->progress, process->line + process->line_length,
                        sizeof(process->line) - 1 - process->line_length);
        process->line_length += got;
        hand_lines(process, take, context);
    } while (got > 0);
    if (process->progress < 0 && process->line_length > 0) {
        process->line[process->line_length] = '\0';
        take(context, process->line);
        process->line_length = 0;
    }
}

static void read_report(struct load_process *process)
{
    size_t got;
    char spill[512];

    do {
        bool full = process->report_length == LOAD_REPORT_BYTES;

        got = full ? read_some(&process->output, spill, sizeof(spill))
                   : read_some(&process->output, process->report + process->report_length,
                               LOAD_REPORT_BYTES - process->report_length);
        process->report_length += full ? 0 : got;
    } while (got > 0);
}

bool load_process_update(struct load_process *process,
                         void (*take)(void *context, const char *line), void *context, int *status)
{
    int how;

    if (process->pid == 0)
        return false;
    read_progress(process, take, context);
    read_report(process);
    if (process->progress >= 0 || process->output >= 0 ||
        waitpid(process->pid, &how, WNOHANG) != process->pid)
        return false;
    process->pid = 0;
    close_all(process);
    *status = WIFEXITED(how) ? WEXITSTATUS(how) : SIGNAL_BASE + WTERMSIG(how);
    return true;
}

bool load_process_tell(struct load_process *process, const char *line)
{
    char text[128];
    int length = snprintf(text, sizeof(text), "%s\n", line);

    return process->control >= 0 && length < (int)sizeof(text) &&
           write(process->control, text, (size_t)length) == length;
}

void load_process_stop(struct load_process *process)
{
    if (process->pid > 0)
        kill(process->pid, SIGINT);
}

void load_process_release(struct load_process *process)
{
    if (process->pid > 0) {
        kill(process->pid, SIGKILL);
        waitpid(process->pid, NULL, 0);
    }
    close_all(process);
    free(process->report);
    load_process_init(process);
}
