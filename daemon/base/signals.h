/*
 * Signals that a process leaves to the master. What the terminal, an operator or a service manager
 * sends to the whole group is the master's business: it tells workers and logger when to end.
 */
#ifndef DAEMON_SIGNALS_H
#define DAEMON_SIGNALS_H

enum { SIGNALS_HANDLED = 7 };

/* Those that the master handles. */
extern const int signals_handled[SIGNALS_HANDLED];

/* In the master, before it watches for those that it handles. */
void signals_ignore_in_master(void);

/*
 * Keeps those that the master handles waiting, and lets them in. While there is something that
 * others could find and nobody watches for signals, at the start and at the end: one that came in
 * would end the master with all that left behind.
 */
void signals_hold(void);
void signals_let_in(void);

/* In a worker or the logger. */
void signals_ignore_in_child(void);

#endif
