#include "daemon/base/balance.h"

enum {
    ACTIVE_MARGIN = 2,
    OPEN_MARGIN = 8,
    SATURATED = 900,    /* thousandths of a core */
    UNSATURATED = 450,  /* less than this is room for half of a saturated owner's load */
    CALM_CALLS = 3,     /* so long numbers must be even and busy uneven, before an exchange */
    PATIENCE_FIRST = 2, /* calls */
    PATIENCE_MAX = 64,
};

static uint32_t smaller_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* What an owner has of the quantity that a plan evens out, and how many connections it may give. */
struct stock {
    uint32_t has, may_give;
};

static bool is_uneven(const struct stock *stock, uint32_t count, uint32_t margin)
{
    uint32_t least = UINT32_MAX, most = 0;

    for (uint32_t i = 0; i < count; i++) {
        least = smaller_of(stock[i].has, least);
        most = stock[i].has > most ? stock[i].has : most;
    }
    return count > 1 && most - least >= margin && (uint64_t)most * 4 > (uint64_t)least * 5;
}

/* Plans */

struct plan {
    struct balance_move *moves;
    uint32_t length;
};

static void add_move(struct plan *plan, uint32_t from, uint32_t to, uint32_t count, bool idle)
{
    plan->moves[plan->length++] = (struct balance_move){from, to, count, idle};
}

/*
 * Equal shares of the total differ by at most 1. Owners above the average get the larger ones, so
 * that nothing moves that can stay. Call once per owner, in order, for those above the average and
 * then for the others.
 */
static uint32_t next_share(uint32_t average, uint32_t *rest)
{
    return *rest > 0 ? (*rest)--, average + 1 : average;
}

static void set_shares(const struct stock *stock, uint32_t count, uint32_t *share)
{
    uint64_t total = 0;
    uint32_t average, rest;

    for (uint32_t i = 0; i < count; i++)
        total += stock[i].has;
    average = (uint32_t)(total / count);
    rest = (uint32_t)(total % count);
    for (uint32_t i = 0; i < count; i++)
        if (stock[i].has > average)
            share[i] = next_share(average, &rest);
    for (uint32_t i = 0; i < count; i++)
        if (stock[i].has <= average)
            share[i] = next_share(average, &rest);
}

/* Moves from owners above their share to those below it, and updates STOCK. */
static void even_out(struct plan *plan, struct stock *stock, uint32_t count, bool idle)
{
    uint32_t share[count], to = 0;

    set_shares(stock, count, share);
    for (uint32_t from = 0; from < count; from++) {
        uint32_t surplus = stock[from].has > share[from] ? stock[from].has - share[from] : 0;

        surplus = smaller_of(surplus, smaller_of(stock[from].may_give, BALANCE_MOVE_MAX));
        while (surplus > 0) {
            uint32_t moved;

            while (to < count && stock[to].has >= share[to])
                to++;
            if (to == count)
                return;
            moved = smaller_of(surplus, share[to] - stock[to].has);
            add_move(plan, from, to, moved, idle);
            stock[from].has -= moved;
            stock[to].has += moved;
            surplus -= moved;
        }
    }
}

/* First the active connections; then idle ones, so that all connections are even, too. */
static void plan_numbers(struct plan *plan, const struct balance_load *load, uint32_t count)
{
    struct stock active[count], open[count];

    for (uint32_t i = 0; i < count; i++) {
        uint32_t busy = smaller_of(load[i].active, load[i].open);

        active[i] = (struct stock){busy, busy};
        open[i] = (struct stock){load[i].open, load[i].open - busy};
    }
    if (is_uneven(active, count, ACTIVE_MARGIN)) {
        even_out(plan, active, count, false);
        for (uint32_t i = 0; i < count; i++)
            open[i].has = active[i].has + open[i].may_give;
    }
    if (is_uneven(open, count, OPEN_MARGIN))
        even_out(plan, open, count, true);
}

/* If one owner is saturated and another is not, they exchange half of their active connections. */
static void plan_exchange(struct plan *plan, const struct balance_load *load, uint32_t count)
{
    uint32_t most = 0, least = 0, half;

    for (uint32_t i = 1; i < count; i++) {
        most = load[i].busy > load[most].busy ? i : most;
        least = load[i].busy < load[least].busy ? i : least;
    }
    half = smaller_of(load[most].active, load[least].active) / 2;
    if (load[most].busy < SATURATED || load[least].busy > UNSATURATED || half == 0)
        return;
    half = smaller_of(half, BALANCE_MOVE_MAX);
    add_move(plan, most, least, half, false);
    add_move(plan, least, most, half, false);
}

/* States */

static void start_moving(struct balance *balance, uint32_t rounds)
{
    balance->state = BALANCE_MOVING;
    balance->rounds = rounds;
    balance->calm = 0;
}

