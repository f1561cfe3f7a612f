/*
 * The sandbox of a worker and of the logger: checked from outside in /proc, and by taking a worker over with
 * ptrace(2), as an attacker would.
 */
#include "http_client.h"
#include "patience.h"
#include "server.h"

#include "common/macros.h"
#include "tests/test.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* Stores the value of line NAME of /proc/PID/status in *TEXT. */
static void read_status(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64], line[256];
    size_t length = strlen(name);
    bool found = false;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    file = fopen(path, "r");
    assert_non_null(file);
    while (!found && fgets(line, sizeof(line), file) != NULL)
        found = strncmp(line, name, length) == 0 && line[length] == ':';
    fclose(file);
    assert_true(found);
    snprintf(text, size, "%.*s", (int)strcspn(line + length + 2, "\n"), line + length + 2);
}

static pid_t one_worker(const struct server *server)
{
    pid_t pid = 0;

    assert_int_equal(server_workers(server, &pid, 1), 1);
    return pid;
}

#ifndef TEST_SANITIZER

static void expect_status(pid_t pid, const char *name, const char *value)
{
    char text[128];

    read_status(pid, name, text, sizeof(text));
    assert_string_equal(text, value);
}

/* The worker that replaced FORMER, once it serves. */
static bool find_another(const struct server *server, pid_t former, pid_t *worker)
{
    return server_workers(server, worker, 1) == 1 && *worker != former;
}

static pid_t another_worker(const struct server *server, pid_t former)
{
    pid_t worker;

    WAIT_UNTIL(find_another(server, former, &worker));
    return worker;
}

/* Only root may read the descriptors of a process that is not dumpable. */
static void expect_no_terminal(pid_t pid)
{
    char path[64], target[64];

    for (int fd = 0; fd <= 2; fd++) {
        ssize_t length;

        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
        length = readlink(path, target, sizeof(target) - 1);
        if (geteuid() != 0) {
            assert_int_equal(length, -1);
            assert_int_equal(errno, EACCES);
            continue;
        }
        assert_true(length > 0);
        target[length] = '\0';
        assert_string_equal(target, "/dev/null");
    }
}

SERVER_TEST(worker_is_sandboxed)
{
    pid_t worker;

    server_start(server, "workers.processes=1", NULL);
    worker = one_worker(server);
    expect_status(worker, "Seccomp", "2");
    expect_status(worker, "NoNewPrivs", "1");
    expect_status(worker, "CapEff", "0000000000000000");
    expect_status(worker, "CapPrm", "0000000000000000");
    expect_no_terminal(worker);
    server_stop(server);
}

/* The reply to reopen-logs shows that it has started. */
SERVER_TEST(logger_is_sandboxed)
{
    pid_t logger;

    server_start(server, NULL);
    server_do(server, "reopen-logs");
    logger = server_logger(server);
    expect_status(logger, "Seccomp", "2");
    expect_status(logger, "NoNewPrivs", "1");
    expect_status(logger, "CapEff", "0000000000000000");
    expect_status(logger, "CapPrm", "0000000000000000");
    expect_no_terminal(logger);
    server_stop(server);
}

SERVER_TEST(replacement_worker_is_sandboxed)
{
    pid_t first;

    server_start(server, "workers.processes=1", NULL);
    first = one_worker(server);
    server_signal(first, SIGKILL);
    expect_status(another_worker(server, first), "Seccomp", "2");
    server_stop(server);
}

static void serve_on_old_kernel(struct server *server, const char *call, const char *warning)
{
    const char *const wrapper[] = {OLD_KERNEL, call, "--", NULL};
    static const char *const options[] = {"workers.processes=1", NULL};
    char *printed;
    pid_t worker;

    server_put_text(server, "/page.txt", "text");
    server_start_under(server, wrapper, options);
    worker = one_worker(server);
    expect_status(worker, "Seccomp", "2");
    http_expect(server_port(server), "/page.txt", 200);
    http_expect(server_port(server), "/missing.txt", 404);
    assert_int_equal(one_worker(server), worker);
    server_stop(server);
    printed = server_output(server);
    assert_int_equal(strstr(printed, "Landlock") != NULL, warning != NULL);
    free(printed);
}

/* The filter then denies openat2(), because nothing controls the flags in memory. */
SERVER_TEST(files_are_served_without_landlock)
{
    serve_on_old_kernel(server, "landlock_create_ruleset", "Landlock");
}

SERVER_TEST(files_are_served_without_openat2)
{
    serve_on_old_kernel(server, "openat2", NULL);
}

