/*
 * The number of requests that a run may still begin (-n), shared by its threads. Each thread takes
 * portions of the budget into a share of its own, so that the shared counter is rarely touched.
 * With a limit of N exactly N requests begin, unless the run stops. Warm-up requests are not taken
 * from it.
 */
#ifndef LOADGEN_SUPPLY_H
#define LOADGEN_SUPPLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define REQUEST_BUDGET_UNLIMITED UINT64_MAX

/* Times are monotonic ns. */
struct request_budget {
    _Atomic uint64_t left;       /* not in any share */
    _Atomic uint64_t stopped_ns; /* when the run was stopped; 0: not stopped */
    /* Set before the threads start. */
    uint64_t begun_ns;
    uint64_t counted_from_ns;
    uint64_t deadline_ns; /* 0: none */
    uint32_t threads;
};

struct budget_share {
    struct request_budget *budget;
    uint64_t left;
    uint64_t reserved; /* first requests of connections that have not started yet */
    bool closed;       /* takes no more portions: the thread is draining */
};

/* Before the threads start. REQUESTS 0: no limit. */
void request_budget_begin(struct request_budget *budget, uint64_t requests, uint32_t threads);

/*
 * Initializes the share of a thread and reserves one request for each of its CONNECTIONS, so that
 * no other thread takes their first request. Before the threads start; all threads together must
 * not have more connections than there are requests.
 */
void budget_share_begin(struct budget_share *share, struct request_budget *budget,
                        uint32_t connections);

/*
 * Takes a request that begins at NOW_NS. Returns false if none may begin. For the first request of
 * each connection, which is a reserved one: fast connections cannot use it up. This and all
 * budget_share_ functions below: the thread of the share.
 */
bool budget_share_take_first(struct budget_share *share, uint64_t now_ns);
bool budget_share_take(struct budget_share *share, uint64_t now_ns);

/*
 * As budget_share_take_first(), for a request due at DUE_NS, which decides whether it belongs to
 * the warm-up.
 */
bool budget_share_take_due(struct budget_share *share, uint64_t due_ns, uint64_t now_ns);

/* Makes the reserved requests available to any connection of the thread. */
void budget_share_release(struct budget_share *share);

/* Takes a request that was due but will never begin. Works after the end of the run, too. */
bool budget_share_take_unsent(struct budget_share *share);

/* Whether DUE_NS is before the end of the run. */
bool budget_share_allows(const struct budget_share *share, uint64_t due_ns);

/* Whether the thread has no more requests to begin at NOW_NS. */
bool budget_share_is_exhausted(const struct budget_share *share, uint64_t now_ns);

/* No request begins after NOW_NS. Any thread; only the first call has an effect. */
void request_budget_stop(struct request_budget *budget, uint64_t now_ns);

/* The earlier of deadline and stop; UINT64_MAX: neither. */
uint64_t request_budget_end_ns(const struct request_budget *budget);

#endif
