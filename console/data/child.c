#include "console/data/child.h"

#include "common/macros.h"
#include "common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNAL_BASE = 128 };

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

enum { PIPE_OUTPUT, PIPE_PROGRESS, PIPE_CONTROL, PIPES };

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

static pid_t spawn_child(int pipes[PIPES][2], const char *const *argv)
{
    const int fds[] = {-1, pipes[PIPE_OUTPUT][1], pipes[PIPE_PROGRESS][1], pipes[PIPE_CONTROL][0]};
    char path[4200];
    const char *program = process_find_beside(argv[0], path, sizeof(path)) ? path : argv[0];
    pid_t pid = process_fork();

    if (pid == 0) {
        setpgid(0, 0);
        process_exec(program, argv, fds, ARRAY_LENGTH(fds));
    }
    return pid;
}

int child_start(struct child *child, const char *const *argv, char *why, size_t size)
{
    int pipes[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    bool opened = true;
    pid_t pid = -1;

    signal(SIGPIPE, SIG_IGN); /* writing to a child that just ended must not end the console */
    if (child->text == NULL)
        child->text = malloc(CHILD_OUTPUT_BYTES);
    child->line_length = child->output_length = 0;
    for (int i = 0; i < PIPES; i++)
        opened = opened && pipe2(pipes[i], O_CLOEXEC) == 0;
    if (opened && child->text != NULL)
        pid = spawn_child(pipes, argv);
    if (pid > 0)
        keep_ends(child, pipes);
    else
        snprintf(why, size, "cannot start %s: %s", argv[0], strerror(errno));
    for (int i = 0; i < PIPES; i++)
        for (int j = 0; j < 2; j++)
            close_one(&pipes[i][j]);
    child->pid = pid > 0 ? pid : 0;
    return pid > 0 ? 0 : -1;
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
static size_t read_pipe(int *fd, char *buffer, size_t room)
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
        got = read_pipe(&child->progress, child->line + child->line_length,
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

        got = full ? read_pipe(&child->output, spill, sizeof(spill))
                   : read_pipe(&child->output, child->text + child->output_length,
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
