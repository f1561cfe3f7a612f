#include "daemon/master/state_table.h"

#include <stdbool.h>
#include <string.h>

int state_table_action(const struct state_table *table, int state, int event)
{
    return table->cells[event * table->state_count + state];
}

int state_table_next(const struct state_table *table, int state, int action)
{
    int next = table->actions[action].next;

    return next == table->state_count ? state : next;
}

static bool is_named(const struct state_table *table, int action, const char *name)
{
    return strcmp(table->actions[action].names.name, name) == 0;
}

static void print_events(const struct state_table *table, FILE *output)
{
    fputs("| event | |", output);
    for (int s = 0; s < table->state_count; s++)
        fprintf(output, " %s |", table->states[s].name);
    fputs("\n|---|---|", output);
    for (int s = 0; s < table->state_count; s++)
        fputs("---|", output);
    for (int e = 0; e < table->event_count; e++) {
        fprintf(output, "\n| `%s` | %s |", table->events[e].name, table->events[e].help);
        for (int s = 0; s < table->state_count; s++) {
            int action = state_table_action(table, s, e);

            if (is_named(table, action, "nothing"))
                fputs(" |", output);
            else
                fprintf(output, " %s |",
                        is_named(table, action, "impossible") ? "–"
                                                              : table->actions[action].names.name);
        }
    }
    fputs("\n\n", output);
}

static void print_states(const struct state_table *table, FILE *output)
{
    fputs("| state | |\n|---|---|\n", output);
    for (int s = 0; s < table->state_count; s++)
        fprintf(output, "| %s | %s |\n", table->states[s].name, table->states[s].help);
    fputs("\n", output);
}

static void print_actions(const struct state_table *table, FILE *output)
{
    fprintf(output, "| action | what the master does | then %s is |\n|---|---|---|\n",
            table->owner);
    for (int a = 0; a < table->action_count; a++) {
        const struct state_action *action = &table->actions[a];

        if (!is_named(table, a, "nothing") && !is_named(table, a, "impossible"))
            fprintf(output, "| %s | %s | %s |\n", action->names.name, action->names.help,
                    action->next == table->state_count ? "" : table->states[action->next].name);
    }
}

void state_table_print(const struct state_table *table, FILE *output)
{
    print_events(table, output);
    print_states(table, output);
    print_actions(table, output);
}
