#include "loadgen/engine/supply.h"

enum {
    LARGEST_PORTION = 256,
    PORTIONS_LEFT = 8, /* a thread takes this part of its even share: the ends come out even */
};

void supply_begin(struct supply *supply, uint64_t requests, uint32_t threads)
{
    *supply = (struct supply){.threads = threads};
    atomic_init(&supply->left, requests == 0 ? SUPPLY_UNLIMITED : requests);
    atomic_init(&supply->stopped_ns, 0);
}

static uint64_t left_of(const struct supply *supply)
{
    return atomic_load_explicit(&supply->left, memory_order_relaxed);
}

/* Moves up to WANTED requests out of the supply. */
static uint64_t draw(struct supply *supply, uint64_t wanted)
{
    uint64_t left = left_of(supply), taken;

    if (left == SUPPLY_UNLIMITED)
        return wanted;
    do {
        taken = wanted < left ? wanted : left;
    } while (!atomic_compare_exchange_weak_explicit(&supply->left, &left, left - taken,
                                                    memory_order_relaxed, memory_order_relaxed));
    return taken;
}

void supply_share_begin(struct supply_share *share, struct supply *supply, uint32_t connections)
{
    *share = (struct supply_share){.supply = supply, .reserved = draw(supply, connections)};
}

static uint64_t portion(const struct supply *supply)
{
    uint64_t part = left_of(supply) / supply->threads / PORTIONS_LEFT;

    return part < 1 ? 1 : part > LARGEST_PORTION ? LARGEST_PORTION : part;
}

static bool is_out_of_time(const struct supply *supply, uint64_t now_ns)
{
    return supply_stopped(supply) || (supply->deadline_ns != 0 && now_ns >= supply->deadline_ns);
}

static bool is_warmup(const struct supply_share *share, uint64_t now_ns)
{
    return now_ns < share->supply->counted_from_ns && !share->closed;
}

static bool take_one(struct supply_share *share)
{
    if (share->left == 0 && !share->closed)
        share->left = draw(share->supply, portion(share->supply));
    if (share->left == 0)
        return false;
    share->left--;
    return true;
}

bool supply_take_first(struct supply_share *share, uint64_t now_ns)
{
    if (is_out_of_time(share->supply, now_ns))
        return false;
    if (is_warmup(share, now_ns))
        return true;
    if (share->reserved == 0)
        return take_one(share);
    share->reserved--;
    return true;
}

bool supply_take(struct supply_share *share, uint64_t now_ns)
{
    return supply_take_due(share, now_ns, now_ns);
}

bool supply_take_due(struct supply_share *share, uint64_t due_ns, uint64_t now_ns)
{
    if (is_out_of_time(share->supply, now_ns))
        return false;
    return is_warmup(share, due_ns) || take_one(share);
}

void supply_release(struct supply_share *share)
{
    share->left += share->reserved;
    share->reserved = 0;
}

bool supply_take_unsent(struct supply_share *share)
{
    return left_of(share->supply) == SUPPLY_UNLIMITED || take_one(share);
}

bool supply_goes_on(const struct supply_share *share, uint64_t due_ns)
{
    return !is_out_of_time(share->supply, due_ns);
}

bool supply_is_over(const struct supply_share *share, uint64_t now_ns)
{
    if (is_out_of_time(share->supply, now_ns))
        return true;
    if (is_warmup(share, now_ns) || share->left > 0 || share->reserved > 0)
        return false;
    return share->closed || left_of(share->supply) == 0;
}

void supply_stop(struct supply *supply, uint64_t now_ns)
{
    uint64_t never = 0;

    atomic_compare_exchange_strong_explicit(&supply->stopped_ns, &never, now_ns,
                                            memory_order_relaxed, memory_order_relaxed);
}

bool supply_stopped(const struct supply *supply)
{
    return atomic_load_explicit(&supply->stopped_ns, memory_order_relaxed) != 0;
}

uint64_t supply_end_ns(const struct supply *supply)
{
    uint64_t stopped_ns = atomic_load_explicit(&supply->stopped_ns, memory_order_relaxed);
    uint64_t end_ns = stopped_ns != 0 ? stopped_ns : UINT64_MAX;

    return supply->deadline_ns != 0 && supply->deadline_ns < end_ns ? supply->deadline_ns : end_ns;
}
