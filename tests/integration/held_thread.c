#include "held_thread.h"

#include "patience.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

/* Returns the serving thread of the process, or 0: it has not set its name yet. */
static pid_t find_named(pid_t worker)
{
    char path[64], name[32] = "";
    struct dirent *entry;
    pid_t found = 0;
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%d/task", worker);
    tasks = opendir(path);
    assert_non_null(tasks);
    while (found == 0 && (entry = readdir(tasks)) != NULL) {
        FILE *comm;

        snprintf(path, sizeof(path), "/proc/%d/task/%.16s/comm", worker, entry->d_name);
        comm = fopen(path, "r");
        if (comm == NULL)
            continue;
        if (fgets(name, sizeof(name), comm) != NULL && strcmp(name, "serving\n") == 0)
            found = atoi(entry->d_name);
        fclose(comm);
    }
    closedir(tasks);
    return found;
}

pid_t held_thread_find(pid_t worker)
{
    pid_t found;

    WAIT_UNTIL((found = find_named(worker)) > 0);
    return found;
}

static void wait_for_stop(pid_t thread)
{
    int status;

    assert_int_equal(waitpid(thread, &status, __WALL), thread);
    assert_true(WIFSTOPPED(status));
}

bool held_thread_stop(pid_t thread)
{
    if (ptrace(PTRACE_SEIZE, thread, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0)
        return false;
    assert_int_equal(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), 0);
    wait_for_stop(thread);
    return true;
}

void held_thread_run_to(pid_t thread, long number)
{
    struct __ptrace_syscall_info call;

    do {
        assert_int_equal(ptrace(PTRACE_SYSCALL, thread, NULL, NULL), 0);
        wait_for_stop(thread);
        assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(call), &call) > 0);
    } while (call.op != PTRACE_SYSCALL_INFO_ENTRY || call.entry.nr != (uint64_t)number);
}

void held_thread_release(pid_t thread)
{
    assert_int_equal(ptrace(PTRACE_DETACH, thread, NULL, NULL), 0);
}
