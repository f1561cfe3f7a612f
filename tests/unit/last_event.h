/* The events that this process has logged to the ring of the master in a segment: events_attach(). */
#ifndef TESTS_LAST_EVENT_H
#define TESTS_LAST_EVENT_H

#include "common/segment.h"

static inline uint64_t event_count(const struct segment *segment)
{
    return atomic_load(&segment_event_ring(segment, SEGMENT_RING_MASTER).shared->next);
}

/* The text of the last one; "": none. Valid until the next call. */
static inline const char *last_event(const struct segment *segment)
{
    struct event_ring ring = segment_event_ring(segment, SEGMENT_RING_MASTER);
    static struct event_record event;
    uint64_t number = event_count(segment);

    event.text[0] = '\0';
    if (number-- > 0 && event_ring_read(&ring, &number, 0, &event) != 1)
        event.text[0] = '\0';
    return event.text;
}

#endif
