/*
 * Runs the programs [acme] dns_hook and deploy_hook for the master: outside of the sandbox of the
 * ACME process, which cannot execute anything, but as its user, without privileges, without a shell,
 * with few variables of the environment and a time limit. The master's loop.
 */
#ifndef DAEMON_ACME_HOOK_H
#define DAEMON_ACME_HOOK_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HOOK_OUTPUT_BYTES = 4096, HOOK_VARIABLES_MAX = 8 };

/* One program at a time. */
struct acme_hook {
    pid_t pid;       /* and process group; 0: none runs */
    int output[2];   /* files in memory: what it writes to standard output and standard error */
    uint64_t end_ns; /* when it is killed, monotonic */
    bool late;       /* it has been killed */
    char what[64];   /* for messages: "dns_hook auth" */
};

struct acme_hook_call {
    const struct config *config;
    const char *key;                /* of [acme]: "dns_hook" */
    const char *program, *argument; /* path, and its only argument */
    const char *variable[HOOK_VARIABLES_MAX], *value[HOOK_VARIABLES_MAX];
    size_t count; /* of variables that the program gets in addition */
};

/* How it has ended. */
struct acme_hook_result {
    bool good;
    char why[512];                  /* if not good */
    char output[HOOK_OUTPUT_BYTES]; /* its standard output, without the end of the last line */
};

/* Returns 0, or -1 with WHY. None may run. */
int acme_hook_start(struct acme_hook *hook, const struct acme_hook_call *call, char *why,
                    size_t size);

/* Process PID has ended with STATUS. Returns false if it is not this one. */
bool acme_hook_reaped(struct acme_hook *hook, pid_t pid, int status,
                      struct acme_hook_result *result);

/* Once a second: kills it, and what it has started, when its time is over. */
void acme_hook_check(struct acme_hook *hook, uint64_t now_ns);

/* Kills it; it is still reaped. Does nothing without one. */
void acme_hook_kill(const struct acme_hook *hook);

/* Closes the files; the program goes on. In a child of the master, too. */
void acme_hook_free(struct acme_hook *hook);

#endif
