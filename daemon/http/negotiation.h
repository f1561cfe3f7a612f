/*
 * Proactive negotiation: lists of members with weights (RFC 9110 sections 5.6.1 and 12.4.2), Accept
 * (section 12.5.1) and Accept-Encoding (section 12.5.3). Pure; any thread.
 */
#ifndef DAEMON_NEGOTIATION_H
#define DAEMON_NEGOTIATION_H

#include "common/span.h"
#include "daemon/http/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Removes the text before the first SEPARATOR from *TEXT; returns it without surrounding blanks. */
struct span qvalue_cut(struct span *text, char separator);

/*
 * The weight of the media type TYPE/SUBTYPE, 0 to 1000: that of the most specific range that
 * matches. Without Accept it is 1000. Parameters of a range other than q are ignored.
 */
int accept_weight(const struct request *request, struct span type, struct span subtype);

/* True if JSON is preferred to text/SUBTYPE (html, plain), which is the default. */
static inline bool accept_prefers_json(const struct request *request, struct span subtype)
{
    return accept_weight(request, SPAN("application"), SPAN("json")) >
           accept_weight(request, SPAN("text"), subtype);
}

/* Content codings */

/* By increasing server preference, which decides between equal weights. */
enum coding { CODING_IDENTITY, CODING_GZIP, CODING_ZSTD, CODING_BR, CODING_COUNT };

extern const struct span coding_names[CODING_COUNT];      /* "gzip", as in Content-Encoding */
extern const struct span coding_extensions[CODING_COUNT]; /* ".gz"; both are "" for identity */

/*
 * The acceptable codings, best first: four bits each, coding + 1, the first in the lowest bits; 0
 * ends. CODING_TIED is set if the next one has the same weight. Equal preferences are equal numbers.
 */
typedef uint32_t coding_preference;

enum {
    CODING_TIED = 8,
    PREFER_IDENTITY = CODING_IDENTITY + 1 /* identity alone, as without Accept-Encoding */
};

/* Weights in thousandths, from the field lines; -1: not named. */
struct coding_weights {
    int16_t weight[CODING_COUNT];
    int16_t any; /* "*" */
};

#define CODING_WEIGHTS_NONE ((struct coding_weights){{-1, -1, -1, -1}, -1})

/* Adds one field line. Malformed members and unsupported codings are ignored. */
void coding_read(struct coding_weights *weights, struct span line);

/* The preference that results from all lines. 0: nothing is acceptable, not even identity. */
coding_preference coding_prefer(const struct coding_weights *weights);

/*
 * ACCEPTS for a range: clients add its bytes to what they have decoded, so identity if it is
 * acceptable; but first NAMED, the coding of a tag with which the client names what it has.
 */
coding_preference coding_prefer_for_range(coding_preference accepts, enum coding named);

/* The coding with whose name TAG, an entity tag of ours with its quotes, ends after a '-'. */
enum coding coding_of_tag(struct span tag);

/* Removes the next coding from *PREFERENCE; false if there is none. */
static inline bool coding_next(coding_preference *preference, enum coding *coding)
{
    if (*preference == 0)
        return false;
    *coding = (enum coding)((*preference & (CODING_TIED - 1)) - 1);
    *preference >>= 4;
    return true;
}

/* Codings of the same weight, in the order of a preference. */
struct coding_group {
    enum coding coding[CODING_COUNT];
    size_t count;
};

/* The same for all codings that have the weight of the next one. */
static inline bool coding_next_group(coding_preference *preference, struct coding_group *group)
{
    bool tied = true;

    for (group->count = 0; tied; group->count++) {
        tied = (*preference & CODING_TIED) != 0 && group->count + 1 < CODING_COUNT;
        if (!coding_next(preference, &group->coding[group->count]))
            break;
    }
    return group->count > 0;
}

static inline bool coding_group_has(const struct coding_group *group, enum coding coding)
{
    for (size_t i = 0; i < group->count; i++)
        if (group->coding[i] == coding)
            return true;
    return false;
}

#endif
