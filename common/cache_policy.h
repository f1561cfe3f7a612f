/*
 * Cache eviction policies. Pure: linked lists of the caller's nodes, no lock, no clock, no
 * allocation. A hit does not call the policy; when the policy looks for a victim, it queries
 * whether a node was hit since the last query. So the hit path writes nothing that threads share.
 *
 *   sieve  a hand moves from the oldest node to the newest and evicts the first one without a hit;
 *          a hit protects a node once (Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024)
 *   lru    evicts the oldest node; one that was hit moves to the front instead (lazy promotion)
 */
#ifndef COMMON_CACHE_POLICY_H
#define COMMON_CACHE_POLICY_H

#include <stdbool.h>
#include <stddef.h>

struct policy_node {
    struct policy_node *newer, *older;
};

struct policy_list {
    struct policy_node *newest, *oldest;
    struct policy_node *hand; /* sieve: next node to examine; NULL: the oldest */
    size_t count;
};

/* Returns true if NODE was hit since the last call for it. */
typedef bool policy_was_hit(void *context, struct policy_node *node);

struct cache_policy {
    const char *name;
    /* Returns the node to evict, still in the list; NULL if the list is empty. */
    struct policy_node *(*victim)(struct policy_list *list, policy_was_hit *was_hit, void *context);
};

extern const struct cache_policy cache_policy_sieve;
extern const struct cache_policy cache_policy_lru;

/* Inserts NODE as the newest. */
void policy_insert(struct policy_list *list, struct policy_node *node);

/* Removes NODE. */
void policy_remove(struct policy_list *list, struct policy_node *node);

#endif
