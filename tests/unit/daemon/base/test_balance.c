/* A table of loads and the moves they cause, and a simulation of owners and their connections. */
#include "common/macros.h"
#include "daemon/base/balance.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

enum { OWNERS = 4 };

TEST(resize_moves_what_is_uneven)
{
    static const struct {
        const char *name;
        struct balance_load load[OWNERS];
        struct balance_move moves[2 * OWNERS];
    } cases[] = {
        {"nothing is open", {{0}}, {{0}}},
        {"even", {{25, 25, 0}, {25, 25, 0}, {25, 25, 0}, {25, 25, 0}}, {{0}}},
        {"below the margin", {{28, 28, 0}, {23, 23, 0}, {25, 25, 0}, {24, 24, 0}}, {{0}}},
        {"one active more", {{1, 1, 0}, {0, 0, 0}, {1, 1, 0}, {1, 1, 0}}, {{0}}},
        {"one thread has all",
         {{100, 100, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
         {{0, 1, 25, false}, {0, 2, 25, false}, {0, 3, 25, false}}},
        {"two threads become four",
         {{41, 41, 0}, {59, 59, 0}, {0, 0, 0}, {0, 0, 0}},
         {{0, 2, 16, false}, {1, 2, 9, false}, {1, 3, 25, false}}},
        {"the rest stays where it is",
         {{2, 2, 0}, {0, 0, 0}, {7, 7, 0}, {2, 2, 0}},
         {{2, 0, 1, false}, {2, 1, 3, false}}},
        {"idle connections",
         {{0, 40, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
         {{0, 1, 10, true}, {0, 2, 10, true}, {0, 3, 10, true}}},
        {"few idle connections", {{0, 7, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, {{0}}},
        {"active first, then idle ones",
         {{8, 88, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
         {{0, 1, 2, false},
          {0, 2, 2, false},
          {0, 3, 2, false},
          {0, 1, 20, true},
          {0, 2, 20, true},
          {0, 3, 20, true}}},
        {"only active connections are uneven",
         {{20, 100, 0}, {0, 100, 0}, {20, 100, 0}, {20, 100, 0}},
         {{0, 1, 5, false}, {2, 1, 5, false}, {3, 1, 5, false}}},
        {"a gauge of active connections is late",
         {{90, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
         {{0}}},
        {"not more than the maximum",
         {{10000, 10000, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
         {{0, 1, BALANCE_MOVE_MAX, false}}},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct balance balance = {0};
        struct balance_move moves[2 * OWNERS] = {{0}};
        uint32_t expected = 0, length;

        while (expected < 2 * OWNERS && cases[i].moves[expected].count > 0)
            expected++;
        balance_resized(&balance);
        length = balance_decide(&balance, cases[i].load, OWNERS, moves);
        print_message("%s\n", cases[i].name);
        assert_int_equal(length, expected);
        for (uint32_t n = 0; n < expected; n++) {
            const struct balance_move *want = &cases[i].moves[n];

            assert_int_equal(moves[n].from, want->from);
            assert_int_equal(moves[n].to, want->to);
            assert_int_equal(moves[n].count, want->count);
            assert_int_equal(moves[n].idle, want->idle);
        }
        assert_int_equal(balance.even, expected == 0);
        assert_int_equal(balance.state, expected == 0 ? BALANCE_REST : BALANCE_MOVING);
    }
}

TEST(unevenness_must_last_unless_resized)
{
    static const struct balance_load uneven[] = {{60, 60, 0}, {40, 40, 0}},
                                     even[] = {{50, 50, 0}, {50, 50, 0}};
    struct balance balance = {0};
    struct balance_move moves[4];

    assert_int_equal(balance_decide(&balance, uneven, 2, moves), 0);
    assert_int_equal(balance_decide(&balance, even, 2, moves), 0);
    assert_int_equal(balance_decide(&balance, uneven, 2, moves), 0);
    assert_int_equal(balance.state, BALANCE_SUSPECT);
    assert_int_equal(balance_decide(&balance, uneven, 2, moves), 1);
    assert_int_equal(moves[0].count, 10);
    assert_int_equal(balance_decide(&balance, even, 2, moves), 0);
    assert_int_equal(balance.state, BALANCE_REST);
}

/* Connections come and go faster than they are evened out. */
TEST(resize_gives_up_if_never_even)
{
    static const struct balance_load uneven[] = {{60, 60, 0}, {40, 40, 0}};
    struct balance balance = {0};
    struct balance_move moves[4];
    int rounds = 0;

    balance_resized(&balance);
    while (balance_decide(&balance, uneven, 2, moves) > 0)
        rounds++;
    assert_int_equal(rounds, BALANCE_ROUNDS);
    assert_int_equal(balance.state, BALANCE_REST);
    assert_false(balance.even);
}

/* The simulation: each connection has a cost in thousandths of a core; 0: idle. */

enum { CONNECTIONS_MAX = 4096 };

struct owner {
    uint32_t count, cost[CONNECTIONS_MAX];
};

static struct owner owners[OWNERS];

static struct balance_load load_of(const struct owner *owner)
{
    struct balance_load load = {.open = owner->count};
    uint32_t cost = 0;

    for (uint32_t i = 0; i < owner->count; i++) {
        load.active += owner->cost[i] > 0;
        cost += owner->cost[i];
    }
    load.busy = cost < 1000 ? cost : 1000;
    return load;
}

/* Moves random connections of the kind. */
static void carry_out(const struct balance_move *move)
{
    static unsigned seed = 1;
    struct owner *from = &owners[move->from], *to = &owners[move->to];
    uint32_t left = move->count;

    while (left > 0) {
        uint32_t at = (uint32_t)rand_r(&seed) % from->count;

        if ((from->cost[at] == 0) != move->idle)
            continue;
        to->cost[to->count++] = from->cost[at];
        from->cost[at] = from->cost[--from->count];
        left--;
    }
}

/* Returns the number of connections moved. */
static uint32_t simulate_call(struct balance *balance, uint32_t count)
{
    struct balance_load load[OWNERS];
    struct balance_move moves[2 * OWNERS];
    uint32_t length, moved = 0;

    for (uint32_t i = 0; i < count; i++)
        load[i] = load_of(&owners[i]);
    length = balance_decide(balance, load, count, moves);
    for (uint32_t i = 0; i < length; i++)
        moved += moves[i].count;
    for (uint32_t i = 0; i < length; i++)
        carry_out(&moves[i]);
    return moved;
}

static void add(uint32_t owner, uint32_t count, uint32_t cost)
{
    while (count-- > 0)
        owners[owner].cost[owners[owner].count++] = cost;
}

static void expect_even(uint32_t count)
{
    uint32_t least = UINT32_MAX, most = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t active = load_of(&owners[i]).active;

        least = active < least ? active : least;
        most = active > most ? active : most;
    }
    assert_true(most - least < 2 || most * 4 <= least * 5);
}

TEST(simulation_converges_and_then_stands_still)
{
    unsigned seed = 3;

    for (int run = 0; run < 300; run++) {
        uint32_t count = 2 + (uint32_t)rand_r(&seed) % (OWNERS - 1), calls = 0;
        struct balance balance = {0};

        memset(owners, 0, sizeof(owners));
        for (uint32_t i = 0; i < count; i++) {
            add(i, (uint32_t)rand_r(&seed) % 400, 1);
            add(i, (uint32_t)rand_r(&seed) % 400, 0);
        }
        if (run % 2 == 0)
            balance_resized(&balance);
        do
            simulate_call(&balance, count);
        while (++calls < 20 && balance.state != BALANCE_REST);
        assert_true(balance.even);
        expect_even(count);
        for (int i = 0; i < 200; i++)
            assert_int_equal(simulate_call(&balance, count), 0);
    }
}

/* 100 connections, then 1 to 4 owners and back, as by "threads 4" and "threads 1". */
TEST(resize_evens_out_in_one_call)
{
    struct balance balance = {0};

    memset(owners, 0, sizeof(owners));
    add(0, 100, 5);
    balance_resized(&balance);
    assert_int_equal(simulate_call(&balance, 4), 75);
    assert_int_equal(simulate_call(&balance, 4), 0);
    assert_true(balance.even);
}

TEST(expensive_connections_are_mixed_with_cheap_ones)
{
    struct balance balance = {0};
    uint32_t moved = 0;

    memset(owners, 0, sizeof(owners));
    add(0, 20, 80);
    add(1, 20, 2);
    for (int i = 0; i < 30; i++)
        moved += simulate_call(&balance, 2);
    assert_in_range(moved, 20, 60);
    assert_in_range(load_of(&owners[0]).active, 19, 21);
    assert_true(load_of(&owners[1]).busy > 450);
    for (int i = 0; i < 200; i++)
        assert_int_equal(simulate_call(&balance, 2), 0);
}

/* It saturates any owner: exchanging it helps nobody, and is tried ever more rarely. */
TEST(one_expensive_connection_moves_ever_more_rarely)
{
    struct balance balance = {0};
    int exchanges = 0;

    memset(owners, 0, sizeof(owners));
    add(0, 1, 1000);
    add(0, 9, 2);
    add(1, 10, 2);
    for (int i = 0; i < 600; i++)
        exchanges += simulate_call(&balance, 2) > 0;
    assert_in_range(exchanges, 1, 15);
}

/* OWNER claims a load; the others have what they claim. */
TEST(owner_receives_at_most_an_equal_share)
{
    enum { OWNER = 2, COUNT = 3, LEAST = 8, CALLS = 300 };
    static const struct {
        const char *name;
        struct balance_load load[COUNT];
        uint32_t closed[COUNT]; /* in each call */
        uint32_t refunded;      /* in each call */
        uint32_t first, later;  /* received at the first call, and at all others */
    } cases[] = {
        {"new, and nothing is open", {{0}}, {0}, 0, LEAST, 0},
        {"new", {{9, 900, 0}, {9, 700, 0}, {9, 800, 0}}, {0}, 0, 533 + LEAST, 0},
        {"claims nothing", {{0, 900, 0}, {0, 700, 0}, {0}}, {0}, 0, 533 + LEAST, 0},
        {"claims to close all", {{0, 900, 0}, {0, 700, 0}, {0}}, {0, 0, 5000}, 0, 533 + LEAST, 0},
        {"others close some", {{0, 900, 0}, {0, 700, 0}, {0}}, {3, 1, 0}, 0, 533 + LEAST, 2 * 299},
        {"gives as many", {{0, 900, 0}, {0, 700, 0}, {0}}, {0}, 5, 533 + LEAST, 5 * 299},
        {"claims no end", {{0, 90, 0}, {0, 70, 0}, {0, UINT32_MAX, 0}}, {0}, 0, 53 + LEAST, 0},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct balance_credit credit = balance_credit_of_new(cases[i].load, COUNT, OWNER);
        uint32_t first = 0, later = 0;

        for (int call = 0; call < CALLS; call++) {
            balance_refill(&credit, cases[i].load, cases[i].closed, COUNT, OWNER);
            *(call == 0 ? &first : &later) += balance_charge(&credit, UINT32_MAX);
            balance_refund(&credit, cases[i].refunded);
        }
        if (first != cases[i].first || later != cases[i].later)
            fail_msg("%s: %u, then %u", cases[i].name, first, later);
    }
}

/* So the plan of the others does not count on it. */
TEST(owner_without_credit_lacks_nothing)
{
    static const struct {
        struct balance_load claimed;
        uint32_t credit, active, open;
    } cases[] = {
        {{0, 0, 7}, 0, 40, 800},    {{0, 0, 7}, 20, 10, 770},   {{0, 0, 7}, 534, 0, 0},
        {{50, 900, 7}, 0, 50, 900}, {{4, 790, 7}, 20, 10, 790},
    };
    struct balance_load load[] = {{50, 900, 0}, {30, 700, 0}, {0}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct balance_credit credit = {UINT64_C(1000) * cases[i].credit};
        struct balance_load believed;

        load[2] = cases[i].claimed;
        believed = balance_believed(&credit, load, 3, 2);
        assert_int_equal(believed.active, cases[i].active);
        assert_int_equal(believed.open, cases[i].open);
        assert_int_equal(believed.busy, 7);
    }
}
