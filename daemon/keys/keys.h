/*
 * The keys process: the only one with the private keys in its memory. It makes the signatures that the
 * handshakes of the workers need, and no others: the requests of workers are hostile input, and so
 * each must be what a TLS server signs. It receives the keys from the master in files in memory
 * (daemon/tls/private_keys.h) and can open nothing itself.
 */
#ifndef DAEMON_KEYS_H
#define DAEMON_KEYS_H

#include "daemon/config/config.h"

struct segment;

/* What the keys process inherits from the master. All borrowed, except command_fd. */
struct keys_setup {
    const struct config *config;
    struct segment *segment; /* which it removes from its memory */
    int command_fd;          /* its end of the channel to the master */
    int lock_fd; /* the lock of the pid file, held while any process of the daemon lives */
};

/*
 * Runs until the channel to the master is closed. Returns the exit status. The caller has freed the
 * master's event base.
 */
int keys_run(const struct keys_setup *setup);

#endif
