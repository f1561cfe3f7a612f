/*
 * Content codings: what a client accepts (Accept-Encoding, RFC 9110 section 12.5.3), in the order in
 * which it is to be tried. Pure.
 */
#ifndef DAEMON_CODING_H
#define DAEMON_CODING_H

#include "common/span.h"

#include <stdbool.h>
#include <stdint.h>

/* In the order of our own preference, the least first: it decides between equal weights. */
enum coding { CODING_IDENTITY, CODING_GZIP, CODING_ZSTD, CODING_BR, CODING_COUNT };

/* "gzip", as Content-Encoding says it, and the file name ending, ".gz". "" for identity. */
extern const struct span coding_names[CODING_COUNT];
extern const struct span coding_endings[CODING_COUNT];

/*
 * The acceptable codings, the best first: four bits each, coding + 1, the first in the lowest; 0
 * ends. Equal preferences are equal numbers.
 */
typedef uint32_t coding_preference;

enum { PREFER_IDENTITY = CODING_IDENTITY + 1 }; /* nothing else: as without Accept-Encoding */

/* Weights in thousandths as the lines of the field say them; -1: not named. */
struct coding_weights {
    int16_t weight[CODING_COUNT];
    int16_t any; /* "*" */
};

#define CODING_WEIGHTS_NONE ((struct coding_weights){{-1, -1, -1, -1}, -1})

/* One field line. Members that are malformed or of codings that we don't have are passed over. */
void coding_read(struct coding_weights *weights, struct span line);

/* What all lines together mean. 0: nothing is acceptable, not even identity. */
coding_preference coding_prefer(const struct coding_weights *weights);

/* Cuts the next one off *PREFERENCE; false when there is none left. */
static inline bool coding_next(coding_preference *preference, enum coding *coding)
{
    if (*preference == 0)
        return false;
    *coding = (enum coding)((*preference & 15) - 1);
    *preference >>= 4;
    return true;
}

/* Media types worth compressing: text, and what is text in disguise. TYPE may have parameters. */
bool coding_compressible(const char *type);

#endif
