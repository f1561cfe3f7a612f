/*
 * The sandbox of all processes but the master, even if a client has taken them over. After
 * sandbox_enter() a worker can only read files below its directories and serve the connections
 * passed to it; the logger can only write to the logs passed to it; the keys process can only
 * answer over its sockets, the metrics process only the connections that it accepts. The ACME
 * process can connect, read the system's settings of names and certificates, and write below its
 * state directory. A process that checks a certificate can only answer.
 *
 *   identity         user and group of [server] user and group, no capabilities
 *   no_new_privs     an exec() would gain no rights
 *   Landlock         files: read only, below the given directories; no TCP sockets of its own
 *   seccomp          any system call that serving does not need kills the process (SIGSYS)
 *   not dumpable     other processes of its user cannot attach to it or read its memory
 *   streams          standard input, output and error are /dev/null
 *   environment      overwritten but for the time zone, and for the ACME process its proxy
 *   resource limits  no core dump with client data in it, no file that grows
 *
 * Sources: prctl(2), landlock(7), seccomp(2). Sanitizer builds only change the identity, because
 * their run-time needs more rights. Features that the kernel lacks are skipped.
 */
#ifndef DAEMON_SANDBOX_H
#define DAEMON_SANDBOX_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>

enum sandbox_role {
    SANDBOX_WORKER,
    SANDBOX_LOGGER,
    SANDBOX_KEYS,
    SANDBOX_METRICS,
    SANDBOX_ACME,
    SANDBOX_PARSER, /* reads certificates and keys that others have written */
    SANDBOX_ROLES
};

/* The features of this build and kernel. */
struct sandbox_features {
    bool built;   /* false: a sanitizer build */
    int landlock; /* ABI version, 0: none */
    bool seccomp;
};

struct sandbox_features sandbox_features(void);

/* The same as one line: "Landlock 7, seccomp". */
void sandbox_describe(char *text, size_t size);

/*
 * Checks that [server] user and group exist, that symlinks = follow is safe and that jail = strict
 * is possible; for config_load().
 */
extern const struct config_system sandbox_config_system;

/*
 * Called by the master before it forks the others: builds the seccomp filters, which needs memory.
 * Returns 0, or -1 with errno.
 */
int sandbox_prepare(void);

/* What a worker or the logger keeps. All members are borrowed. */
struct sandbox_setup {
    enum sandbox_role role;
    const struct config *config; /* user, group and jail of [server] */
    const int *roots;            /* descriptors of the document roots */
    size_t root_count;
    const char *const *link_root; /* further directories that links may lead into, real paths */
    size_t link_root_count;       /* at most CONFIG_LIST_MAX */
    const int *writable;          /* descriptor of the directory for files of its own; NULL: none */
    const int *keep;              /* other descriptors to keep open */
    size_t keep_count;
};

/*
 * Called once by a process that has one thread: closes all other descriptors, switches to the
 * configured user, and, unless [server] jail is off, applies Landlock, seccomp and the limits.
 * Returns 0, or -1 after logging an error.
 */
int sandbox_enter(const struct sandbox_setup *setup);

/*
 * The part of sandbox_enter() that applies Landlock and seccomp; sandbox_prepare() must have run in
 * this process or its parent. DIRECTORIES: COUNT O_PATH descriptors, files or directories, that may be read;
 * WRITABLE: another one, below which files may be written, too, or -1. Returns 0, or -1 with errno.
 */
int sandbox_restrict(enum sandbox_role role, const int *directories, size_t count, int writable);

/*
 * Closes every descriptor from 3 on except the COUNT in KEEP. Sorts KEEP. Returns 0, or -1 with
 * errno.
 */
int sandbox_close_others(int *keep, size_t count);

#endif
