/*
 * What is asked for most, over a sliding window that may end now or at any moment of the last quarter
 * of an hour: a sketch for each list and each ten seconds, added up when asked. Bounded memory, however
 * many different paths there are. Pure; the console's only thread.
 */
#ifndef CONSOLE_TOP_H
#define CONSOLE_TOP_H

#include "console/data/tail.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The most frequent of endlessly many keys in constant memory: the space-saving sketch of Metwally,
 * Agrawal and El Abbadi ("Efficient computation of frequent and top-k elements in data streams",
 * ICDT 2005). A new key takes the place of the least counted one and inherits its count as a possible
 * error, so a count is never too small, and too large by `error` at most. A key that makes up more
 * than 1/SKETCH_KEYS of all is certain to be there. Pure; one thread.
 */
enum { SKETCH_KEYS = 64, SKETCH_KEY_BYTES = 96 };

struct sketch_entry {
    double count, error;
    double bytes, duration_ns; /* sums over what was counted under this key */
    double longest_ns;
    char key[SKETCH_KEY_BYTES]; /* cut, ended by NUL */
};

struct sketch {
    uint32_t used;
    uint32_t hash[SKETCH_KEYS]; /* of the kept part of the key */
    double rank[SKETCH_KEYS];   /* what the least of which gives way: the count, or the longest */
    struct sketch_entry entry[SKETCH_KEYS];
};

enum sketch_order {
    SKETCH_BY_COUNT,
    SKETCH_BY_LONGEST, /* keeps the keys with the longest single duration instead */
};

/* One occurrence, or many that were added up elsewhere. */
struct sketch_item {
    const char *key;
    size_t length;
    double count, error;
    double bytes, duration_ns, longest_ns;
};

/* All bytes zero is an empty sketch. */
void sketch_add(struct sketch *sketch, enum sketch_order order, const struct sketch_item *item);

/* Sorts the entries, the greatest first. After that, nothing more may be added. */
void sketch_sort(struct sketch *sketch, enum sketch_order order);

enum top_list {
    TOP_PATHS,
    TOP_CLIENTS,
    TOP_AGENTS,
    TOP_REFERERS,
    TOP_ERRORS,  /* status and path of answers of 400 and above */
    TOP_SLOWEST, /* paths by their longest request */
    TOP_LISTS
};

/* "paths", "clients" and so on. */
extern const char *const top_list_names[TOP_LISTS];

enum { TOP_PANE_S = 10, TOP_PANES = 92 };

struct top;

struct top *top_create(void);
void top_destroy(struct top *top);

/* Counts one request. One that is older than all panes is left out. */
void top_add(struct top *top, const struct tail_line *line);

/* So many requests passed unseen at TIME_NS (wall clock): counts of that time are scaled up. */
void top_miss(struct top *top, uint64_t time_ns, uint64_t count);

/* From TIME_NS (wall clock) on no request is missing; what was before is not told of. */
void top_know_since(struct top *top, uint64_t time_ns);

/* False until the first top_know_since(): all is then taken to be known. */
bool top_known(const struct top *top);

struct top_view {
    double seen, missed;  /* requests of the window */
    struct sketch sketch; /* sorted; counts are scaled by what was missed */
};

/*
 * Adds up LIST for the SECONDS before END_NS (wall clock), to whole panes, as far as it is known,
 * into INTO. Returns the window's true length, s.
 */
int top_collect(const struct top *top, enum top_list list, uint64_t end_ns, int seconds,
                struct top_view *into);

/* K of "1 in k": 1 when every request was seen. */
unsigned top_one_in(const struct top_view *view);

#endif
