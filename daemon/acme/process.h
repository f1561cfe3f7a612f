/*
 * The ACME process as the master sees it: starts it, and restarts it if it dies or hangs. It
 * handles what comes from outside, so its messages are checked like those of workers. The master's
 * loop.
 */
#ifndef DAEMON_ACME_PROCESS_H
#define DAEMON_ACME_PROCESS_H

#include "daemon/acme/hook.h"
#include "daemon/base/child.h"
#include "daemon/config/acme.h"

#include <sys/types.h>

struct identity;

/* A change of the account's key. */
struct acme_key_change {
    uint32_t number;              /* the last one that was requested; 0: none */
    uint64_t since_ns;            /* when, monotonic */
    uint32_t ended;               /* the last one that has ended */
    char error[ACME_ERROR_BYTES]; /* why that one failed; any bytes but a NUL; "": it did not */
};

/* What the process last reported of a name. */
struct acme_plan {
    char name[ACME_NAME_MAX + 1]; /* the first one of the certificate */
    char *names;                  /* all, as in the configuration */
    bool known;
    bool deploys;                 /* deploy_hook is to run when the certificate is in use */
    uint32_t failures;            /* attempts that failed since the last success */
    uint32_t renewal;             /* the last one that was requested; 0: none */
    uint64_t renewal_ns;          /* when, monotonic */
    uint32_t renewal_ended;       /* the last one that has ended */
    int64_t next_s;               /* wall clock */
    int64_t refused_until_s;      /* the authority requested no attempt before; 0: none */
    char error[ACME_ERROR_BYTES]; /* why the last attempt failed; any bytes but a NUL */
};

struct acme_process {
    struct child child;
    int program_fd;       /* webserverd-acme, open until the end; -1: not found yet */
    uint32_t events_left; /* number that it may still log in this second */

    struct event_base *base; /* borrowed, as is the next */
    struct segment *segment; /* has the pid and the challenge */
    struct acme_plan *plan;  /* one for each name; NULL: no process has run */
    size_t plan_count;
    uint32_t renewals_requested, key_changes_requested;
    struct acme_key_change key_change;
    const struct config *config; /* that of the process; borrowed */
    struct acme_hook dns_hook, deploy_hook;
    char dns_output[HOOK_OUTPUT_BYTES]; /* what dns_hook has written when it made the record */
    void (*renewed)(void *context);     /* a certificate in the state directory is new */
    void *context;
};

/* What a process is started with. All borrowed. */
struct acme_setup {
    const struct config *config;
    /* Set by acme_process_start(). */
    int program_fd;
    int command_fd; /* the program's end of the channel */
};

/*
 * Opens the state directory, which is made if it is missing, and belongs to the user of the process
 * alone; files of its owner before are given to that user. The master. Returns a descriptor, or -1
 * with WHY.
 */
int acme_open_state(const struct config *config, char *why, size_t size);

/*
 * Opens webserverd-acme unless it is open. A master calls it early: the program that it starts is
 * then of its own version, also when an upgrade of the package has replaced the file.
 */
void acme_process_find_program(struct acme_process *process);

/*
 * Forks the process unless it runs or waits for its back-off. The child calls AFTER_FORK(CONTEXT),
 * which frees the master's resources, and executes webserverd-acme.
 */
void acme_process_start(struct acme_process *process, struct acme_setup *setup,
                        void (*after_fork)(void *context), void *context);

/*
 * Requests a new certificate for NAME, its number in the configuration, or joins the last request
 * if it has not ended. Returns its number, which the name's plan shows as long as this process
 * lives. 0: no process.
 */
uint32_t acme_process_renew(struct acme_process *process, uint32_t name);

/* The same for another key of the account; key_change shows it. */
uint32_t acme_process_change_key(struct acme_process *process);

/*
 * Once a second: kills the process if it has given no sign of life for TIMEOUT_MS (0: never). Time
 * before RESUMED_NS, when this process was suspended, does not count.
 */
void acme_process_check(struct acme_process *process, uint64_t timeout_ms, uint64_t resumed_ns,
                        uint64_t now_ns);

/*
 * Runs deploy_hook for a new certificate, if none runs. Call it when the workers use all new
 * certificates.
 */
void acme_process_deploy(struct acme_process *process, const struct config *config);

/* Process PID has ended with STATUS. Returns false if it is not that of a hook. */
bool acme_process_hook_reaped(struct acme_process *process, pid_t pid, int status);

/* Looks up the user of the process and of the hooks. Returns 0, or -1 with WHY. */
int acme_find_identity(const struct config *config, struct identity *identity, char *why,
                       size_t size);

/* Call when process PID has ended; HOW describes the end. Returns false if it is not this one. */
bool acme_process_ended(struct acme_process *process, pid_t pid, const char *how);

/* Ends it, in whatever step it is: its files are always complete. Does nothing without one. */
void acme_process_stop(struct acme_process *process);

/* Frees; the process ends itself. In a child of the master, too. */
void acme_process_free(struct acme_process *process);

#endif
