/*
 * A process that cleans up after a private server whose owner was killed: it waits for the server's
 * process group, kills what is left of it, and removes the server's shared memory and directory. It
 * runs as long as the owner; signals from a terminal do not reach it. All calls from one thread.
 */
#ifndef COMMON_PRIVATE_SERVER_GUARD_H
#define COMMON_PRIVATE_SERVER_GUARD_H

#include <sys/types.h>

struct private_server_guard {
    pid_t pid;  /* 0: none */
    int socket; /* EOF at the other end: the owner is dead */
};

/* For the server called NAME. Returns 0, or -1 with errno. */
int private_server_guard_start(struct private_server_guard *guard, const char *directory,
                               const char *name);

/*
 * Reports the process group of the server to the guard; 0: it does not run. Async-signal-safe: the
 * child that becomes the server calls it before it executes the program.
 */
void private_server_guard_watch(const struct private_server_guard *guard, pid_t group);

/* The owner has removed everything: ends the guard and waits for it. */
void private_server_guard_end(struct private_server_guard *guard);

/* Removes DIRECTORY and everything in it. */
void private_server_remove(const char *directory);

#endif
