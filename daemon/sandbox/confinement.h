/*
 * A worker gives up what serving does not need: foreign descriptors, the master's identity, and by the
 * jail all files outside the root and all other system calls.
 */
#ifndef DAEMON_CONFINEMENT_H
#define DAEMON_CONFINEMENT_H

#include "daemon/content/files.h"
#include "daemon/worker/worker.h"

/*
 * The last that is done with the master's rights; ROOT is open. What other threads need later is made
 * afterwards: only a process with one thread can lock itself in. Returns 0, or -1 when the error log
 * has been told.
 */
int confinement_enter(const struct files_root *root, const struct worker_setup *setup);

#endif
