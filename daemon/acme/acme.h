/*
 * The ACME process: obtains the certificates of [acme] hosts, one after the other, and renews them. It has
 * the sandbox of its own role: it can connect and write below its state directory, but reads no site and
 * talks to no worker. Off, it does not run.
 */
#ifndef DAEMON_ACME_H
#define DAEMON_ACME_H

#include "daemon/config/config.h"

struct segment;

/* What the process inherits from the master. All borrowed, except command_fd. */
struct acme_setup {
    const struct config *config;
    struct segment *segment; /* which it removes from its memory */
    int command_fd;          /* its end of the channel to the master */
    int lock_fd; /* the lock of the pid file, held while any process of the daemon lives */
};

/*
 * Runs until the channel to the master is closed. Returns the exit status. The caller has freed the
 * master's event base.
 */
int acme_run(const struct acme_setup *setup);

#endif
