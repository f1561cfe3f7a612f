/* Deadlines: what becomes of connections that keep their thread waiting too long. */
#ifndef DAEMON_EXPIRY_H
#define DAEMON_EXPIRY_H

#include "daemon/worker/thread.h"

/* Closes or answers what has passed its deadline. The owning thread, a few times a second. */
void expiry_sweep(struct serving_thread *thread);

#endif
