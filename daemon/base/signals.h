/*
 * Signals. Terminals, operators and service managers signal the whole process group, but only the
 * master handles signals; it tells workers and logger when to exit.
 */
#ifndef DAEMON_SIGNALS_H
#define DAEMON_SIGNALS_H

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

#endif
