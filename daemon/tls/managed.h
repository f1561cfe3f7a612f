/*
 * The certificates that the server obtains itself: those in [acme] state_dir, and self-signed ones for
 * names that have none yet. Their files are written by the ACME process, which the master does not trust:
 * each is checked before it is used. The master.
 */
#ifndef DAEMON_TLS_MANAGED_H
#define DAEMON_TLS_MANAGED_H

#include "daemon/config/config.h"

/* Paths, as in [tls] certificate and key. */
struct managed_certificates {
    struct config_paths certificate, key;
};

/*
 * Finds the files for each name of [acme]. MANAGED is all zero. A certificate that cannot be used is
 * logged, and a self-signed one, which is made if it is missing, replaces it. Returns 0, or -1 with WHY;
 * then call managed_certificates_free() nevertheless.
 */
int managed_certificates_find(const struct config *config, struct managed_certificates *managed,
                              char *why, size_t size);
void managed_certificates_free(struct managed_certificates *managed);

#endif
