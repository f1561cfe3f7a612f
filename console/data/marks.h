/*
 * Marks in time: reloads, changes of sizes, crashes, alerts, load runs. They stand on the graphs,
 * and the user can move from one to the next. Most are made from events; any part of the console
 * may add others. Bounded: the newest are kept. Pure; the console's only thread.
 */
#ifndef CONSOLE_MARKS_H
#define CONSOLE_MARKS_H

#include "console/data/lists.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mark_kind {
#define MARK(name, letter, severe, help) MARK_##name,
#include "console/data/marks.def"
#undef MARK
    MARK_KINDS
};

struct mark_info {
    const char *name;
    char letter;
    bool severe;
    const char *help;
};
extern const struct mark_info mark_table[MARK_KINDS];

enum { MARKS_MAX = 512, MARK_TEXT_BYTES = EVENT_TEXT_BYTES };

struct mark {
    uint64_t time_ns; /* wall clock */
    enum mark_kind kind;
    char text[MARK_TEXT_BYTES];
};

struct marks {
    size_t count;
    struct mark mark[MARKS_MAX]; /* oldest first */
};

/* Adds a mark; one with the same time and text is added only once. TEXT is printable. */
void marks_add(struct marks *marks, enum mark_kind kind, uint64_t time_ns, const char *text);

/* The kind of mark that an event with TEXT is; MARK_KINDS: none. */
enum mark_kind marks_kind_of(const char *text);

/* Adds the newest COUNT events of LIST that are marks. */
void marks_take_events(struct marks *marks, const struct event_list *list, size_t count);

/*
 * The mark to show for the time from FROM_NS (exclusive) to TO_NS, among the first COUNT: the newest
 * of the most important kind. NULL: none.
 */
const struct mark *marks_between(const struct marks *marks, size_t count, uint64_t from_ns,
                                 uint64_t to_ns);

/* The first mark after TIME_NS, or with EARLIER the last one before it; NULL: none. */
const struct mark *marks_next(const struct marks *marks, uint64_t time_ns, bool earlier);

#endif
