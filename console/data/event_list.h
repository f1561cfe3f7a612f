/*
 * The last events of a server, those of one kind counted together: a worker that dies a hundred times
 * is one line with a hundred behind it. Two events are of one kind when level, process role and
 * text agree but for the numbers in it. Bounded; pure but for event_list_read(). The console's only
 * thread.
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

/* Another daemon: the next read begins with its oldest event. What is kept stays. */
void event_list_attach(struct event_list *list);

/* Takes what is new in the segment's ring. WALL_NS is now. Returns how many came. */
size_t event_list_read(struct event_list *list, const struct segment_reader *reader,
                       uint64_t wall_ns);

/* Takes one. */
void event_list_add(struct event_list *list, const struct event_record *event);

/*
 * The kinds, or the single events with SINGLE, of LEAST level and above, that had happened by UNTIL_NS
 * (wall clock; UINT64_MAX: all): fills ROWS (ROOM of them) with pointers, the newest first, and
 * returns how many. A kind is shown as it is now. Valid until the next read.
 */
size_t event_list_rows(const struct event_list *list, bool single, enum level least,
                       uint64_t until_ns, const struct event_row **rows, size_t room);

/* Events of LEVEL taken since the console began. */
uint64_t event_list_total(const struct event_list *list, enum level level);

/* Events that were overwritten before they could be read. */
uint64_t event_list_missed(const struct event_list *list);

#endif
