#include "loadgen/lab/cache_simulation.h"

#include "common/macros.h"

#include <math.h>
#include <stdlib.h>

struct entry {
    struct policy_node node;
    bool present, hit;
};

static bool take_hit(void *context, struct policy_node *node)
{
    struct entry *entry = CONTAINER_OF(node, struct entry, node);
    bool hit = entry->hit;

    (void)context;
    entry->hit = false;
    return hit;
}

static void make_room(const struct cache_policy *policy, struct policy_list *list, size_t room)
{
    while (list->count >= room) {
        struct policy_node *victim = policy->victim(list, take_hit, NULL);

        policy_remove(list, victim);
        CONTAINER_OF(victim, struct entry, node)->present = false;
    }
}

double cache_simulate(const struct cache_policy *policy, const uint32_t *numbers, size_t count,
                      uint32_t files, size_t room)
{
    struct entry *entries = calloc(files, sizeof(*entries));
    struct policy_list list = {0};
    size_t hits = 0;

    if (entries == NULL)
        return NAN;
    for (size_t i = 0; i < count && room > 0; i++) {
        struct entry *entry = &entries[numbers[i]];

        if (entry->present) {
            entry->hit = true;
            hits++;
            continue;
        }
        make_room(policy, &list, room);
        entry->present = true;
        entry->hit = false;
        policy_insert(&list, &entry->node);
    }
    free(entries);
    return count > 0 ? 100.0 * (double)hits / (double)count : NAN;
}
