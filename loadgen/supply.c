#include "loadgen/supply.h"

enum {
    LARGEST_PORTION = 256,
    PORTIONS_LEFT = 8, /* a thread takes this part of its even share: the ends come out even */
};

void supply_begin(struct supply *supply, uint64_t requests, uint64_t deadline_ns, uint32_t threads)
{
    atomic_init(&supply->left, requests == 0 ? SUPPLY_UNLIMITED : requests);
    atomic_init(&supply->stopped, false);
    supply->deadline_ns = deadline_ns;
    supply->threads = threads;
}

/* Moves up to WANTED requests out of the supply. */
static uint64_t draw(struct supply *supply, uint64_t wanted)
{
    uint64_t left = atomic_load_explicit(&supply->left, memory_order_relaxed), taken;

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
    uint64_t left = atomic_load_explicit(&supply->left, memory_order_relaxed);
    uint64_t part = left / supply->threads / PORTIONS_LEFT;

    return part < 1 ? 1 : part > LARGEST_PORTION ? LARGEST_PORTION : part;
}

static bool is_over(const struct supply *supply, uint64_t now_ns)
{
    return supply_stopped(supply) || (supply->deadline_ns != 0 && now_ns >= supply->deadline_ns);
}

bool supply_take_first(struct supply_share *share, uint64_t now_ns)
{
    if (share->reserved == 0 || is_over(share->supply, now_ns))
        return false;
    share->reserved--;
    return true;
}

bool supply_take(struct supply_share *share, uint64_t now_ns)
{
    if (is_over(share->supply, now_ns))
        return false;
    if (share->left == 0)
        share->left = draw(share->supply, portion(share->supply));
    if (share->left == 0)
        return false;
    share->left--;
    return true;
}

void supply_stop(struct supply *supply)
{
    atomic_store_explicit(&supply->stopped, true, memory_order_relaxed);
}

bool supply_stopped(const struct supply *supply)
{
    return atomic_load_explicit(&supply->stopped, memory_order_relaxed);
}
