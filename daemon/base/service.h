/*
 * Signals of all processes, and the master as a service: runs in the background (-d) and notifies a
 * service manager.
 *
 * Signals: terminals, operators and service managers signal the whole process group, but only the
 * master handles signals; it tells workers and logger when to exit.
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

enum { SIGNALS_HANDLED = 7 };

/* Those that the master handles. */
extern const int signals_handled[SIGNALS_HANDLED];

/* The master, before it installs its handlers. */
void signals_ignore_in_master(void);

/*
 * Blocks and unblocks the signals that the master handles. During startup and exit the event loop
 * does not run; the default action would kill the master without removing its sockets and files.
 */
void signals_block(void);
void signals_unblock(void);

/* A worker or the logger. */
void signals_ignore_in_child(void);

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