SERVER_TEST(strict_jail_without_landlock_is_refused)
{
    static const char *const options[] = {"server.jail=strict", NULL};
    char path[512], *printed;
    FILE *script;

    snprintf(path, sizeof(path), "%s/webserverd", server_directory(server));
    script = fopen(path, "w");
    assert_non_null(script);
    fprintf(script, "#!/bin/sh\nexec '%s' landlock_create_ruleset -- '%s' \"$@\"\n", OLD_KERNEL,
            WEBSERVERD_BINARY);
    assert_int_equal(fchmod(fileno(script), 0700), 0);
    fclose(script);
    server_use_program(server, path);
    assert_int_equal(server_start_rejected(server, &printed, options), EXIT_FAILURE);
    assert_non_null(strstr(printed, "jail = strict is not possible"));
    free(printed);
    unlink(path);
}

SERVER_TEST(strict_jail_serves)
{
    server_put_text(server, "/page.txt", "text");
    server_start(server, "server.jail=strict", NULL);
    http_expect(server_port(server), "/page.txt", 200);
    server_stop(server);
}

#endif

static void expect_user(pid_t pid, uid_t uid)
{
    char user[64], text[128];

    read_status(pid, "Uid", text, sizeof(text));
    snprintf(user, sizeof(user), "%u\t%u\t%u\t%u", uid, uid, uid, uid);
    assert_string_equal(text, user);
}

SERVER_TEST(workers_and_logger_of_root_run_as_another_user)
{
    const struct passwd *nobody = getpwnam("nobody");

    if (geteuid() != 0 || nobody == NULL)
        skip();
    server_start(server, "workers.processes=1", NULL);
    server_do(server, "reopen-logs"); /* so that the logger has started */
    expect_user(one_worker(server), nobody->pw_uid);
    expect_user(server_logger(server), nobody->pw_uid);
    server_stop(server);
}

/* Root can read the file, but the worker is not root. */
SERVER_TEST(unreadable_file_is_403)
{
    char path[512];

    if (geteuid() != 0)
        skip();
    server_put_text(server, "/private.txt", "for root alone");
    snprintf(path, sizeof(path), "%s/www/private.txt", server_directory(server));
    assert_int_equal(chmod(path, 0600), 0);
    server_start(server, NULL);
    http_expect(server_port(server), "/private.txt", 403);
    server_stop(server);
}

#if defined(__x86_64__) && !defined(TEST_SANITIZER)

static void expect_stop(pid_t pid, int *status)
{
    assert_int_equal(waitpid(pid, status, __WALL), pid);
    assert_true(WIFSTOPPED(*status));
}

/* Stops the main thread of PID within a system call: it mostly waits in epoll_wait(2). */
static void stop_in_call(pid_t pid, struct user_regs_struct *registers)
{
    int status;

    for (;;) {
        assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
        expect_stop(pid, &status);
        assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, registers), 0);
        if ((long long)registers->orig_rax >= 0)
            return;
        assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
        usleep(ASK_AGAIN_MS * 1000);
    }
}

/*
 * Makes the main thread of PID call system call NUMBER next. The program counter of a thread in a
 * system call is after a SYSCALL instruction of two bytes.
 */
static void make_it_call(pid_t pid, long number)
{
    struct user_regs_struct registers;

    stop_in_call(pid, &registers);
    registers.rip -= 2;
    registers.rax = (unsigned long long)number;
    registers.orig_rax = (unsigned long long)-1; /* prevent a restart of the interrupted call */
    registers.rdi = AF_INET;
    registers.rsi = SOCK_STREAM;
    registers.rdx = 0;
    assert_int_equal(ptrace(PTRACE_SETREGS, pid, NULL, &registers), 0);
    assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
}

/* Waits until PID has ended, and continues it after a SIGSTOP from outside. Returns its status. */
static int status_at_end(pid_t pid)
{
    int status;

    for (;;) {
        assert_int_equal(waitpid(pid, &status, __WALL), pid);
        if (!WIFSTOPPED(status))
            return status;
        assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
    }
}

SERVER_TEST(hijacked_worker_dies_at_first_forbidden_call)
{
    static const long calls[] = {SYS_socket, SYS_execve, SYS_fork, SYS_ptrace, SYS_unlink};
    pid_t worker;
    int status;

    server_start(server, "workers.processes=1", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
        worker = one_worker(server);
        if (ptrace(PTRACE_SEIZE, worker, NULL, NULL) != 0)
            skip(); /* if the test itself is sandboxed */
        make_it_call(worker, calls[i]);
        status = status_at_end(worker);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSYS);
        another_worker(server, worker);
    }
    server_stop(server);
}

#endif
