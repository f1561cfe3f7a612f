/*
 * Who may still begin a request. The supply of a run is shared by its threads; each thread holds a
 * share, taken from the supply in portions, so that the shared word is touched seldom and the count
 * is exact all the same: with a limit of N, exactly N requests are handed out unless the run stops.
 * Requests that begin before counting does (warm-up) are not taken from it.
 */
#ifndef LOADGEN_SUPPLY_H
#define LOADGEN_SUPPLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SUPPLY_UNLIMITED UINT64_MAX

/* Times are monotonic ns. */
struct supply {
    _Atomic uint64_t left;       /* not in any share yet */
    _Atomic uint64_t stopped_ns; /* when the run was stopped; 0: it was not */
    /* Set before the threads start. */
    uint64_t begun_ns;
    uint64_t counted_from_ns;
    uint64_t deadline_ns; /* 0: none */
    uint32_t threads;
};

struct supply_share {
    struct supply *supply;
    uint64_t left;
    uint64_t reserved; /* for connections that have not begun yet */
    bool closed;       /* takes no more portions: its thread is to end */
};

/* Before the threads start. REQUESTS 0 is no limit. */
void supply_begin(struct supply *supply, uint64_t requests, uint32_t threads);

/*
 * Sets up the share of a thread with CONNECTIONS clients, and reserves a request for each of them,
 * so that no other thread can take what they begin with. Before the threads start; the connections
 * of all threads together are no more than the requests.
 */
void supply_share_begin(struct supply_share *share, struct supply *supply, uint32_t connections);

/*
 * Whether a request may begin at NOW_NS; if so it is taken. The first request of each connection is
 * taken from those that were reserved, so that quick connections leave it to slow ones. The thread
 * of the share.
 */
bool supply_take_first(struct supply_share *share, uint64_t now_ns);
bool supply_take(struct supply_share *share, uint64_t now_ns);

/* The same for one that was due at DUE_NS: that decides whether it is counted. */
bool supply_take_due(struct supply_share *share, uint64_t due_ns, uint64_t now_ns);

/* What was reserved is for any connection from now on. The thread of the share. */
void supply_release(struct supply_share *share);

/* Takes one that will not be begun, whether the run is over or not. The thread of the share. */
bool supply_take_unsent(struct supply_share *share);

/* Whether one that is due at DUE_NS could still begin, as far as time goes. */
bool supply_goes_on(const struct supply_share *share, uint64_t due_ns);

/* Whether the thread of the share has nothing to begin any more at NOW_NS. */
bool supply_is_over(const struct supply_share *share, uint64_t now_ns);

/* No request begins from NOW_NS on. Any thread; the first time counts. */
void supply_stop(struct supply *supply, uint64_t now_ns);

bool supply_stopped(const struct supply *supply);

/* When the run ended for want of time or by a stop; UINT64_MAX: it did not. */
uint64_t supply_end_ns(const struct supply *supply);

#endif
