#include "console/data/child.h"

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

void child_init(struct child *child)
{
    *child = (struct child){.progress = -1, .output = -1, .control = -1};
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_all(struct child *child)
{
    close_one(&child->progress);
    close_one(&child->output);
    close_one(&child->control);
}

/* The path of file NAME in the directory of this program; "": unknown. */
static void path_beside_us(const char *name, char *path, size_t size)
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

/* Runs in the child: only async-signal-safe calls. */
static void exec_child(const int *fds, const char *path, const char *const *argv, pid_t parent)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || setpgid(0, 0) != 0)
        _exit(EXIT_NOT_STARTED);
    /* All of them are above CHILD_CONTROL_FD: dup2() onto itself would keep the close-on-exec flag. */
    if (dup2(fds[0], STDIN_FILENO) < 0 || dup2(fds[1], STDOUT_FILENO) < 0 ||
        dup2(fds[2], STDERR_FILENO) < 0 || dup2(fds[3], CHILD_CONTROL_FD) < 0)
        _exit(EXIT_NOT_STARTED);
    execv(path, (char *const *)(const void *)argv);
    execvp(argv[0], (char *const *)(const void *)argv);
    fprintf(stderr, "cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(EXIT_NOT_STARTED);
}

enum { PIPE_OUTPUT, PIPE_PROGRESS, PIPE_CONTROL, PIPES };

/* Opens a pipe with descriptors above CHILD_CONTROL_FD, for dup2() in the child. */
static int open_pipe(int ends[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, CHILD_CONTROL_FD + 1);
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

static void keep_ends(struct child *child, int pipes[PIPES][2])
{
    child->output = pipes[PIPE_OUTPUT][0];
    child->progress = pipes[PIPE_PROGRESS][0];
    child->control = pipes[PIPE_CONTROL][1];
    fcntl(child->output, F_SETFL, O_NONBLOCK);
    fcntl(child->progress, F_SETFL, O_NONBLOCK);
    fcntl(child->control, F_SETFL, O_NONBLOCK);
    pipes[PIPE_OUTPUT][0] = pipes[PIPE_PROGRESS][0] = pipes[PIPE_CONTROL][1] = -1;
}

static pid_t spawn(int pipes[PIPES][2], int null, const char *const *argv)
{
    const int fds[] = {null, pipes[PIPE_OUTPUT][1], pipes[PIPE_PROGRESS][1],
                       pipes[PIPE_CONTROL][0]};
    char path[4200];
    pid_t parent = getpid(), pid;

    path_beside_us(argv[0], path, sizeof(path));
    pid = fork();
    if (pid == 0)
        exec_child(fds, path, argv, parent);
    return pid;
}

int child_start(struct child *child, const char *const *argv, char *why, size_t size)
{
    int pipes[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), failed = 0;

    signal(SIGPIPE, SIG_IGN); /* writing to a child that just ended must not end the console */
    if (child->text == NULL)
        child->text = malloc(CHILD_OUTPUT_BYTES);
    child->line_length = child->output_length = 0;
    for (int i = 0; i < PIPES; i++)
        failed |= open_pipe(pipes[i]);
    child->pid = failed || null < 0 || child->text == NULL ? -1 : spawn(pipes, null, argv);
    if (child->pid > 0)
        keep_ends(child, pipes);
    else
        snprintf(why, size, "cannot start %s: %s", argv[0], strerror(errno));
    close_pipes(pipes);
    close_one(&null);
    failed = child->pid <= 0;
    child->pid = failed ? 0 : child->pid;
    return failed ? -1 : 0;
}

int child_descriptor(const struct child *child)
{
    return child->progress >= 0 ? child->progress : child->output;
}

static void hand_lines(struct child *child, void (*take)(void *, const char *), void *context)
{
    char *end;

    while ((end = memchr(child->line, '\n', child->line_length)) != NULL) {
        size_t length = (size_t)(end - child->line) + 1;

        *end = '\0';
        take(context, child->line);
        memmove(child->line, child->line + length, child->line_length - length);
        child->line_length -= length;
    }
    if (child->line_length == sizeof(child->line) - 1)
        child->line_length = 0; /* longer than a progress line may be: dropped */
}

/* Reads into BUFFER; closes *FD at the end of the file. Returns the number of bytes. */
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

static void read_progress(struct child *child, void (*take)(void *, const char *), void *context)
{
    size_t got;

    do {
        got = read_some(&child->progress, child->line + child->line_length,
                        sizeof(child->line) - 1 - child->line_length);
        child->line_length += got;
        hand_lines(child, take, context);
    } while (got > 0);
    if (child->progress < 0 && child->line_length > 0) {
        child->line[child->line_length] = '\0';
        take(context, child->line);
        child->line_length = 0;
    }
}

static void read_report(struct child *child)
{
    size_t got;
    char spill[512];

    do {
        bool full = child->output_length == CHILD_OUTPUT_BYTES;

        got = full ? read_some(&child->output, spill, sizeof(spill))
                   : read_some(&child->output, child->text + child->output_length,
                               CHILD_OUTPUT_BYTES - child->output_length);
        child->output_length += full ? 0 : got;
    } while (got > 0);
}

bool child_update(struct child *child, void (*take)(void *context, const char *line), void *context,
                  int *status)
{
    int how;

    if (child->pid == 0)
        return false;
    read_progress(child, take, context);
    read_report(child);
    if (child->progress >= 0 || child->output >= 0 ||
        waitpid(child->pid, &how, WNOHANG) != child->pid)
        return false;
    child->pid = 0;
    close_all(child);
    *status = WIFEXITED(how) ? WEXITSTATUS(how) : SIGNAL_BASE + WTERMSIG(how);
    return true;
}

bool child_send(struct child *child, const char *line)
{
    char text[128];
    int length = snprintf(text, sizeof(text), "%s\n", line);

    return child->control >= 0 && length < (int)sizeof(text) &&
           write(child->control, text, (size_t)length) == length;
}

void child_stop(struct child *child)
{
    if (child->pid > 0)
        kill(child->pid, SIGINT);
}

void child_release(struct child *child)
{
    if (child->pid > 0) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
    }
    close_all(child);
    free(child->text);
    child_init(child);
}
