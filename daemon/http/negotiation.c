#include "daemon/http/negotiation.h"

#include "common/macros.h"

#include <stdbool.h>

struct span qvalue_cut(struct span *text, char separator)
{
    const char *found = memchr(text->start, separator, text->length);
    size_t length = found != NULL ? (size_t)(found - text->start) : text->length;
    struct span piece = {text->start, length};
    size_t past = found != NULL ? length + 1 : length;

    *text = (struct span){text->start + past, text->length - past};
    return span_trim(piece);
}

/* Parses a weight, in thousandths: "0.123" is 123, "1" is 1000; -1: malformed. */
static int read_qvalue(struct span text)
{
    int value = 0;
    int place = 1000;

    if (text.length == 0 || text.length > 5 || (text.start[0] != '0' && text.start[0] != '1') ||
        (text.length > 1 && text.start[1] != '.'))
        return -1;
    for (size_t i = 0; i < text.length; i++) {
        if (i == 1)
            continue;
        if (text.start[i] < '0' || text.start[i] > '9')
            return -1;
        value += (text.start[i] - '0') * place;
        place /= 10;
    }
    return value <= 1000 ? value : -1;
}

/* Accept */

enum specificity { NO_MATCH, ANY_TYPE, ANY_SUBTYPE, SAME_TYPE };

static enum specificity match_media_range(struct span range, struct span type, struct span subtype)
{
    struct span of_range = qvalue_cut(&range, '/');

    if (span_is(of_range, SPAN("*")))
        return span_is(range, SPAN("*")) ? ANY_TYPE : NO_MATCH;
    if (!span_is_nocase(of_range, type))
        return NO_MATCH;
    if (span_is(range, SPAN("*")))
        return ANY_SUBTYPE;
    return span_is_nocase(range, subtype) ? SAME_TYPE : NO_MATCH;
}

/* The q parameter after a media range: 1000 if there is none, -1 if it is malformed. */
static int media_range_weight(struct span parameters)
{
    while (parameters.length > 0) {
        struct span parameter = qvalue_cut(&parameters, ';');
        struct span name = qvalue_cut(&parameter, '=');

        if (span_is_nocase(name, SPAN("q")))
            return read_qvalue(parameter);
    }
    return 1000;
}

int accept_weight(const struct request *request, struct span type, struct span subtype)
{
    enum specificity best = NO_MATCH;
    const char *at = NULL;
    struct span line;
    int weight = 0;

    if ((request->present & REQUEST_ACCEPT) == 0)
        return 1000;
    while (request_next_value(request, REQUEST_ACCEPT, &at, &line))
        while (line.length > 0) {
            struct span member = qvalue_cut(&line, ',');
            struct span range = qvalue_cut(&member, ';');
            enum specificity fits = match_media_range(range, type, subtype);
            int its = media_range_weight(member);

            if (fits > best && its >= 0) {
                best = fits;
                weight = its;
            }
        }
    return weight;
}

/* Content codings */

const struct span coding_names[CODING_COUNT] = {
    [CODING_IDENTITY] = {"", 0},
    [CODING_GZIP] = {"gzip", 4},
    [CODING_ZSTD] = {"zstd", 4},
    [CODING_BR] = {"br", 2},
};

const struct span coding_extensions[CODING_COUNT] = {
    [CODING_IDENTITY] = {"", 0},
    [CODING_GZIP] = {".gz", 3},
    [CODING_ZSTD] = {".zst", 4},
    [CODING_BR] = {".br", 3},
};

/* Parses the weight in the PARAMETERS of a member: 1000 if there is none, -1 if it is malformed. */
static int read_weight(struct span parameters)
{
    static const struct span name = {"q=", 2};

    parameters = qvalue_cut(&parameters, ',');
    if (parameters.length == 0)
        return 1000;
    if (parameters.length < name.length ||
        !span_is_nocase((struct span){parameters.start, name.length}, name))
        return -1;
    return read_qvalue(
        (struct span){parameters.start + name.length, parameters.length - name.length});
}

/* Where to store the weight of the coding NAME; NULL: not supported. */
static int16_t *weight_place(struct coding_weights *weights, struct span name)
{
    if (span_is(name, SPAN("*")))
        return &weights->any;
    if (span_is_nocase(name, SPAN("identity")))
        return &weights->weight[CODING_IDENTITY];
    if (span_is_nocase(name, SPAN("x-gzip"))) /* section 8.4.1.3 */
        return &weights->weight[CODING_GZIP];
    for (int i = CODING_IDENTITY + 1; i < CODING_COUNT; i++)
        if (span_is_nocase(name, coding_names[i]))
            return &weights->weight[i];
    return NULL;
}

void coding_read(struct coding_weights *weights, struct span line)
{
    while (line.length > 0) {
        struct span member = qvalue_cut(&line, ',');
        bool weighted = memchr(member.start, ';', member.length) != NULL;
        struct span name = qvalue_cut(&member, ';');
        int weight = weighted && member.length == 0 ? -1 : read_weight(member);
        int16_t *place = weight_place(weights, name);

        if (place != NULL && weight >= 0)
            *place = (int16_t)weight;
    }
}

/*
 * Section 12.5.3: identity is acceptable unless it, or "*" without it, has weight 0. If it is not
 * named it comes last: a client that names codings prefers them.
 */
static int effective_weight(const struct coding_weights *weights, int coding)
{
    if (weights->weight[coding] >= 0)
        return weights->weight[coding];
    if (coding == CODING_IDENTITY)
        return weights->any == 0 ? 0 : 1;
    return weights->any > 0 ? weights->any : 0;
}

coding_preference coding_prefer(const struct coding_weights *weights)
{
    coding_preference preference = 0;
    bool taken[CODING_COUNT] = {false};
    int weight = 0; /* of the coding before */

    for (unsigned place = 0; place < CODING_COUNT; place++) {
        int best = -1;

        for (int i = CODING_COUNT - 1; i >= 0; i--)
            if (!taken[i] && effective_weight(weights, i) > 0 &&
                (best < 0 || effective_weight(weights, i) > effective_weight(weights, best)))
                best = i;
        if (best < 0)
            break;
        taken[best] = true;
        if (place > 0 && effective_weight(weights, best) == weight)
            preference |= (coding_preference)CODING_TIED << (4 * (place - 1));
        weight = effective_weight(weights, best);
        preference |= (coding_preference)(best + 1) << (4 * place);
    }
    return preference;
}

coding_preference coding_prefer_for_range(coding_preference accepts, enum coding named)
{
    bool accepts_identity = false, accepts_named = false;
    coding_preference rest = accepts, preference;
    enum coding coding;

    while (coding_next(&rest, &coding)) {
        accepts_identity |= coding == CODING_IDENTITY;
        accepts_named |= coding == named;
    }
    if (!accepts_identity)
        return accepts;
    preference = PREFER_IDENTITY;
    if (accepts_named && named != CODING_IDENTITY)
        preference = preference << 4 | (coding_preference)(named + 1);
    return preference;
}

enum coding coding_of_tag(struct span tag)
{
    const char *dash = tag.length > 0 ? memrchr(tag.start, '-', tag.length) : NULL;
    const char *end = tag.start + tag.length;

    for (int i = CODING_IDENTITY + 1; dash != NULL && i < CODING_COUNT; i++)
        if (end[-1] == '"' && span_is(span_between(dash + 1, end - 1), coding_names[i]))
            return (enum coding)i;
    return CODING_IDENTITY;
}
