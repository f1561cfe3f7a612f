/*
 * Who makes room: eviction policies behind one small interface. Pure: lists of nodes, no lock, no
 * clock, no memory of its own. Hits are not reported to a policy; it asks, when it needs to know,
 * whether a node was hit since it last asked. That keeps the hit path free of shared writes.
 *
 *   sieve  a hand walks from the oldest to the newest; what was hit is spared once (Zhang et al.,
 *          "SIEVE is Simpler than LRU", NSDI 2024)
 *   lru    the oldest goes; if it was hit meanwhile it moves to the front instead (lazy promotion)
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
    struct policy_node *hand; /* sieve: where to look next; NULL: at the oldest */
    size_t count;
};

/* True when NODE was hit since the last time this was asked for it. */
typedef bool policy_was_hit(void *context, struct policy_node *node);

struct cache_policy {
    const char *name;
    /* The node that should go now, still in the list; NULL only when the list is empty. */
    struct policy_node *(*victim)(struct policy_list *list, policy_was_hit *was_hit, void *context);
};

extern const struct cache_policy cache_policy_sieve;
extern const struct cache_policy cache_policy_lru;

/* Puts a new node in as the newest. */
void policy_insert(struct policy_list *list, struct policy_node *node);

/* Takes any node out. */
void policy_remove(struct policy_list *list, struct policy_node *node);

#endif
