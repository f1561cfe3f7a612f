/*
 * Watching one instance: joins the source (where the numbers come from), the model and history
 * (what they mean) and the tail (its requests). What views are shown comes from here. The console's
 * only thread.
 */
#ifndef CONSOLE_WATCH_H
#define CONSOLE_WATCH_H

#include "console/cache_list.h"
#include "console/event_list.h"
#include "console/history.h"
#include "console/knobs.h"
#include "console/model.h"
#include "console/outcomes.h"
#include "console/processes.h"
#include "console/source.h"
#include "console/tail.h"
#include "console/top.h"

#include <stdbool.h>
#include <stdint.h>

struct watch;

/* Begins to watch the instance NAME. NULL when memory is out. */
struct watch *watch_open(const char *name);
void watch_close(struct watch *watch);

/*
 * Looks whether the daemon is there, and takes a sample if it is. NOW_NS is the monotonic clock,
 * WALL_NS the wall clock. WANTS are bits of enum wants (console/view.h): what is to be read besides
 * what is always read. Returns 0, or -1 when memory is out.
 */
int watch_sample(struct watch *watch, uint64_t now_ns, uint64_t wall_ns, unsigned wants);

/* What is wanted of KNOB at this very moment, sampled or not; 0: no daemon. */
uint32_t watch_wanted(const struct watch *watch, enum knob knob);

/* True when it is a recording that is watched. */
bool watch_replays(const struct watch *watch);

/*
 * Goes BACK seconds of the history back: from then on watch_model() and watch_history() are those
 * of that second, until another sample is taken. Returns how far back it is, 0 (the moment of the
 * last sample) to the oldest second there is.
 */
size_t watch_look_back(struct watch *watch, size_t back);

const struct source *watch_source(const struct watch *watch);
const struct model *watch_model(const struct watch *watch);
const struct history *watch_history(const struct watch *watch);
const struct tail *watch_tail(const struct watch *watch);
const struct top *watch_top(const struct watch *watch);
const struct outcomes *watch_outcomes(const struct watch *watch);
const struct event_list *watch_events(const struct watch *watch);

/* Taken about once a second; the cache and the configuration only while they are wanted. */
const struct process_table *watch_processes(const struct watch *watch);
const struct cache_list *watch_cache(const struct watch *watch);
const char *watch_config(const struct watch *watch); /* "": not read yet */

#endif
