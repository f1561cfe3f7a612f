/*
 * The life cycle of the master as one table of states and events (lifecycle.def), and its
 * dispatcher. Whoever observes an event reports it here; only the table decides what happens. The
 * actions are functions of the owner. The master's loop.
 */
#ifndef DAEMON_LIFECYCLE_H
#define DAEMON_LIFECYCLE_H

#include "daemon/master/state_table.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

enum life_state {
#define LIFE_STATE(name, help) LIFE_##name,
#include "daemon/master/lifecycle.def"
    LIFE_STATES
};

enum life_event {
#define LIFE_EVENT(name, help, ...) EVENT_##name,
#include "daemon/master/lifecycle.def"
    LIFE_EVENTS
};

enum life_action {
#define LIFE_ACTION(name, next, help) ACTION_##name,
#include "daemon/master/lifecycle.def"
    LIFE_ACTIONS
};

extern const struct state_table master_lifecycle;

/*
 * Carries out an action. Returns 0, or -1 if it failed and changed nothing: the state then remains
 * as it was.
 */
typedef int life_function(void *context);

struct lifecycle {
    enum life_state state;
    life_function *const *functions; /* [LIFE_ACTIONS] */
    void *context;
    struct event *timer; /* reports EVENT_timeout */
    bool acting;
    uint32_t deferred; /* events reported during an action, as bits */
};

/* FUNCTIONS and CONTEXT are borrowed. Returns 0, or -1: out of memory. */
int lifecycle_init(struct lifecycle *life, struct event_base *base, life_function *const *functions,
                   void *context);
void lifecycle_free(struct lifecycle *life);

/*
 * Carries out the action for EVENT. The state changes before the action, whose reports are handled
 * when it has returned; so an action never runs within another one.
 */
void lifecycle_report(struct lifecycle *life, enum life_event event);

/* Reports EVENT_timeout in MS milliseconds, unless the state changes before. */
void lifecycle_set_deadline(struct lifecycle *life, uint64_t ms);

/* True from the beginning of a stop or of the retirement after an upgrade. */
bool lifecycle_is_stopping(const struct lifecycle *life);

#endif
