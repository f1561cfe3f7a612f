/*
 * Signals. Terminals, operators and service managers signal the whole process group, but only the
 * master acts on it: it tells workers and logger when to end.
 */
#ifndef DAEMON_SIGNALS_H
#define DAEMON_SIGNALS_H

enum { SIGNALS_HANDLED = 7 };

/* Those that the master handles. */
extern const int signals_handled[SIGNALS_HANDLED];

/* The master, before it installs its handlers. */
void signals_ignore_in_master(void);

/*
 * Blocks and unblocks the signals that the master handles. At the start and the end, when the event
 * loop does not run but files and sockets exist, their default action would end the master without
 * removing them.
 */
void signals_block(void);
void signals_unblock(void);

/* A worker or the logger. */
void signals_ignore_in_child(void);

#endif
