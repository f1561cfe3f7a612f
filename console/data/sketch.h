/*
 * The most frequent of endlessly many keys in constant memory: the space-saving sketch of Metwally,
 * Agrawal and El Abbadi ("Efficient computation of frequent and top-k elements in data streams",
 * ICDT 2005). A new key takes the place of the least counted one and inherits its count as a possible
 * error, so a count is never too small, and too large by `error` at most. A key that makes up more
 * than 1/SKETCH_KEYS of all is certain to be there. Pure; one thread.
 */
#ifndef CONSOLE_SKETCH_H
#define CONSOLE_SKETCH_H

#include <stddef.h>
#include <stdint.h>

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

#endif
