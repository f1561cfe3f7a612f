#include "daemon/master/worker_lifecycle.h"

static const struct state_name states[] = {
#define WORKER_STATE(id, name, help) {name, help},
#include "common/enums.def"
};

enum { WORKER_SAME = WORKER_STATE_COUNT };

static const struct state_name events[] = {
#define WORKER_LIFE_EVENT(name, help, ...) {#name, help},
#include "daemon/master/worker_lifecycle.def"
};

static const struct state_action actions[] = {
#define WORKER_LIFE_ACTION(name, next, help) {{#name, help}, WORKER_##next},
#include "daemon/master/worker_lifecycle.def"
};

/* Each row names its actions without a prefix. */
#define ROW(a, b, c, d) WORKER_ACTION_##a, WORKER_ACTION_##b, WORKER_ACTION_##c, WORKER_ACTION_##d,

static const int cells[WORKER_EVENTS * WORKER_STATE_COUNT] = {
#define WORKER_LIFE_EVENT(name, help, ...) ROW(__VA_ARGS__)
#include "daemon/master/worker_lifecycle.def"
};

const struct state_table worker_lifecycle = {.owner = "the worker",
                                             .states = states,
                                             .events = events,
                                             .actions = actions,
                                             .cells = cells,
                                             .state_count = WORKER_STATE_COUNT,
                                             .event_count = WORKER_EVENTS,
                                             .action_count = WORKER_ACTIONS};
