/*
 * What systemd gives to the processes of a unit, for webserverd -t --as-service: user, groups,
 * capabilities, credentials, directories and environment. Ports and files can then be tried as the
 * service would open them.
 */
#ifndef DAEMON_SERVICE_H
#define DAEMON_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define SERVICE_UNIT "webserverd.service"

struct service {
    bool activated;        /* a socket unit of the service is active, so it opens no addresses */
    char description[512]; /* "user webserverd (61234), no capabilities, ..." */
    char not_applied[256]; /* directives of the unit that this process lacks, separated by ", " */
};

/*
 * Called once, by root, in a process with one thread that does nothing but check: reads the unit by
 * systemctl(1) and makes this process like one of it, in a mount namespace of its own. Nothing of
 * the system changes. Returns 0, or -1 with WHY.
 */
int service_enter(struct service *service, char *why, size_t size);

#endif
