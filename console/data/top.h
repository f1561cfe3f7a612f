/*
 * Top lists: the most frequent paths, clients and so on in a window that ends at a chosen time of
 * the last 15 minutes. Each list has one sketch per ten seconds; a window adds them up. Memory is
 * bounded regardless of the number of different keys. Pure; the console's only thread.
 */
#ifndef CONSOLE_TOP_H
#define CONSOLE_TOP_H

#include "console/data/tail.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A sketch finds the most frequent keys of a stream in constant memory: the space-saving algorithm
 * of Metwally, Agrawal and El Abbadi ("Efficient computation of frequent and top-k elements in data
 * streams", ICDT 2005). A new key replaces the one with the lowest count and inherits that count as
 * its possible error, so a count is never too low, and too high by at most `error`. A key with more
 * than 1/SKETCH_KEYS of all occurrences is always present.
 */
enum { SKETCH_KEYS = 1024, SKETCH_BUCKETS = 1024, SKETCH_KEY_BYTES = 96 };

struct sketch_entry {
    double count, error;       /* the true count is from count - error to count */
    double bytes, duration_ns; /* sums over the occurrences counted for certain: count - error */
    double floor;              /* sum of sketch_item.floor */
    double longest_ns;
    char key[SKETCH_KEY_BYTES]; /* truncated, NUL-terminated */
};

/* Beside each other, so that few keys touch few pages. */
struct sketch_node {
    uint32_t hash; /* the truncated key's */
    uint16_t next; /* entry in the same chain, plus 1; 0: none */
    uint16_t at;   /* where in the heap the entry is */
    double rank;   /* the lowest is replaced: count, or longest duration */
    uint16_t heap; /* place i of a binary heap has this entry; the first ranks lowest */
};

struct sketch {
    uint32_t used;
    uint16_t bucket[SKETCH_BUCKETS]; /* first entry of each chain, plus 1; 0: none */
    struct sketch_node node[SKETCH_KEYS];
    struct sketch_entry entry[SKETCH_KEYS];
};

enum sketch_order {
    SKETCH_BY_COUNT,
    SKETCH_BY_LONGEST, /* finds the keys with the longest single duration */
};

/* One occurrence, or the sum of several. */
struct sketch_item {
    const char *key;
    size_t length;
    double count, error;
    double bytes, duration_ns, longest_ns;
    double floor; /* what a key that is absent from its source may have there at most */
};

void sketch_add(struct sketch *sketch, enum sketch_order order, const struct sketch_item *item);

/* Sorts the entries in descending order: of the count that is certain, or of the longest duration.
 * Afterwards sketch_add() must not be called. */
void sketch_sort(struct sketch *sketch, enum sketch_order order);

enum top_list {
    TOP_PATHS,
    TOP_CLIENTS,
    TOP_AGENTS,
    TOP_REFERERS,
    TOP_ERRORS,    /* status and path of responses with status 400 and above */
    TOP_SLOWEST,   /* paths by their longest request */
    TOP_PROTOCOLS, /* see tail_protocol() */
    TOP_LISTS
};

/* "paths", "clients" and so on. */
extern const char *const top_list_names[TOP_LISTS];

enum { TOP_PANE_S = 10, TOP_PANES = 92 };

struct top;

struct top *top_create(void);
void top_destroy(struct top *top);

/* Counts one request; ignored if it is older than all panes. */
void top_add(struct top *top, const struct tail_record *record);

/*
 * Reports that COUNT requests were missed at TIME_NS (wall clock): the counts of that pane are
 * scaled up.
 */
void top_miss(struct top *top, uint64_t time_ns, uint64_t count);

/* Declares that no request is missing since TIME_NS (wall clock); windows do not begin earlier. */
void top_set_known_since(struct top *top, uint64_t time_ns);

/* The time since which no request is missing; 0: before the first top_set_known_since(). */
uint64_t top_known_since(const struct top *top);

struct top_view {
    double seen, missed;  /* requests in the window */
    struct sketch sketch; /* sorted; counts and errors are scaled up for missed requests */
};

/*
 * Adds up LIST into INTO for the SECONDS before END_NS (wall clock), rounded up to whole panes and
 * as far as it is known. Returns the actual length of the window, s.
 */
int top_collect(const struct top *top, enum top_list list, uint64_t end_ns, int seconds,
                struct top_view *into);

/* The k of "1 in k sampled"; 1: no request was missed. */
unsigned top_one_in(const struct top_view *view);

#endif
