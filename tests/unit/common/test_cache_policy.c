#include "common/cache_policy.h"
#include "common/macros.h"
#include "tests/test.h"

/* A cache of letters. A trace is a string of requests: a hit marks, a miss inserts and evicts. */
struct letter_node {
    struct policy_node policy;
    char name;
    bool hit, present;
};

struct letters {
    struct letter_node node[26];
    struct policy_list list;
    const struct cache_policy *policy;
    size_t room;
    char evicted[64];
    size_t evictions;
};

static bool take_hit(void *context, struct policy_node *node)
{
    struct letter_node *letter = CONTAINER_OF(node, struct letter_node, policy);
    bool hit = letter->hit;

    (void)context;
    letter->hit = false;
    return hit;
}

static void evict_one(struct letters *letters)
{
    struct policy_node *victim = letters->policy->victim(&letters->list, take_hit, letters);
    struct letter_node *letter = CONTAINER_OF(victim, struct letter_node, policy);

    policy_remove(&letters->list, victim);
    letter->present = false;
    letters->evicted[letters->evictions++] = letter->name;
}

static void access_letter(struct letters *letters, char name)
{
    struct letter_node *letter = &letters->node[name - 'A'];

    if (letter->present) {
        letter->hit = true;
        return;
    }
    if (letters->list.count == letters->room)
        evict_one(letters);
    letter->name = name;
    letter->present = true;
    letter->hit = false;
    policy_insert(&letters->list, &letter->policy);
}

static void check(const struct cache_policy *policy, size_t room, const char *trace,
                  const char *evicted)
{
    struct letters letters = {.policy = policy, .room = room};

    for (; *trace != '\0'; trace++)
        access_letter(&letters, *trace);
    assert_string_equal(letters.evicted, evicted);
}

TEST(sieve_evicts_entries_without_hits)
{
    check(&cache_policy_sieve, 3, "ABCD", "A");    /* no hits: FIFO */
    check(&cache_policy_sieve, 3, "ABCAD", "B");   /* the hit protects A */
    check(&cache_policy_sieve, 3, "ABCADE", "BC"); /* the hand keeps its position */
    check(&cache_policy_sieve, 3, "ABCABCD",
          "A"); /* all hit: one round clears them, then the oldest is evicted */
    check(&cache_policy_sieve, 3, "ABCAXAYAZ", "BCX"); /* a scan does not evict the hot one */
    check(&cache_policy_sieve, 1, "AABBCC", "AB");     /* capacity 1 */
}

TEST(lru_evicts_least_recently_used)
{
    check(&cache_policy_lru, 3, "ABCD", "A");
    check(&cache_policy_lru, 3, "ABCAD", "B");
    check(&cache_policy_lru, 3, "ABCADE", "BC");
    check(&cache_policy_lru, 3, "ABCABD", "C");
    check(&cache_policy_lru, 1, "AABBCC", "AB");
}

TEST(empty_list_has_no_victim)
{
    struct policy_list list = {0};

    assert_null(cache_policy_sieve.victim(&list, take_hit, NULL));
    assert_null(cache_policy_lru.victim(&list, take_hit, NULL));
}

TEST(remove_keeps_list_and_hand_consistent)
{
    const struct cache_policy *const policies[] = {&cache_policy_sieve, &cache_policy_lru};

    for (size_t p = 0; p < ARRAY_LENGTH(policies); p++) {
        struct letters letters = {.policy = policies[p], .room = 26};

        for (int i = 0; i < 26; i++)
            access_letter(&letters, (char)('A' + i));
        for (int i = 0; i < 26; i++) {
            if (i % 3 == 0 && letters.node[i].present) {
                policy_remove(&letters.list, &letters.node[i].policy);
                letters.node[i].present = false;
            } else if (i % 3 == 1) {
                evict_one(&letters);
            }
        }
        while (letters.list.count > 0)
            evict_one(&letters);
        for (int i = 0; i < 26; i++)
            assert_false(letters.node[i].present);
        assert_null(letters.list.newest);
        assert_null(letters.list.oldest);
        assert_null(letters.list.hand);
    }
}
