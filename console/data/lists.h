/*
 * What the segment lists: events, cache contents, client addresses. The console's only thread.
 */
#ifndef CONSOLE_LISTS_H
#define CONSOLE_LISTS_H

#include "common/escape.h"
#include "common/segment_reader.h"
#include "console/data/top.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The last events of a server, grouped by kind: a worker that dies a hundred times is one row with
 * the count 100. Two events are of one kind if level, process role and text are equal except for
 * the numbers in the text. Bounded; pure except for event_list_read().
 */
enum { EVENT_LIST_KINDS = 256, EVENT_LIST_SINGLE = 1024 };

/* A row: a kind, or a single event with count 1. */
struct event_row {
    uint64_t first_ns, last_ns; /* wall clock */
    uint64_t count;
    uint8_t level, role; /* the newest event has them */
    int32_t pid;
    char text[EVENT_TEXT_BYTES]; /* printable ASCII */
};

struct event_list;

struct event_list *event_list_create(void);
void event_list_destroy(struct event_list *list);

/*
 * Call when another daemon is attached: the next read starts with its oldest events. Earlier events
 * are kept. Returns 0, or -1: out of memory.
 */
int event_list_attach(struct event_list *list, const struct segment_reader *reader);

/*
 * Reads new events of all processes, after event_list_attach(). WALL_NS is now. Returns their
 * number.
 */
size_t event_list_read(struct event_list *list, const struct segment_reader *reader,
                       uint64_t wall_ns);

/* The same for the daemon that was attached before, whose segment FORMER is still mapped. */
size_t event_list_read_former(struct event_list *list, const struct segment_reader *former,
                              uint64_t wall_ns);

/* Adds one event. */
void event_list_add(struct event_list *list, const struct event_record *event);

/*
 * Fills ROWS (ROOM of them) with pointers to the kinds, or with SINGLE to the single events, of
 * level MIN_LEVEL and above that had occurred by UNTIL_NS (wall clock; UINT64_MAX: all), newest
 * first. The count of a kind is the current one, even for an earlier UNTIL_NS. Returns the number
 * of rows, valid until the next read.
 */
size_t event_list_rows(const struct event_list *list, bool single, enum level min_level,
                       uint64_t until_ns, const struct event_row **rows, size_t room);

/* Number of events of LEVEL since the console started. */
uint64_t event_list_total(const struct event_list *list, enum level level);

/* Number of events overwritten before they were read. */
uint64_t event_list_missed(const struct event_list *list);

/*
 * The contents of the caches: one row per path, over all workers. Read from the workers' cache
 * tables and the threads' hit counters without a lock and without involving the server. The cost
 * grows with the size of the tables, so it is read twice a second at most and only while a view
 * wants it.
 */
enum { CACHE_PATH_BYTES = SEGMENT_CACHE_PATH_WORDS * 8 };

struct cache_row {
    char path[CACHE_PATH_BYTES];                    /* as in the cache */
    char text[ESCAPE_TEXT_BYTES(CACHE_PATH_BYTES)]; /* the same for people: readable UTF-8 */
    uint32_t copies;                                /* workers that hold it */
    uint32_t stale;     /* so many copies are replaced or removed, but still in use */
    uint64_t bytes;     /* all copies together */
    uint64_t hits;      /* all copies together, since they were stored */
    uint64_t stored_ns; /* wall clock, of the oldest copy */
};

struct cache_list {
    struct cache_row *rows; /* sorted by path */
    size_t count, room;
    uint64_t bytes;    /* all rows together */
    uint64_t taken_ns; /* wall clock; 0: never */
};

/* Reads all tables. Returns 0, or -1: out of memory, the list is empty. */
int cache_list_take(struct cache_list *list, const struct segment_reader *reader, uint64_t wall_ns);

/* Adds one copy of an entry; cache_list_finish() merges the copies by path. -1: out of memory. */
int cache_list_add(struct cache_list *list, const struct cache_copy *entry, uint64_t hits);
void cache_list_finish(struct cache_list *list);

void cache_list_release(struct cache_list *list);

enum cache_order { CACHE_BY_HITS, CACHE_BY_SIZE, CACHE_BY_AGE, CACHE_BY_PATH, CACHE_ORDERS };
extern const char *const cache_order_names[CACHE_ORDERS];

/*
 * Fills ROWS (list->count of them) with pointers to the rows: largest first, by age newest first,
 * by path A to Z; REVERSED: the other way round.
 */
void cache_list_sort(const struct cache_list *list, enum cache_order order, bool reversed,
                     const struct cache_row **rows);

/*
 * Client addresses with their open connections and their share of the rate limit. Read from the
 * tables of the segment, twice a second at most and only while a view wants it.
 */
struct client_row {
    uint64_t key;         /* see client_key() */
    uint64_t connections; /* open in all workers */
    uint64_t limited;     /* responses with status 429 since the address entered the table */
    double used;          /* requests used of the burst */
};

struct client_list {
    struct client_row *rows; /* sorted by key */
    size_t count, room;
    bool limits; /* the rate limit is on */
    uint32_t requests_per_second, burst;
};

/* Reads all tables; NOW_NS is the monotonic clock. Returns 0, or -1: out of memory, the list is
 * empty. */
int client_list_take(struct client_list *list, const struct segment_reader *reader,
                     uint64_t now_ns);
void client_list_release(struct client_list *list);

/* The row of KEY, or NULL. */
const struct client_row *client_list_find(const struct client_list *list, uint64_t key);

/* One client: its requests in some period, its row in the list. One of them may be NULL. */
struct client {
    const struct sketch_entry *requests;
    const struct client_row *row;
};

struct clients {
    struct client *client;
    size_t count, room;
};

/*
 * Joins SKETCH, whose keys are addresses, with LIST, which may be NULL. The result has the entries
 * of the sketch in their order, then the remaining rows of the list, most connections first. The
 * result points into both. Returns 0, or -1: out of memory.
 */
int clients_join(struct clients *clients, const struct sketch *sketch,
                 const struct client_list *list);
void clients_release(struct clients *clients);

/* The certificates in use, in the order of the server. */

struct certificate_list {
    struct certificate_copy row[SEGMENT_CERTIFICATES_MAX]; /* texts without control characters */
    size_t count;
};

/* Reads them; none if the server is older than its certificates in shared memory. */
void certificate_list_take(struct certificate_list *list, const struct segment_reader *reader);

#endif
