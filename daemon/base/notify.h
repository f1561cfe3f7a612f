/*
 * Notifications for a service manager, by the protocol of sd_notify(3): a datagram of lines to the
 * socket named by NOTIFY_SOCKET. Without that variable, nothing is sent. The master.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include "common/macros.h"

/* Sends "READY=1", "STATUS=..."; several lines at once. */
void notify_send(const char *format, ...) PRINTF_LIKE(1, 2);

/* A reload begins; "READY=1" ends it. */
void notify_reloading(void);

/* Keep-alive, if the service manager has a watchdog (WATCHDOG_USEC). */
void notify_alive(void);

#endif
