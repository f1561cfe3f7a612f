/*
 * Signals that a process leaves to the master. What the terminal, an operator or a service manager
 * sends to the whole group is the master's business: it tells workers and logger when to end.
 */
#ifndef DAEMON_SIGNALS_H
#define DAEMON_SIGNALS_H

/* In the master, before it watches for those that it handles. */
void signals_ignore_in_master(void);

/* In a worker or the logger. */
void signals_ignore_in_child(void);

#endif
