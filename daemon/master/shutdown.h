/*
 * The end in order: workers finish the requests under way, the logger writes what they left, the
 * loop breaks. A second request for it ends the workers at once. The master.
 */
#ifndef DAEMON_STOPPING_H
#define DAEMON_STOPPING_H

#include "daemon/master/master.h"

/* NULL: out of memory. */
struct stopping *stopping_new(struct master *master);
void stopping_free(struct stopping *stopping);

void stopping_begin(struct stopping *stopping);

/* The same for a server that has a successor: connections that are idle are not closed under their
 * clients, but behind their next answer, or after drain_timeout. */
void stopping_retire(struct stopping *stopping);

/* A process has ended: takes the next step, if a stop is under way. */
void stopping_go_on(struct stopping *stopping);

bool stopping_is_under_way(const struct stopping *stopping);

#endif
