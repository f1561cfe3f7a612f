/*
 * Who may still begin a request. The supply of a run is shared by its threads; each thread holds a
 * share, taken from the supply in portions, so that the shared word is touched seldom and the count
 * is exact all the same: with a limit of N, exactly N requests are handed out unless the run stops.
 */
#ifndef LOADGEN_SUPPLY_H
#define LOADGEN_SUPPLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SUPPLY_UNLIMITED UINT64_MAX

struct supply {
    _Atomic uint64_t left; /* not in any share yet */
    _Atomic bool stopped;
    uint64_t deadline_ns; /* monotonic; 0: none */
    uint32_t threads;
};

struct supply_share {
    struct supply *supply;
    uint64_t left;
    uint64_t reserved; /* for connections that have not begun yet */
};

/* Before the threads start. REQUESTS 0 is no limit. */
void supply_begin(struct supply *supply, uint64_t requests, uint64_t deadline_ns, uint32_t threads);

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

/* No request begins from now on. Any thread. */
void supply_stop(struct supply *supply);

bool supply_stopped(const struct supply *supply);

#endif