void balance_resized(struct balance *balance)
{
    start_moving(balance, BALANCE_ROUNDS);
    balance->exchange_patience = 0;
}

/* Called while the numbers are even. */
static void decide_exchange(struct balance *balance, struct plan *plan,
                            const struct balance_load *load, uint32_t count)
{
    balance->calm++;
    if (balance->exchange_after > 0)
        balance->exchange_after--;
    if (balance->calm < CALM_CALLS || balance->exchange_after > 0)
        return;
    plan_exchange(plan, load, count);
    if (plan->length == 0) {
        balance->exchange_patience = 0;
        return;
    }
    balance->calm = 0;
    balance->exchange_patience = balance->exchange_patience == 0
                                     ? PATIENCE_FIRST
                                     : smaller_of(2 * balance->exchange_patience, PATIENCE_MAX);
    balance->exchange_after = balance->exchange_patience;
}

/* Called while the numbers are uneven. Returns true if the connections may move now. */
static bool may_move(struct balance *balance, const struct balance_load *load, uint32_t count)
{
    uint32_t most = 0;

    balance->calm = 0;
    if (balance->state == BALANCE_REST) {
        balance->state = BALANCE_SUSPECT;
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        most = load[i].open > most ? load[i].open : most;
    if (balance->state == BALANCE_SUSPECT) /* as many calls as even out the open connections */
        start_moving(balance, 1 + most / BALANCE_MOVE_MAX);
    if (balance->rounds == 0) {
        balance->state = BALANCE_REST;
        return false;
    }
    balance->rounds--;
    return true;
}

uint32_t balance_decide(struct balance *balance, const struct balance_load *load, uint32_t count,
                        struct balance_move *moves)
{
    struct plan plan = {moves, 0};

    if (count > 1)
        plan_numbers(&plan, load, count);
    balance->even = plan.length == 0;
    if (!balance->even)
        return may_move(balance, load, count) ? plan.length : 0;
    balance->state = BALANCE_REST;
    if (count > 1)
        decide_exchange(balance, &plan, load, count);
    return plan.length;
}

/* Credit */

enum { CREDIT_LEAST = 8 /* connections */ };

static void add_credit(struct balance_credit *credit, uint64_t milli)
{
    credit->milli = milli < UINT64_MAX - credit->milli ? credit->milli + milli : UINT64_MAX;
}

struct balance_credit balance_credit_of_new(const struct balance_load *load, uint32_t count,
                                            uint32_t owner)
{
    uint64_t others_open = 0;

    for (uint32_t i = 0; i < count; i++)
        others_open += i != owner ? load[i].open : 0;
    if (count > 0)
        others_open /= count;
    return (struct balance_credit){(others_open + CREDIT_LEAST) * 1000};
}

void balance_refill(struct balance_credit *credit, const struct balance_load *load,
                    const uint32_t *closed, uint32_t count, uint32_t owner)
{
    uint64_t others_closed = 0, max;

    if (count < 2)
        return;
    max = balance_credit_of_new(load, count, owner).milli;
    for (uint32_t i = 0; i < count; i++)
        others_closed += i != owner ? closed[i] : 0;
    add_credit(credit, others_closed * 1000 / (count - 1));
    if (credit->milli > max)
        credit->milli = max;
}

/*
 * The claim, or if that is less, what an owner has that needs all its CREDIT to have an equal share;
 * the others have OTHERS.
 */
static uint32_t believed_number(uint32_t claimed, uint64_t others, uint32_t count, uint64_t credit)
{
    uint64_t least = others > count * credit ? (others - count * credit) / (count - 1) : 0;

    return claimed > least ? claimed : (uint32_t)least;
}

struct balance_load balance_believed(const struct balance_credit *credit,
                                     const struct balance_load *load, uint32_t count,
                                     uint32_t owner)
{
    uint64_t others_active = 0, others_open = 0, most = credit->milli / 1000;
    struct balance_load believed = load[owner];

    if (count < 2)
        return believed;
    for (uint32_t i = 0; i < count; i++) {
        others_active += i != owner ? load[i].active : 0;
        others_open += i != owner ? load[i].open : 0;
    }
    believed.active = believed_number(believed.active, others_active, count, most);
    believed.open = believed_number(believed.open, others_open, count, most);
    return believed;
}

uint32_t balance_charge(struct balance_credit *credit, uint32_t count)
{
    uint64_t most = credit->milli / 1000;

    count = most < count ? (uint32_t)most : count;
    credit->milli -= (uint64_t)count * 1000;
    return count;
}

void balance_refund(struct balance_credit *credit, uint32_t count)
{
    add_credit(credit, (uint64_t)count * 1000);
}
