#include "loadgen/lab/trace.h"

#include "common/macros.h"

#include "loadgen/plan/arrivals.h"

#include <math.h>
#include <stdlib.h>

/* The index of the first of COUNT SUMS (ascending) above VALUE. */
static uint32_t find_above(const double *sums, uint32_t count, double value)
{
    uint32_t low = 0, high = count - 1;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (sums[middle] > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int trace_zipf(uint32_t *numbers, size_t count, uint32_t files, double exponent, uint64_t seed)
{
    double *sums = calloc(files, sizeof(*sums)), sum = 0;

    if (sums == NULL)
        return -1;
    for (uint32_t i = 0; i < files; i++)
        sums[i] = sum += pow(i + 1.0, -exponent);
    for (size_t i = 0; i < count; i++)
        numbers[i] = find_above(sums, files, random_unit(&seed) * sum);
    free(sums);
    return 0;
}

void trace_add_scans(uint32_t *numbers, size_t count, size_t gap, size_t length, uint32_t first,
                     uint32_t files)
{
    uint32_t next = first;

    for (size_t begin = gap; begin < count; begin += gap + length)
        for (size_t i = begin; i < begin + length && i < count; i++) {
            numbers[i] = next++;
            if (next == files)
                next = first;
        }
}

/* ---- Simulation ---- */

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

static void evict_for_room(const struct cache_policy *policy, struct policy_list *list, size_t room)
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
        evict_for_room(policy, &list, room);
        entry->present = true;
        entry->hit = false;
        policy_insert(&list, &entry->node);
    }
    free(entries);
    return count > 0 ? 100.0 * (double)hits / (double)count : NAN;
}
