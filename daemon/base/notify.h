/*
 * What a service manager wants to know: the protocol of sd_notify(3), a datagram of lines to the
 * socket that NOTIFY_SOCKET names. Without that variable nothing happens. The master.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include "common/macros.h"

/* Sends "READY=1", "STATUS=...", several lines at once. */
void notify_send(const char *format, ...) PRINTF_LIKE(1, 2);

/* A reload begins; "READY=1" ends it. */
void notify_reloading(void);

/* A sign of life, if the service manager waits for one (WATCHDOG_USEC). */
void notify_alive(void);

#endif
