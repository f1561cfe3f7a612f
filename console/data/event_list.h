/*
 * The last events of a server, grouped by kind: a worker that dies a hundred times is one row with the
 * count 100. Two events are of one kind if level, process role and text are equal except for the
 * numbers in the text. Bounded; pure except for event_list_read(). The console's only thread.
 */
#ifndef CONSOLE_EVENT_LIST_H
#define CONSOLE_EVENT_LIST_H

#include "common/segment_reader.h"

#include <stddef.h>
#include <stdint.h>

enum { EVENT_LIST_KINDS = 256, EVENT_LIST_SINGLE = 1024 };

/* A kind, or a single event (count 1). */
struct event_row {
    uint64_t first_ns, last_ns; /* wall clock */
    uint64_t count;
    uint8_t level, role; /* of the newest */
    int32_t pid;
    char text[EVENT_TEXT_BYTES]; /* printable ASCII */
};

struct event_list;

struct event_list *event_list_create(void);
void event_list_destroy(struct event_list *list);

/* Another daemon: the next read starts with its oldest event. The events so far are kept. */
void event_list_attach(struct event_list *list);

/* Reads new events from the ring; WALL_NS is now. Returns their number. */
size_t event_list_read(struct event_list *list, const struct segment_reader *reader,
                       uint64_t wall_ns);

/* Adds one event. */
void event_list_add(struct event_list *list, const struct event_record *event);

/*
 * Fills ROWS (ROOM of them) with pointers to the kinds, or with SINGLE to the single events, of level
 * MIN_LEVEL and above that had occurred by UNTIL_NS (wall clock; UINT64_MAX: all), newest first. A kind
 * has its current count. Returns the number of rows, valid until the next read.
 */
size_t event_list_rows(const struct event_list *list, bool single, enum level min_level,
                       uint64_t until_ns, const struct event_row **rows, size_t room);

/* Number of events of LEVEL since the console started. */
uint64_t event_list_total(const struct event_list *list, enum level level);

/* Number of events overwritten before they were read. */
uint64_t event_list_missed(const struct event_list *list);

#endif
