/*
 * The master as a service: runs in the background (-d) and notifies a service manager.
 *
 * Background: a child in its own session becomes the master. The calling process waits until the master
 * serves or has failed, and reports which by its exit status. Until then messages go to the terminal.
 * The functions after daemonize() do nothing without it.
 *
 * Notifications: the protocol of sd_notify(3), a datagram of lines to the socket named by NOTIFY_SOCKET.
 * Without that variable, nothing is sent.
 */
#ifndef DAEMON_SERVICE_H
#define DAEMON_SERVICE_H

#include "common/macros.h"

/* Returns 0 in the child; -1 with errno if there is none. The parent exits inside. */
int daemonize(void);

/* The master, once it serves: lets the parent exit with status 0 and releases the terminal. */
void daemonize_report_ready(void);

/* A child of the master: releases the parent's pipe and the terminal without a report. */
void daemonize_release(void);

/* Sends "READY=1", "STATUS=..."; several lines at once. */
void notify_send(const char *format, ...) PRINTF_LIKE(1, 2);

/* A reload begins; "READY=1" ends it. */
void notify_reloading(void);

/* Keep-alive, if the service manager has a watchdog (WATCHDOG_USEC). */
void notify_alive(void);

#endif
