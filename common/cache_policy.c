#include "common/cache_policy.h"

void policy_insert(struct policy_list *list, struct policy_node *node)
{
    node->newer = NULL;
    node->older = list->newest;
    if (list->newest != NULL)
        list->newest->newer = node;
    else
        list->oldest = node;
    list->newest = node;
    list->count++;
}

void policy_remove(struct policy_list *list, struct policy_node *node)
{
    if (list->hand == node)
        list->hand = node->newer;
    if (node->newer != NULL)
        node->newer->older = node->older;
    else
        list->newest = node->older;
    if (node->older != NULL)
        node->older->newer = node->newer;
    else
        list->oldest = node->newer;
    node->newer = node->older = NULL;
    list->count--;
}

static struct policy_node *sieve_victim(struct policy_list *list, policy_was_hit *was_hit,
                                        void *context)
{
    struct policy_node *node = list->hand != NULL ? list->hand : list->oldest;

    /* At most two rounds: other threads may keep hitting nodes. */
    for (size_t steps = 2 * list->count; steps > 0 && was_hit(context, node); steps--)
        node = node->newer != NULL ? node->newer : list->oldest;
    list->hand = node;
    return node;
}

static struct policy_node *lru_victim(struct policy_list *list, policy_was_hit *was_hit,
                                      void *context)
{
    for (size_t steps = list->count; steps > 0 && was_hit(context, list->oldest); steps--) {
        struct policy_node *node = list->oldest;

        policy_remove(list, node);
        policy_insert(list, node);
    }
    return list->oldest;
}

const struct cache_policy cache_policy_sieve = {"sieve", sieve_victim};
const struct cache_policy cache_policy_lru = {"lru", lru_victim};
