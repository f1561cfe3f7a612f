/*
 * Running in the background (-d): a child in a session of its own becomes the master. The calling
 * process waits until the master serves or has failed, and reports which by its exit status. Until
 * then messages go to the terminal. The functions after daemonize() do nothing without it.
 */
#ifndef DAEMON_DAEMONIZE_H
#define DAEMON_DAEMONIZE_H

/* Returns 0 in the child; -1 with errno if there is none. The parent exits inside. */
int daemonize(void);

/* The master, once it serves: lets the parent exit with status 0 and releases the terminal. */
void daemonize_report_ready(void);

/* A child of the master: releases the parent's pipe and the terminal without a report. */
void daemonize_release(void);

#endif
