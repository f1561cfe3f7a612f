/*
 * Into the background (-d): a child in a session of its own becomes the master. Who called waits until
 * it serves, or has failed, and says so by its exit status; until then messages come to the terminal.
 */
#ifndef DAEMON_DETACH_H
#define DAEMON_DETACH_H

/* Returns 0 in the child, -1 with errno when there is none; the caller's process ends in here. */
int detach_begin(void);

/* The master, when all serves: the one who called may go. Without detach_begin(), nothing. */
void detach_end(void);

/* A process of the master's: it has nothing to say to the one who called. Likewise. */
void detach_end_in_child(void);

#endif
