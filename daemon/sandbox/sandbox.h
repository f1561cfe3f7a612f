/*
 * The jail of a worker: after jail_enter() it can read files below its folders and serve the
 * connections it is given, and nothing else, even if a client has taken it over.
 *
 *   no_new_privs     no program that it could start would gain a right
 *   Landlock         files and folders: reading, below the folders named; no TCP socket of its own
 *   seccomp          a system call that serving does not need ends the process (SIGSYS)
 *   resource limits  no core dump with what clients sent
 *
 * Sources: prctl(2), landlock(7), seccomp(2). Builds for sanitizers, whose run-time needs more than
 * that, have none of it.
 */
#ifndef DAEMON_JAIL_H
#define DAEMON_JAIL_H

#include <stdbool.h>
#include <stddef.h>

/* What this build and this kernel can do. */
struct jail_abilities {
    bool built;   /* false: a build for a sanitizer */
    int landlock; /* version of the kernel's interface, 0: none */
    bool seccomp;
};

struct jail_abilities jail_abilities(void);

/* The same as a line for people: "Landlock 7, seccomp". */
void jail_describe(char *text, size_t size);

/* What can be made before there is somebody to lock in, and memory is there. Returns 0, or -1 with errno. */
int jail_prepare(void);

/*
 * After jail_prepare(), in the same process or a child, once: locks the calling process in; it must have one thread, all descriptors it needs but those that it
 * will be given, and its last identity. FOLDERS (O_PATH descriptors, COUNT of them) may be read
 * below. What the kernel lacks is left out. Returns 0, or -1 with errno.
 */
int jail_enter(const int *folders, size_t count);

/* Closes every descriptor from 3 on that is not among the COUNT in KEEP, which this sorts. */
void jail_close_others(int *keep, size_t count);

#endif
