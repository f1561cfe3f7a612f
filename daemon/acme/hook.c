#include "daemon/acme/hook.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/acme/process.h"
#include "daemon/base/memory_file.h"
#include "daemon/sandbox/identity.h"
#include "daemon/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOOK_CANNOT_START = 127, SHOWN_BYTES = 300 };

/*
 * True if a program gets VARIABLE from the master's environment, which may contain secrets: what it
 * needs to find programs and to connect, and the variables meant for it.
 */
static bool is_for_hook(const char *variable)
{
    static const char *const starts[] = {
        "HOOK_",       "PATH=",        "LANG=",      "TZ=",
        "http_proxy=", "https_proxy=", "no_proxy=",  "HTTPS_PROXY=",
        "NO_PROXY=",   "ALL_PROXY=",   "all_proxy=", "CREDENTIALS_DIRECTORY="};

    for (size_t i = 0; i < ARRAY_LENGTH(starts); i++)
        if (strncmp(variable, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* NULL: out of memory. The child does not free it. */
static char **hook_environment(const struct acme_hook_call *call)
{
    size_t count = 0, all = call->count + 3;
    char **variables;

    for (char *const *variable = environ; variable != NULL && *variable != NULL; variable++)
        all++;
    variables = calloc(all, sizeof(*variables));
    if (variables == NULL)
        return NULL;
    for (char *const *variable = environ; variable != NULL && *variable != NULL; variable++)
        if (is_for_hook(*variable))
            variables[count++] = *variable;
    if (getenv("PATH") == NULL)
        variables[count++] = "PATH=/usr/local/bin:/usr/bin:/bin";
    for (size_t i = 0; i < call->count; i++)
        if (asprintf(&variables[count++], "%s=%s", call->variable[i], call->value[i]) < 0)
            return NULL;
    return variables;
}

/* Gives up all that the program does not need. Returns -1 with errno. */
static int drop_privileges(const struct identity *identity)
{
    static const struct rlimit no_core = {0, 0};
    int keep[1];
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    umask(S_IRWXG | S_IRWXO);
    if (setpgid(0, 0) != 0 || chdir("/") != 0 || setrlimit(RLIMIT_CORE, &no_core) != 0 ||
        sandbox_close_others(keep, 0) != 0 || (identity->changes && identity_switch(identity) != 0))
        return -1;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    /* after the change of the user, which clears it */
    return prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ? -1
                                                                                                : 0;
}

/* In the child. */
static _Noreturn void execute_hook(const struct acme_hook *hook, const struct acme_hook_call *call,
                                   const struct identity *identity)
{
    char *const argv[] = {(char *)call->program, (char *)call->argument, NULL};
    char **variables = hook_environment(call);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (dup2(hook->output[1], STDERR_FILENO) >= 0 && dup2(hook->output[0], STDOUT_FILENO) >= 0 &&
        nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && variables != NULL &&
        drop_privileges(identity) == 0)
        execve(call->program, argv, variables);
    dprintf(STDERR_FILENO, "%s: %s", call->program, strerror(errno));
    _exit(HOOK_CANNOT_START);
}

static void close_output(struct acme_hook *hook)
{
    for (size_t i = 0; i < ARRAY_LENGTH(hook->output); i++) {
        if (hook->output[i] > 0)
            close(hook->output[i]);
        hook->output[i] = -1;
    }
}

int acme_hook_start(struct acme_hook *hook, const struct acme_hook_call *call, char *why,
                    size_t size)
{
    struct identity identity;

    if (acme_find_identity(call->config, &identity, why, size) != 0)
        return -1;
    *hook = (struct acme_hook){.output = {memory_file_open("hook"), memory_file_open("hook")}};
    snprintf(hook->what, sizeof(hook->what), "%s %s", call->key, call->argument);
    hook->end_ns = clock_monotonic_ns() + call->config->acme_hook_timeout * NS_PER_MS;
    if (hook->output[0] >= 0 && hook->output[1] >= 0) {
        fflush(NULL);
        hook->pid = fork();
        if (hook->pid == 0)
            execute_hook(hook, call, &identity);
        if (hook->pid > 0)
            return 0;
    }
    snprintf(why, size, "cannot start %s: %s", hook->what, strerror(errno));
    hook->pid = 0;
    close_output(hook);
    return -1;
}

/* What it has written to FD, without the end of the last line. */
static void read_output(int fd, char *text, size_t size)
{
    ssize_t got = pread(fd, text, size - 1, 0);

    text[got > 0 ? got : 0] = '\0';
    while (text[0] != '\0' && strchr("\r\n", text[strlen(text) - 1]) != NULL)
        text[strlen(text) - 1] = '\0';
}

bool acme_hook_reaped(struct acme_hook *hook, pid_t pid, int status,
                      struct acme_hook_result *result)
{
    char error[SHOWN_BYTES], how[64];

    if (hook->pid == 0 || pid != hook->pid)
        return false;
    kill(-pid, SIGKILL); /* what it has started, too */
    read_output(hook->output[0], result->output, sizeof(result->output));
    read_output(hook->output[1], error, sizeof(error));
    result->good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (hook->late)
        snprintf(how, sizeof(how), "was killed after hook_timeout");
    else if (WIFEXITED(status))
        snprintf(how, sizeof(how), "exited with status %d", WEXITSTATUS(status));
    else
        snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
    snprintf(result->why, sizeof(result->why), "%s %s%s%s", hook->what, how,
             error[0] != '\0' ? ": " : "", error);
    close_output(hook);
    hook->pid = 0;
    return true;
}

void acme_hook_check(struct acme_hook *hook, uint64_t now_ns)
{
    if (hook->pid == 0 || now_ns < hook->end_ns)
        return;
    hook->late = true;
    acme_hook_kill(hook);
}

void acme_hook_kill(const struct acme_hook *hook)
{
    if (hook->pid > 0 && kill(-hook->pid, SIGKILL) != 0)
        kill(hook->pid, SIGKILL); /* it has no group yet */
}

void acme_hook_free(struct acme_hook *hook)
{
    close_output(hook);
}
