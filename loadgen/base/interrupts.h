/*
 * SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) as something that can be waited
 * for and is never lost: from the outermost interrupts_begin() to its interrupts_end() each is
 * counted, also while nobody looks. Main thread; programs that are started meanwhile have the
 * handlers of before.
 */
#ifndef LOADGEN_INTERRUPTS_H
#define LOADGEN_INTERRUPTS_H

#include <stdint.h>

/* Pairs may be nested. Returns 0 or an errno, and is owed an end only if 0. */
int interrupts_begin(void);
void interrupts_end(void);

/* Readable when there is something to take; -1 outside of any pair. Watch it, do not read it. */
int interrupts_fd(void);

/* How many came since they were taken last. */
uint64_t interrupts_take(void);

#endif
