/* [connections] max: every worker has its fair share, and more while all have less than max. */
#include "common/macros.h"
#include "daemon/transaction/admission.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

enum { WORKERS = 3 };

static struct segment segment;

static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(
            &segment, (struct segment_plan){.max_workers = WORKERS, .max_threads = WORKERS}) != 0)
        return -1;
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(segment_reserve_worker(&segment, i), 0);
    atomic_store(&segment_master(&segment)->workers_wanted, WORKERS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

TEST_WITH(worker_has_its_share_whatever_others_say, set_up, tear_down)
{
    static const struct {
        uint32_t max, open[WORKERS]; /* the first worker decides */
        bool has_room;
        uint32_t excess;
    } cases[] = {
        {0, {1000000, 1000000, 1000000}, true, 0}, /* no limit */
        {30, {0, 0, 0}, true, 0},
        {30, {29, 0, 0}, true, 0},
        {30, {30, 0, 0}, false, 0},
        {30, {10, 10, 10}, false, 0},
        {30, {9, 21, 0}, true, 0},         /* below its share */
        {30, {9, UINT32_MAX, 0}, true, 0}, /* a lie */
        {30, {10, UINT32_MAX, 0}, false, 0},
        {30, {25, 6, 0}, false, 1}, /* gives back what it borrowed */
        {30, {25, 10, 10}, false, 15},
        {30, {25, UINT32_MAX, 0}, false, 15}, /* down to its share */
        {2, {1, 1, 0}, false, 0},
        {2, {0, 2, 0}, false, 0}, /* fewer than workers: no share */
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const struct config config = {.connections_max = cases[i].max};
        const struct worker_context worker = {.config = &config, .segment = &segment};

        for (uint32_t slot = 0; slot < WORKERS; slot++)
            atomic_store(&segment_worker(&segment, slot)->connections_open, cases[i].open[slot]);
        if (admission_has_room(&worker) != cases[i].has_room ||
            admission_excess(&worker) != cases[i].excess)
            fail_msg("case %zu: room %d, excess %u", i, admission_has_room(&worker),
                     admission_excess(&worker));
    }
}
