/*
 * The master as a service: runs in the background (-d) and notifies a service manager.
 *
 * Background: a child in a new session becomes the master. The calling process waits until the
 * master serves or fails, and exits with the corresponding status. Until then messages go to the
 * terminal. Without daemonize() the functions daemonize_...() do nothing.
 *
 * Notifications: the protocol of sd_notify(3), a datagram of lines to the socket in NOTIFY_SOCKET.
 * Without that variable, nothing is sent.
 */
#ifndef DAEMON_SERVICE_H
#define DAEMON_SERVICE_H

#include "common/macros.h"

/* Returns 0 in the child, or -1 with errno if fork() fails. The parent does not return. */
int daemonize(void);

/* The master calls this when it serves: the parent exits with status 0. Releases the terminal. */
void daemonize_report_ready(void);

/* Called by a child of the master: closes the parent's pipe and the terminal without a report. */
void daemonize_release(void);

/*
 * A duplicate of a standard stream as it is after the release: /dev/null for a terminal or pipe, if
 * the process goes to the background. Close-on-exec; a terminal or pipe is non-blocking if it can
 * be opened again. Returns -1 with errno on failure.
 */
int daemonize_duplicate_stream(int fd);

/* Sends one or more lines, such as "READY=1" or "STATUS=...". */
void notify_send(const char *format, ...) PRINTF_LIKE(1, 2);

/* Sends "RELOADING=1"; a later "READY=1" ends the reload. */
void notify_reloading(void);

/* Keep-alive, if the service manager has a watchdog (WATCHDOG_USEC). */
void notify_alive(void);

#endif
