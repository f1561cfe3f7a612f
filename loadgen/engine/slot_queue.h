/* A FIFO queue of free slots, as a ring. One thread. */
#ifndef LOADGEN_SLOT_QUEUE_H
#define LOADGEN_SLOT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: empty, without room. */
struct slot_queue {
    uint32_t *ring;
    uint32_t capacity, head, length;
};

/* Makes room for CAPACITY slots; never shrinks. Returns false if out of memory. */
bool slot_queue_grow(struct slot_queue *queue, uint32_t capacity);

/* The queue must have room. */
void slot_queue_push(struct slot_queue *queue, uint32_t slot);

/* Removes the oldest slot; the queue must not be empty. */
uint32_t slot_queue_pop(struct slot_queue *queue);

void slot_queue_free(struct slot_queue *queue);

#endif
