#include "daemon/master/lifecycle.h"

#include "common/macros.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"

static const struct state_name states[] = {
#define LIFE_STATE(name, help) {#name, help},
#include "daemon/master/lifecycle.def"
};

static const struct state_name events[] = {
#define LIFE_EVENT(name, help, ...) {#name, help},
#include "daemon/master/lifecycle.def"
};

enum { LIFE_SAME = LIFE_STATES };

static const struct state_action actions[] = {
#define LIFE_ACTION(name, next, help) {{#name, help}, LIFE_##next},
#include "daemon/master/lifecycle.def"
};

/* Each row names its actions without a prefix. */
#define ROW(a, b, c, d, e, f, g, h, i, j)                                                          \
    ACTION_##a, ACTION_##b, ACTION_##c, ACTION_##d, ACTION_##e, ACTION_##f, ACTION_##g,            \
        ACTION_##h, ACTION_##i, ACTION_##j,

static const int cells[LIFE_EVENTS * LIFE_STATES] = {
#define LIFE_EVENT(name, help, ...) ROW(__VA_ARGS__)
#include "daemon/master/lifecycle.def"
};

const struct state_table master_lifecycle = {.owner = "it",
                                             .states = states,
                                             .events = events,
                                             .actions = actions,
                                             .cells = cells,
                                             .state_count = LIFE_STATES,
                                             .event_count = LIFE_EVENTS,
                                             .action_count = LIFE_ACTIONS};

bool lifecycle_is_stopping(const struct lifecycle *life)
{
    return life->state >= LIFE_retiring;
}

static void enter(struct lifecycle *life, enum life_state state)
{
    if (state == life->state)
        return;
    event_del(life->timer);
    life->state = state;
}

static void act(struct lifecycle *life, enum life_event event)
{
    enum life_state before = life->state;
    enum life_action action =
        (enum life_action)state_table_action(&master_lifecycle, (int)before, (int)event);

    if (action == ACTION_impossible)
        event_log(LEVEL_ERROR, "life cycle: '%s' is impossible when %s", events[event].name,
                  states[before].name);
    enter(life, (enum life_state)state_table_next(&master_lifecycle, (int)before, (int)action));
    if (life->functions[action](life->context) != 0)
        enter(life, before);
}

void lifecycle_report(struct lifecycle *life, enum life_event event)
{
    life->deferred |= UINT32_C(1) << event;
    if (life->acting)
        return;
    life->acting = true;
    while (life->deferred != 0) {
        int first = __builtin_ctz(life->deferred);

        life->deferred &= life->deferred - 1;
        act(life, (enum life_event)first);
    }
    life->acting = false;
}

void lifecycle_set_deadline(struct lifecycle *life, uint64_t ms)
{
    const struct timeval when = {.tv_sec = (time_t)(ms / 1000),
                                 .tv_usec = (suseconds_t)(ms % 1000) * 1000};

    if (event_add(life->timer, &when) != 0) /* no memory: a stop must end, so do not wait */
        event_active(life->timer, EV_TIMEOUT, 0);
}

static void on_timer(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    lifecycle_report(argument, EVENT_timeout);
}

int lifecycle_init(struct lifecycle *life, struct event_base *base, life_function *const *functions,
                   void *context)
{
    _Static_assert(LIFE_EVENTS <= 32, "deferred has 32 bits");
    *life = (struct lifecycle){.functions = functions, .context = context};
    life->timer = event_new(base, -1, 0, on_timer, life);
    return life->timer != NULL ? 0 : -1;
}

void lifecycle_free(struct lifecycle *life)
{
    loop_free_event(life->timer);
    life->timer = NULL;
}
