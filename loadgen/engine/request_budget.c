#include "loadgen/engine/request_budget.h"

/* A portion is 1/8 of the remaining requests per thread, so that all end at the same time. */
enum { PORTION_MAX = 256, PORTIONS_LEFT = 8 };

void request_budget_begin(struct request_budget *budget, uint64_t requests, uint32_t threads)
{
    *budget = (struct request_budget){.threads = threads};
    atomic_init(&budget->left, requests == 0 ? REQUEST_BUDGET_UNLIMITED : requests);
    atomic_init(&budget->stopped_ns, 0);
}

static uint64_t left_of(const struct request_budget *budget)
{
    return atomic_load_explicit(&budget->left, memory_order_relaxed);
}

/* Takes up to WANTED requests out of the budget. */
static uint64_t budget_take(struct request_budget *budget, uint64_t wanted)
{
    uint64_t left = left_of(budget), taken;

    if (left == REQUEST_BUDGET_UNLIMITED)
        return wanted;
    do {
        taken = wanted < left ? wanted : left;
    } while (!atomic_compare_exchange_weak_explicit(&budget->left, &left, left - taken,
                                                    memory_order_relaxed, memory_order_relaxed));
    return taken;
}

void budget_share_begin(struct budget_share *share, struct request_budget *budget,
                        uint32_t connections)
{
    *share = (struct budget_share){.budget = budget, .reserved = budget_take(budget, connections)};
}

static uint64_t portion(const struct request_budget *budget)
{
    uint64_t part = left_of(budget) / budget->threads / PORTIONS_LEFT;

    return part < 1 ? 1 : part > PORTION_MAX ? PORTION_MAX : part;
}

static bool is_out_of_time(const struct request_budget *budget, uint64_t now_ns)
{
    return atomic_load_explicit(&budget->stopped_ns, memory_order_relaxed) != 0 ||
           (budget->deadline_ns != 0 && now_ns >= budget->deadline_ns);
}

static bool is_warmup(const struct budget_share *share, uint64_t now_ns)
{
    return now_ns < share->budget->counted_from_ns && !share->closed;
}

static bool take_one(struct budget_share *share)
{
    if (share->left == 0 && !share->closed)
        share->left = budget_take(share->budget, portion(share->budget));
    if (share->left == 0)
        return false;
    share->left--;
    return true;
}

bool budget_share_take_first(struct budget_share *share, uint64_t now_ns)
{
    if (is_out_of_time(share->budget, now_ns))
        return false;
    if (is_warmup(share, now_ns))
        return true;
    if (share->reserved == 0)
        return take_one(share);
    share->reserved--;
    return true;
}

bool budget_share_take(struct budget_share *share, uint64_t now_ns)
{
    return budget_share_take_due(share, now_ns, now_ns);
}

bool budget_share_take_due(struct budget_share *share, uint64_t due_ns, uint64_t now_ns)
{
    if (is_out_of_time(share->budget, now_ns))
        return false;
    return is_warmup(share, due_ns) || take_one(share);
}

void budget_share_release(struct budget_share *share)
{
    share->left += share->reserved;
    share->reserved = 0;
}

bool budget_share_take_unsent(struct budget_share *share)
{
    return left_of(share->budget) == REQUEST_BUDGET_UNLIMITED || take_one(share);
}

bool budget_share_allows(const struct budget_share *share, uint64_t due_ns)
{
    return !is_out_of_time(share->budget, due_ns);
}

bool budget_share_is_exhausted(const struct budget_share *share, uint64_t now_ns)
{
    if (is_out_of_time(share->budget, now_ns))
        return true;
    if (is_warmup(share, now_ns) || share->left > 0 || share->reserved > 0)
        return false;
    return share->closed || left_of(share->budget) == 0;
}

void request_budget_stop(struct request_budget *budget, uint64_t now_ns)
{
    uint64_t never = 0;

    atomic_compare_exchange_strong_explicit(&budget->stopped_ns, &never, now_ns,
                                            memory_order_relaxed, memory_order_relaxed);
}

uint64_t request_budget_end_ns(const struct request_budget *budget)
{
    uint64_t stopped_ns = atomic_load_explicit(&budget->stopped_ns, memory_order_relaxed);
    uint64_t end_ns = stopped_ns != 0 ? stopped_ns : UINT64_MAX;

    return budget->deadline_ns != 0 && budget->deadline_ns < end_ns ? budget->deadline_ns : end_ns;
}
