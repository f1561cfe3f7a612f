/*
 * Decides which connections to move so that several owners share the load evenly. The owners are
 * the threads of a worker, or the workers of a server. Pure: it sees only what is passed to it.
 *
 * Three quantities are compared:
 *
 *   active   connections that had a request lately. Behind each is a client that waits for
 *            responses, so their number also tells a saturated owner from a crowded one, which CPU
 *            time cannot.
 *   open     all connections. Idle ones are moved, so that they are spread when they wake up.
 *   busy     CPU time. If the numbers above are even but one owner uses up its core and another
 *            does not, then connections differ in cost: the two exchange half of their active
 *            connections, picked at random, which mixes cheap and expensive ones and keeps the
 *            numbers even.
 *
 *               uneven again two seconds later           no move is left
 *   REST ──▶ SUSPECT ────────────────────────▶ MOVING ────────────────────▶ REST
 *    └──────── balance_resized() ─────────────────▲
 *
 * Nothing moves at even load: a difference counts only if the largest exceeds the smallest by more
 * than a quarter (by at least 2 active or 8 open connections), and, unless the number of owners has
 * changed, only if it is still there two seconds later. (Threads count their active connections
 * once a second, each at another time: when a load begins, some have not counted it.) Connections
 * do not move back and forth: a plan makes all numbers equal within 1, far inside that margin. An
 * exchange that does not help, because a single connection causes all the load, is repeated after
 * 2, 4, ... 64 seconds. Each owner gives at most BALANCE_MOVE_MAX connections per call.
 */
#ifndef DAEMON_BALANCE_H
#define DAEMON_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BALANCE_MOVE_MAX = 256,
    BALANCE_REST_MS = 1000,    /* time between two calls of balance_decide()... */
    BALANCE_SUSPECT_MS = 2000, /* ...in state BALANCE_SUSPECT */
    BALANCE_MOVING_MS = 100,   /* ...in state BALANCE_MOVING */
    BALANCE_ROUNDS = 30,       /* calls until a resize gives up, because connections come and go */
};

/* The load of an owner. */
struct balance_load {
    uint32_t active, open; /* connections; open ones include new ones on their way to it */
    uint32_t busy;         /* CPU time since the last call, in thousandths of a core per thread */
};

struct balance_move {
    uint32_t from, to; /* indexes of owners */
    uint32_t count;
    bool idle; /* move idle connections; false: active ones */
};

enum balance_state { BALANCE_REST, BALANCE_SUSPECT, BALANCE_MOVING };

/* Initially zero. */
struct balance {
    enum balance_state state;
    bool even;       /* the last call found all numbers even */
    uint32_t rounds; /* BALANCE_MOVING: calls left */
    uint32_t calm;   /* consecutive calls that found all numbers even, since the last exchange */
    uint32_t exchange_after, exchange_patience; /* the next exchange, in calls; its back-off */
};

/* Call when owners were added or removed: numbers are evened out at once. */
void balance_resized(struct balance *balance);

/*
 * Stores in MOVES, which has room for balance_moves_max(COUNT), what to move now. Returns their
 * number. Call it balance_interval_ms() after the last call, when the last moves are done.
 */
uint32_t balance_decide(struct balance *balance, const struct balance_load *load, uint32_t count,
                        struct balance_move *moves);

/* Time until the next call. */
static inline uint32_t balance_interval_ms(const struct balance *balance)
{
    static const uint32_t interval_ms[] = {[BALANCE_REST] = BALANCE_REST_MS,
                                           [BALANCE_SUSPECT] = BALANCE_SUSPECT_MS,
                                           [BALANCE_MOVING] = BALANCE_MOVING_MS};

    return interval_ms[balance->state];
}

/*
 * How many more connections an owner may receive that may lie about its load. A new owner has as
 * many as make an equal share of those that the others have then; later it gets as many as the
 * others close on average, and those that it gives itself. So what it receives brings it to an equal
 * share and keeps it there.
 */
struct balance_credit {
    uint64_t milli; /* thousandths of connections */
};

/* That of a new owner. LOAD is what all COUNT owners claim; the new one is OWNER. */
struct balance_credit balance_credit_of_new(const struct balance_load *load, uint32_t count,
                                            uint32_t owner);

/*
 * Refills the credit of OWNER. LOAD is what all COUNT owners claim, CLOSED how many connections each
 * has closed since the last call.
 */
void balance_refill(struct balance_credit *credit, const struct balance_load *load,
                    const uint32_t *closed, uint32_t count, uint32_t owner);

/* The claim of OWNER; but what it lacks to an equal share is no more than its credit. */
struct balance_load balance_believed(const struct balance_credit *credit,
                                     const struct balance_load *load, uint32_t count,
                                     uint32_t owner);

/* Takes up to COUNT connections from the credit. Returns how many. */
uint32_t balance_charge(struct balance_credit *credit, uint32_t count);

/* Adds COUNT connections: the owner has given them, or has not received what was charged. */
void balance_refund(struct balance_credit *credit, uint32_t count);

static inline uint32_t balance_moves_max(uint32_t count)
{
    return 2 * count;
}

#endif
