/*
 * The life cycle of a worker in its slot as a table of states and events (worker_lifecycle.def). The
 * supervisor has the actions.
 */
#ifndef DAEMON_WORKER_LIFECYCLE_H
#define DAEMON_WORKER_LIFECYCLE_H

#include "common/segment.h"
#include "daemon/master/state_table.h"

enum worker_event {
#define WORKER_LIFE_EVENT(name, help, ...) WORKER_EVENT_##name,
#include "daemon/master/worker_lifecycle.def"
    WORKER_EVENTS
};

enum worker_action {
#define WORKER_LIFE_ACTION(name, next, help) WORKER_ACTION_##name,
#include "daemon/master/worker_lifecycle.def"
    WORKER_ACTIONS
};

extern const struct state_table worker_lifecycle;

#endif
