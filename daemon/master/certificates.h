/*
 * The certificates that the server obtains itself: runs the ACME process while [acme] is enabled, and has
 * the workers use each new certificate by a reload that changes nothing else. The master's loop.
 */
#ifndef DAEMON_MASTER_CERTIFICATES_H
#define DAEMON_MASTER_CERTIFICATES_H

#include "daemon/acme/process.h"
#include "daemon/master/reload.h"
#include "daemon/master/server.h"

#include <jansson.h>

struct certificates {
    struct server *server; /* borrowed, as is the next */
    struct reload *reload;
    void (*after_fork)(void *context);
    void *context;
    struct acme_process process;
    bool wanted;          /* between certificates_start() and certificates_stop() */
    bool pending;         /* a certificate is new, and not in use yet */
    bool reloading;       /* a reload for it has started, and may have failed... */
    bool again;           /* ...and since then another one is new */
    uint64_t reloaded_ns; /* when the last one started, monotonic; 0: never */
};

/* AFTER_FORK(CONTEXT) frees the master's resources in a child. */
void certificates_init(struct certificates *certificates, struct server *server,
                       struct reload *reload, void (*after_fork)(void *context), void *context);

/* Starts the process, now and whenever it has ended. After an upgrade: once the old master has none. */
void certificates_start(struct certificates *certificates);
void certificates_stop(struct certificates *certificates);

/* Call when a reload is in force. CHANGED: the configuration may be another one. */
void certificates_committed(struct certificates *certificates, bool changed);

/* Once a second: starts what waits, and ends a process that hangs. Times as in struct watchdog. */
void certificates_check(struct certificates *certificates, uint64_t resumed_ns, uint64_t now_ns);

/* Call when process PID has ended. Returns false if it is not the ACME process. */
bool certificates_process_ended(struct certificates *certificates, pid_t pid, const char *how);

/* The result of a renewal. */
enum certificates_renewal {
    RENEWAL_PENDING,   /* under way, or a reload for the certificate is */
    RENEWAL_OBTAINED,  /* and in use */
    RENEWAL_FAILED,    /* the plan has the error */
    RENEWAL_ABANDONED, /* the ACME process has ended; the next one follows its plan */
};

/*
 * Requests a new certificate for NAME, which is one of [acme], with its NUMBER in the configuration. Returns
 * a token of the renewal, or 0 with WHY.
 */
uint64_t certificates_renew(struct certificates *certificates, uint32_t number, char *why,
                            size_t size);

/* The state of the renewal TOKEN; *NUMBER is that of its name, and *SINCE_NS when it was requested, monotonic. */
enum certificates_renewal certificates_renewal(const struct certificates *certificates,
                                               uint64_t token, uint32_t *number,
                                               uint64_t *since_ns);

/*
 * A new list of the certificates in use: names, issuer, times, and for those of [acme] the next attempt.
 * NULL: out of memory.
 */
json_t *certificates_list(const struct certificates *certificates);

/* Frees; the process ends itself. In a child of the master, too. */
void certificates_free(struct certificates *certificates);

#endif
