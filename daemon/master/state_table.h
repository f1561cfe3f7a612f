/*
 * A state machine as a table: the action for each state and event, and the state that follows it. A
 * .def file lists a machine once; a struct state_table describes it to these functions. Immutable.
 */
#ifndef DAEMON_STATE_TABLE_H
#define DAEMON_STATE_TABLE_H

#include <stdio.h>

struct state_name {
    const char *name, *help;
};

struct state_action {
    struct state_name names;
    int next; /* state; the number of states: it does not change */
};

struct state_table {
    const char *owner; /* for the picture: "the master" */
    const struct state_name *states, *events;
    const struct state_action *actions;
    const int *cells; /* [event * number of states + state]: an action */
    int state_count, event_count, action_count;
};

int state_table_action(const struct state_table *table, int state, int event);

/* The state after ACTION in STATE. */
int state_table_next(const struct state_table *table, int state, int action);

/*
 * Prints tables of events, states and actions as Markdown. Cells of the action `nothing` are empty,
 * those of `impossible` a dash.
 */
void state_table_print(const struct state_table *table, FILE *output);

#endif
