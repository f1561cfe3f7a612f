/*
 * Watches how much memory the server's control group has left, because at its limit the kernel kills
 * workers instead of failing their allocations. Tells the workers, who free memory in time
 * (daemon/worker/relief.h):
 *
 *   MEMORY_ENOUGH ◀─80 %─▶ 85 %─ MEMORY_SHORT ◀─90 %─▶ 95 %─ MEMORY_EXHAUSTED
 *
 * The master's thread.
 */
#ifndef DAEMON_MEMORY_WATCH_H
#define DAEMON_MEMORY_WATCH_H

#include "daemon/master/workers.h"

struct memory_watch;

/* Returns NULL if out of memory. Without a control group it does nothing. */
struct memory_watch *memory_watch_new(struct server *server, struct workers *workers);
void memory_watch_free(struct memory_watch *watch);

/* The level after LEVEL when USED thousandths of the limit are in use. */
enum memory_level memory_level_next(enum memory_level level, uint32_t used);

#endif
