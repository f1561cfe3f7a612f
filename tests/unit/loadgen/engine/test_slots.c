/* The queue of free slots: order, wrapping, growing while it wraps. */
#include "loadgen/engine/slot.h"

#include "tests/test.h"

TEST(slots_leave_in_fifo_order_while_growing)
{
    struct slot_queue queue = {0};
    uint32_t next_in = 0, next_out = 0;

    for (uint32_t capacity = 1; capacity < 50; capacity++) {
        assert_true(slot_queue_grow(&queue, capacity));
        while (queue.length < capacity)
            slot_queue_push(&queue, next_in++);
        for (uint32_t i = 0; i < capacity * 2 / 3; i++) {
            assert_int_equal(slot_queue_pop(&queue), next_out++);
            if (i % 2 == 0)
                slot_queue_push(&queue, next_in++);
        }
    }
    while (queue.length > 0)
        assert_int_equal(slot_queue_pop(&queue), next_out++);
    assert_int_equal(next_in, next_out);
    assert_true(slot_queue_grow(&queue, 1)); /* never shrinks */
    assert_int_equal(queue.capacity, 49);
    slot_queue_free(&queue);
}
