/* Starting programs: descriptors, signals, failures. */
#include "common/macros.h"
#include "common/process.h"
#include "tests/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char output[256];

/* Runs SCRIPT with descriptors 1 and 2 at the ends of a pipe; returns its status. */
static int run(const char *program, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    ssize_t length;
    int ends[2], status = -1;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = process_fork();
    if (pid == 0)
        process_exec(program, argv, (const int[]){-1, ends[1], ends[1]}, 3);
    assert_true(pid > 0);
    close(ends[1]);
    length = read(ends[0], output, sizeof(output) - 1);
    output[length > 0 ? length : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(program_has_the_given_descriptors)
{
    assert_int_equal(run("sh", "readlink /proc/self/fd/0; exit 3"), 3 << 8);
    assert_string_equal(output, "/dev/null\n");
}

/* What becomes a descriptor may itself be one of the others, or the same. */
TEST(descriptors_may_change_places)
{
    const char *const argv[] = {"sh", "-c", "head -c 2 | wc -c; echo two >&2; echo three >&3",
                                NULL};
    char first[64] = "", second[64] = "";
    int one[2], two[2], status = -1;
    pid_t pid;

    assert_int_equal(pipe(one), 0);
    assert_int_equal(pipe(two), 0);
    pid = process_fork();
    if (pid == 0) {
        dup2(open("/dev/zero", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
        dup2(one[1], STDERR_FILENO);
        dup2(two[1], STDOUT_FILENO);
        process_exec(argv[0], argv,
                     (const int[]){STDIN_FILENO, STDERR_FILENO, STDOUT_FILENO, STDERR_FILENO}, 4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(read(one[0], first, sizeof(first) - 1) > 0);
    assert_true(read(two[0], second, sizeof(second) - 1) > 0);
    assert_string_equal(first, "2\nthree\n");
    assert_string_equal(second, "two\n");
    for (int i = 0; i < 2; i++) {
        close(one[i]);
        close(two[i]);
    }
}

/* This process ignores and blocks SIGPIPE. */
TEST(signals_are_as_usual_in_the_program)
{
    sigset_t set, before;
    int status;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, &before);
    status = run("sh", "kill -PIPE $$; echo lives");
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, SIG_DFL);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGPIPE);
    assert_string_equal(output, "");
}

TEST(missing_program_is_reported)
{
    assert_int_equal(run("/nowhere/program", ""), PROCESS_NOT_STARTED << 8);
    assert_string_equal(output, "cannot start sh: No such file or directory\n");
}

TEST(program_beside_this_one_is_found)
{
    char path[4096];

    assert_true(process_find_beside("test_common_process", path, sizeof(path)));
    assert_int_equal(access(path, X_OK), 0);
    assert_false(process_find_beside("test_common_process", path, 8));
    assert_false(process_find_beside("no-such-program", path, sizeof(path)));
}
