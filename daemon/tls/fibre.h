/*
 * A function call with its own stack that can pause and continue later: OpenSSL computes a signature
 * within a call, but here its result comes later. A paused call continues on the same thread only.
 */
#ifndef DAEMON_TLS_FIBRE_H
#define DAEMON_TLS_FIBRE_H

#include <stdbool.h>

struct fibre;

/* NULL: out of memory. */
struct fibre *fibre_new(void);

/* It runs no call. */
void fibre_free(struct fibre *fibre);

/*
 * Calls RUN(ARGUMENT), which may call fibre_pause(). Returns true when the call has returned; false
 * if it is paused: then fibre_continue(), which returns the same. Not within a fibre.
 */
bool fibre_call(struct fibre *fibre, void (*run)(void *argument), void *argument);
bool fibre_continue(struct fibre *fibre);

/* Only within a call. Others may use OpenSSL meanwhile, so its error queue must be empty. */
void fibre_pause(void);

#endif
