/* Slots that are free, first come first served: a ring. One thread. */
#ifndef LOADGEN_SLOT_QUEUE_H
#define LOADGEN_SLOT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* All zero is an empty queue with no room. */
struct slot_queue {
    uint32_t *ring;
    uint32_t room, head, length;
};

/* Makes room for ROOM slots, never less than before. Returns false when there is no memory. */
bool slot_queue_grow(struct slot_queue *queue, uint32_t room);

/* There is room for it. */
void slot_queue_push(struct slot_queue *queue, uint32_t slot);

/* The one that has been there the longest; there is one. */
uint32_t slot_queue_pop(struct slot_queue *queue);

void slot_queue_free(struct slot_queue *queue);

#endif
