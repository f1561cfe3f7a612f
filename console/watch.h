/*
 * Watching one instance: joins the source (where the numbers come from), the model and history
 * (what they mean) and the tail (its requests). What views are shown comes from here. The console's
 * only thread.
 */
#ifndef CONSOLE_WATCH_H
#define CONSOLE_WATCH_H

#include "console/history.h"
#include "console/model.h"
#include "console/source.h"
#include "console/tail.h"

#include <stdbool.h>
#include <stdint.h>

struct watch;

/* Begins to watch the instance NAME. NULL when memory is out. */
struct watch *watch_open(const char *name);
void watch_close(struct watch *watch);

/*
 * Looks whether the daemon is there, and takes a sample if it is. NOW_NS is the monotonic clock,
 * WALL_NS the wall clock. Returns 0, or -1 when memory is out.
 */
int watch_sample(struct watch *watch, uint64_t now_ns, uint64_t wall_ns);

/* Serving threads that are wanted in each worker at this very moment, sampled or not; 0: no daemon.
 */
uint32_t watch_threads_wanted(const struct watch *watch);

const struct source *watch_source(const struct watch *watch);
const struct model *watch_model(const struct watch *watch);
const struct history *watch_history(const struct watch *watch);
const struct tail *watch_tail(const struct watch *watch);

#endif
