/*
 * Runs a program as on a kernel without some system calls: they fail with ENOSYS.
 *
 *     old_kernel CALL... -- PROGRAM ARGUMENT...
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char *arguments[])
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int at = 1, failed = filter == NULL;

    for (; at < count && strcmp(arguments[at], "--") != 0 && !failed; at++) {
        int call = seccomp_syscall_resolve_name(arguments[at]);

        failed = call == __NR_SCMP_ERROR ||
                 seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), call, 0) != 0;
    }
    if (failed || at + 1 >= count || seccomp_load(filter) != 0) {
        fprintf(stderr, "usage: old_kernel CALL... -- PROGRAM ARGUMENT...\n");
        return EXIT_FAILURE;
    }
    execvp(arguments[at + 1], &arguments[at + 1]);
    perror(arguments[at + 1]);
    return EXIT_FAILURE;
}
