#include "loadgen/engine/slot_queue.h"

#include <stdlib.h>

bool slot_queue_grow(struct slot_queue *queue, uint32_t capacity)
{
    uint32_t *ring;

    if (capacity <= queue->capacity)
        return true;
    ring = malloc(capacity * sizeof(*ring));
    if (ring == NULL)
        return false;
    for (uint32_t i = 0; i < queue->length; i++)
        ring[i] = queue->ring[(queue->head + i) % queue->capacity];
    free(queue->ring);
    *queue = (struct slot_queue){ring, capacity, 0, queue->length};
    return true;
}

void slot_queue_push(struct slot_queue *queue, uint32_t slot)
{
    queue->ring[(queue->head + queue->length++) % queue->capacity] = slot;
}

uint32_t slot_queue_pop(struct slot_queue *queue)
{
    uint32_t slot = queue->ring[queue->head];

    queue->head = (queue->head + 1) % queue->capacity;
    queue->length--;
    return slot;
}

void slot_queue_free(struct slot_queue *queue)
{
    free(queue->ring);
    *queue = (struct slot_queue){0};
}
